"""Check that the entries which the sentences of a summary cite support them. Its text is kept as it is."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise

from rlm.answers.support.check import check_support
from rlm.answers.support.claims import TABLE_RULE, Claim, sentence_places
from rlm.answers.support.passages import MAX_PASSAGE_CHARS, Passage
from rlm.models.base import Model
from rlm.results import NOT_SUPPORTED, ClaimSupport, Support
from rlm.tasks.jobs.job import Job
from rlm.tasks.summaries.entries import Entry

__all__ = ["MARK", "NO_SOURCE", "CheckedSummary", "check_summary", "names_in"]

NO_SOURCE = "(no source found)"
"""The remark behind a paragraph that cites nothing."""
_NUMBERS = r"\d{1,7}(?:\s*[-–—]\s*[mp]?\d{1,7})?"
MARK = re.compile(rf"(?<!\s)\s*\[([mp]{_NUMBERS}(?:\s*[,;&]\s*[mp]?{_NUMBERS})*)\](?!\()", re.IGNORECASE)
"""A mark of messages or paragraphs: `[m12]`, `[m3, m7]`, `[p12-p15]`."""
_RANGE = re.compile(r"([mp])?(\d+)(?:\s*[-–—]\s*[mp]?(\d+))?", re.IGNORECASE)
_MAX_RANGE = 500
_AROUND = 2
"""In talk a message says little alone: so many before and after it are shown with it."""
_SHORT_CHARS = 1_000
"""A longer message is understood alone."""
_MAX_SHOWN = 5
_FENCE = re.compile(r"[ \t]*(?:```|~~~)")
_NO_STATEMENT = re.compile(r"(?:#{1,6}[ \t].*|[-=*_|: \t]+|\*\*[^*\n]+\*\*:?|.*[:：])?")
"""A heading, a rule, or a line that introduces others, without the blanks around it."""
_EDGE = " \t|"
_ITEM = re.compile(r"[ \t]*(?:[-*+•]|\d{1,3}[.)])[ \t]")


@dataclass(frozen=True, slots=True)
class CheckedSummary:
    """The text with remarks behind what nothing supports, the names of the entries that it cites in their
    order, and the support of its sentences."""

    text: str
    names: tuple[str, ...]
    support: Support


def names_in(mark: str) -> list[str]:
    """Return the names in the text of a mark. `m120-25` ends at m125, and `m15-m12` begins at m12. Of a
    range of more than 500 these are the two ends."""
    names: list[str] = []
    letter = "m"
    for kind, first, last in _RANGE.findall(mark):
        letter = kind.lower() or letter
        whole = first[: len(first) - len(last)] + last
        low, high = sorted((int(first), int(whole)))
        numbers = range(low, high + 1) if high - low < _MAX_RANGE else (low, high)
        names += [f"{letter}{number}" for number in numbers]
    return names


async def check_summary(
    job: Job, model: Model, text: str, entries: Sequence[Entry], alone: Collection[str] = ()
) -> CheckedSummary:
    """Compare the sentences with the entries that they cite, by one call of the model if the job checks
    support. Behind those that these do not support stands a remark, and behind paragraphs that cite nothing,
    too. Entries with the contents of `alone` are understood without their neighbours.
    """
    places = {entry.name: place for place, entry in enumerate(entries)}
    marks = [(mark.start(1) - 1, names_in(mark[1])) for mark in MARK.finditer(text)]
    unknown = list(dict.fromkeys(name for _, names in marks for name in names if name not in places))
    if unknown:
        more = " …" if len(unknown) > _MAX_SHOWN else ""
        job.warn(f"the summary names sources that do not exist: {', '.join(unknown[:_MAX_SHOWN])}{more}")
    sourced: list[tuple[int, int, tuple[str, ...]]] = []
    remarks: dict[int, str] = {}
    for start, end in _blocks(text):
        own = [one for one in marks if start <= one[0] < end and not places.keys().isdisjoint(one[1])]
        if not own:
            remarks[end] = NO_SOURCE
        sourced += _sentences(text, start, end, own, places)
    bare = len(remarks)
    if bare:
        job.warn(f"{bare:,} {'paragraph' if bare == 1 else 'paragraphs'} of the summary name no source")
    cited = [(MARK.sub("", text[start:end]).strip(), names) for start, end, names in sourced if names]
    asked = job.config.settings.check_support is not False
    claims, passages = _claims_and_passages(cited, entries, places, alone)
    support = await check_support(claims, passages, job.support_model(model) if asked else None)
    for note in support.notes:
        job.warn(note)
    used = {name for _, names in cited for name in names}
    names = tuple(sorted(used, key=lambda name: places[name]))
    numbers = {name: number for number, name in enumerate(names, 1)}
    verdicts = iter(support.claims)
    judged: list[ClaimSupport] = []
    doubtful = 0
    for start, end, own_names in sourced:
        words = MARK.sub("", text[start:end]).strip()
        sources = tuple(numbers[name] for name in own_names)
        if not own_names:
            judged.append(ClaimSupport(words, (), "unchecked", None, "it cites no source", start, end))
            continue
        verdict = next(verdicts)
        judged.append(replace(verdict, text=words, sources=sources, reason="", start=start, end=end))
        if verdict.status == "unsupported":
            remarks[end] = NOT_SUPPORTED
            doubtful += 1
            if doubtful <= _MAX_SHOWN:
                job.warn(f"not supported by what it cites: {words[:200]}")
    text, judged = _with_remarks(text, remarks, judged)
    return CheckedSummary(text, names, Support(tuple(judged), support.model, support.notes))


def _claims_and_passages(
    cited: Sequence[tuple[str, Sequence[str]]],
    entries: Sequence[Entry],
    places: Mapping[str, int],
    alone: Collection[str],
) -> tuple[list[Claim], list[Passage]]:
    """Return the sentences as claims, and what they cite as passages, with the messages around them."""
    wanted = sorted({places[name] for _, names in cited for name in names})
    windows = {place: _window(entries, place, alone) for place in wanted}
    shown = sorted({one for window in windows.values() for one in window})
    numbers = {place: number for number, place in enumerate(shown, 1)}
    passages: list[Passage] = []
    for place in shown:
        entry, window = entries[place], windows.get(place, range(place, place + 1))
        near = [entries[one].message for one in window if one != place]
        passages.append(
            Passage(
                entry.message.content[:MAX_PASSAGE_CHARS],
                near="\n".join(f"{one.author or ''}: {one.content}" for one in near),
                label=", ".join(filter(None, (entry.name, entry.message.author, entry.message.created_at))),
                window=(numbers[window[0]], numbers[window[-1]]) if _is_talk(entry, alone) else None,
                follows=place - 1 in numbers and entries[place - 1].document == entry.document,
            )
        )
    claims = [Claim(text, tuple(numbers[places[name]] for name in names)) for text, names in cited]
    return claims, passages


def _window(entries: Sequence[Entry], place: int, alone: Collection[str]) -> range:
    """Return the places of the messages that are shown with one. A long message, a card, and a paragraph of
    a document stand alone."""
    document = entries[place].document
    first = last = place
    if _is_talk(entries[place], alone):
        near = [
            entry.document == document and _is_talk(entry, alone)
            for entry in entries[max(0, place - _AROUND) : place + _AROUND + 1]
        ]
        before = near[: min(place, _AROUND)][::-1]
        after = near[len(before) + 1 :]
        first -= next((at for at, talks in enumerate(before) if not talks), len(before))
        last += next((at for at, talks in enumerate(after) if not talks), len(after))
    return range(first, last + 1)


def _is_talk(entry: Entry, alone: Collection[str]) -> bool:
    content = entry.message.content
    is_message = not entry.card and not entry.name.startswith("p") and content not in alone
    return is_message and len(content) <= _SHORT_CHARS


def _blocks(text: str) -> Iterator[tuple[int, int]]:
    """Yield the places of the paragraphs, list items and rows of tables. Headings, rules and code are left
    out."""
    start: int | None = None
    at = end = 0
    in_fence = in_table = False
    for line, following in pairwise([*text.splitlines(keepends=True), ""]):
        first, at = at, at + len(line)
        is_fence = _FENCE.match(line) is not None
        in_fence = in_fence != is_fence
        is_head = not in_fence and "|" in line and TABLE_RULE.match(following) is not None
        in_table = "|" in line and (in_table or is_head)
        is_apart = is_fence or in_fence or is_head or _NO_STATEMENT.fullmatch(line.strip()) is not None
        if start is not None and (is_apart or in_table or _ITEM.match(line)):
            yield start, end
            start = None
        if in_table and not is_apart:
            # A remark behind the last bar would be a cell more.
            inside = line.rstrip().rstrip(_EDGE)
            yield first + len(line) - len(line.lstrip(_EDGE)), first + len(inside)
        elif not is_apart:
            start, end = first if start is None else start, first + len(line.rstrip())
    if start is not None:
        yield start, end


def _sentences(
    text: str,
    start: int,
    end: int,
    marks: Sequence[tuple[int, Collection[str]]],
    known: Collection[str],
) -> Iterator[tuple[int, int, tuple[str, ...]]]:
    """Yield the sentences of a block with what they cite: by their own marks, or else by the next ones."""
    for first, last in sentence_places(text, start, end):
        own = [mark for mark in marks if first <= mark[0] < last]
        following = [mark for mark in marks if mark[0] >= last]
        names = [name for mark in own or following[:1] for name in mark[1] if name in known]
        if re.search(r"[^\W_]", MARK.sub("", text[first:last])):
            yield first, last, tuple(dict.fromkeys(names))


def _with_remarks(
    text: str, remarks: Mapping[int, str], claims: Sequence[ClaimSupport]
) -> tuple[str, list[ClaimSupport]]:
    """Return the text with remarks at these places, and the claims with their new places."""
    pieces: list[str] = []
    at = 0
    for place in sorted(remarks):
        pieces += [text[at:place], f" {remarks[place]}"]
        at = place

    def moved(place: int) -> int:
        return place + sum(len(remark) + 1 for where, remark in remarks.items() if where < place)

    placed = [replace(claim, start=moved(claim.start or 0), end=moved(claim.end or 0)) for claim in claims]
    return "".join([*pieces, text[at:]]), placed
