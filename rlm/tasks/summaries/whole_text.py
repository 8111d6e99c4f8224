"""Summarize a text that fits the model's window by one call over the whole of it, in prose."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import pairwise

from rlm.answers.support.claims import TABLE_RULE, sentence_places
from rlm.errors import BudgetExhausted, ModelError, cause_of
from rlm.escaping import markdown_answer
from rlm.lazy_dataclass import dataclass
from rlm.models.base import Model
from rlm.prompts.history import Message
from rlm.prompts.history.message import render
from rlm.prompts.templates import table
from rlm.prompts.tokens.counters import get_counter
from rlm.results import NOT_SUPPORTED, ClaimSupport, Support
from rlm.sandbox.text.body import Body
from rlm.tasks.jobs.job import Job
from rlm.tasks.summaries.entries import Entry
from rlm.tasks.summaries.sections import cut_evenly
from rlm.tasks.summaries.summary_lines import MARK, NO_SOURCE, Line, names_in
from rlm.tasks.summaries.writing.forms import Form
from rlm.tasks.summaries.writing.line_check import check_lines

__all__ = ["WholeRequest", "WholeSummary", "fits_one_call", "paragraphs_of", "summarize_whole"]

_COUNTER = get_counter()
_OVERHEAD = 1_500
"""Tokens of the prompt besides the text, at most."""
_WINDOW_SHARE = 0.9
_WORDS_A_TOKEN = 0.72
_CHARS_A_WORD = 12
"""More than that, and the text has no blanks between its words."""
_OUTPUT_A_TOKEN = 2
_FOR_MARKS = 1_000
_TOO_LONG = 1.3
_PARAGRAPH_CHARS = 1_500
_MAX_SHOWN = 5
_FENCE = re.compile(r"[ \t]*(?:```|~~~)")
_NO_STATEMENT = re.compile(r"(?:#{1,6}[ \t].*|[-=*_|: \t]+|\*\*[^*\n]+\*\*:?|.*[:：])?")
"""A heading, a rule, or a line that introduces others, without the blanks around it."""
_EDGE = " \t|"
_ITEM = re.compile(r"[ \t]*(?:[-*+•]|\d{1,3}[.)])[ \t]")


@dataclass(frozen=True, slots=True)
class WholeRequest:
    """A summary of at most `tokens` tokens, its marks not counted. With a `form` it has the headings of that,
    else it is grouped by subject. `is_card`: it begins with the card's id, purpose and state. `earlier` is
    the summary of the first `known` entries, which are not read again, "" for none. `computed` are exact
    statements about all of it."""

    tokens: int
    form: Form | None = None
    focus: str = ""
    is_card: bool = False
    is_document: bool = False
    earlier: str = ""
    known: int = 0
    computed: tuple[str, ...] = ()

    @property
    def words(self) -> int:
        """The number of words that are asked for."""
        return int(self.tokens * _WORDS_A_TOKEN)


@dataclass(frozen=True, slots=True)
class WholeSummary:
    """What the model wrote, with remarks behind what nothing supports, the names of the entries that it
    cites, and the support of its sentences."""

    text: str
    names: tuple[str, ...]
    support: Support


def paragraphs_of(body: Body) -> tuple[Entry, ...]:
    """Return the paragraphs of all documents in order, long ones in pieces, named p1, p2, …"""
    found: list[Entry] = []
    for document in body.documents:
        text = body.text(document.start, document.end)
        start = 0
        for match in re.finditer(r"\n[ \t]*\n\s*|\Z", text):
            if not text[start : match.end()].strip():
                continue
            first, last = document.start + start, document.start + match.end()
            start = match.end()
            pieces = cut_evenly(body, first, last, -(-(last - first) // _PARAGRAPH_CHARS))
            for one, end in zip(pieces, [*pieces[1:], last], strict=True):
                content = body.text(one, end).strip()
                if content:
                    message = Message("user", content, id=f"p{len(found) + 1}")
                    found.append(Entry(one, end, message, document.name))
    return tuple(found)


def fits_one_call(model: Model, entries: Sequence[Entry], tokens: int) -> bool:
    """Return whether one call of the model can read all entries, and write a summary of `tokens` tokens."""
    room = int(model.window.context * _WINDOW_SHARE) - _output(model, tokens) - _OVERHEAD - tokens
    size = 0
    for entry in entries:
        size += _COUNTER.count(_shown(entry)) + 1
        if size > room:
            return False
    return bool(entries)


async def summarize_whole(
    job: Job, model: Model, entries: Sequence[Entry], request: WholeRequest, *, alone: Collection[str] = ()
) -> WholeSummary | None:
    """Return the summary that the model writes in one call, or None if it fails: a warning then says so.

    Its text is kept as it is. Its sentences are compared with the entries that they cite, by one call if the
    job checks support; behind those that these do not support stands a remark, and behind paragraphs that
    cite nothing, too. Entries with the contents of `alone` are understood without their neighbours.
    """
    output = _output(model, request.tokens)
    try:
        text = await job.ask(model, _prompt(entries, request), output, keep_cut="text", is_answer=True)
    except (ModelError, BudgetExhausted) as error:
        job.warn(f"the summarizer failed ({type(error).__name__}: {cause_of(error)})")
        job.note_stop(error)
        return None
    if not text.strip():
        job.warn("the summary was empty")
        return None
    if _size(text) > request.tokens * _TOO_LONG:
        text = await _shortened(job, model, text, request, output)
    if _size(text) > request.tokens * _TOO_LONG:
        job.warn(f"the summary is longer than the {request.tokens:,} tokens that were asked for")
    return await _checked(job, model, markdown_answer(text.strip()), entries, alone)


async def _shortened(job: Job, model: Model, text: str, request: WholeRequest, output: int) -> str:
    """Return what the model makes of a text that is too long; the text itself if the call fails, or its reply
    is cut off or no shorter."""
    ask = table("summaries.toml")["whole"]["shorten"].strip()
    ask = ask.format(words=request.words, now=len(MARK.sub("", text).split()), summary=text)
    try:
        shorter = await job.ask(model, ask, output)
    except (ModelError, BudgetExhausted) as error:
        job.warn(f"the summary was not shortened: {cause_of(error)}")
        return text
    if not shorter.strip() or _size(shorter) >= _size(text):
        return text
    job.withdraw_draft()
    return shorter


def _output(model: Model, tokens: int) -> int:
    return min(model.window.output, _OUTPUT_A_TOKEN * tokens + _FOR_MARKS)


def _size(text: str) -> float:
    """Return the length in tokens, without marks: by its words, in which the length was asked for. A script
    without blanks between words is estimated, which counts up to half too many tokens.
    """
    plain = MARK.sub("", text)
    words = len(plain.split())
    if words * _CHARS_A_WORD < len(plain):
        return _COUNTER.count(plain)
    return words / _WORDS_A_TOKEN


def _shown(entry: Entry) -> str:
    if entry.name.startswith("p"):
        return f"[{entry.name}] {entry.message.content}"
    return render(entry.message, entry.name)


def _prompt(entries: Sequence[Entry], request: WholeRequest) -> str:
    words: Mapping[str, str] = table("summaries.toml")["whole"]
    reader = f"a reader who wants this of it: {' '.join(request.focus.split())}" if request.focus else ""
    if request.form is None:
        order = words["by_subject"].strip()
    else:
        order = words["headings"].strip().format(headings=request.form.described())
    begin = words["card" if request.is_card else "begin"].strip()
    unit = words["paragraphs" if request.is_document else "messages"].strip()
    letter = "p" if request.is_document else "m"
    ask = words["ask"].strip().format(
        reader=reader or (request.form.reader if request.form else words["reader"].strip()),
        begin=begin, order=order, words=request.words, unit=unit, m=letter,
    )  # fmt: skip
    several = len({entry.document for entry in entries}) > 1
    rows: list[str] = []
    document = ""
    for entry in entries[request.known :]:
        if several and entry.document != document:
            document = entry.document
            rows.append(words["document"].strip().format(name=" ".join(document.split())))
        rows.append(_shown(entry))
    earlier = f"\n\n{words['earlier'].strip().format(summary=request.earlier)}" if request.earlier else ""
    if request.computed:
        earlier += f"\n\n{words['computed'].strip()}\n\n" + "\n".join(request.computed)
    return f"{ask}{earlier}\n\n---\n\n" + "\n".join(rows)


async def _checked(
    job: Job, model: Model, text: str, entries: Sequence[Entry], alone: Collection[str]
) -> WholeSummary:
    known = {entry.name for entry in entries}
    marks = [(mark.start(1) - 1, names_in(mark[1])) for mark in MARK.finditer(text)]
    unknown = dict.fromkeys(name for _, names in marks for name in names if name not in known)
    if unknown:
        more = " …" if len(unknown) > _MAX_SHOWN else ""
        shown = ", ".join(list(unknown)[:_MAX_SHOWN])
        job.warn(f"the summary names sources that do not exist: {shown}{more}")
    sourced: list[tuple[int, int, tuple[str, ...]]] = []
    remarks: dict[int, str] = {}
    bare = 0
    for start, end in _blocks(text):
        own = [one for one in marks if start <= one[0] < end and known.intersection(one[1])]
        if not own:
            bare += 1
            remarks[end] = NO_SOURCE
        sourced += _sentences(text, start, end, own, known)
    if bare:
        job.warn(f"{bare:,} {'paragraph' if bare == 1 else 'paragraphs'} of the summary name no source")
    asked = job.config.settings.check_support is not False
    lines = [Line("", MARK.sub("", text[start:end]).strip(), names) for start, end, names in sourced]
    cited = [line for line in lines if line.names]
    checked = await check_lines(cited, entries, job.support_model(model) if asked else None, alone=alone)
    for note in checked.notes:
        job.warn(note)
    verdicts = iter(checked.lines)
    names = tuple(entry.name for entry in entries if any(entry.name in line.names for line in lines))
    numbers = {name: number for number, name in enumerate(names, 1)}
    claims: list[ClaimSupport] = []
    for (start, end, own_names), line in zip(sourced, lines, strict=True):
        sources = tuple(numbers[name] for name in own_names)
        claim = ClaimSupport(line.text, sources, "unchecked", None, "it cites no source", start, end)
        if own_names:
            one = next(verdicts)
            claim = replace(
                claim,
                status="unsupported" if one.doubtful else "supported" if one.test else "unchecked",
                test=one.test,
                reason="",
            )
            if one.doubtful:
                remarks[end] = NOT_SUPPORTED
                if bare + sum(claim.status == "unsupported" for claim in claims) < _MAX_SHOWN:
                    job.warn(f"not supported by what it cites: {line.text[:200]}")
        claims.append(claim)
    text, claims = _with_remarks(text, remarks, claims)
    return WholeSummary(text, names, Support(tuple(claims), checked.model, checked.notes))


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
