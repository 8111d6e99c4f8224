"""Write a summary with a model: by one call over a text that fits its window, else over notes on its parts.

The parts of a long text are read at the same time, each by one call that writes notes. If these do not fit
one prompt, the model chooses among them. One more call writes the summary. What the model wrote is never cut
or dropped. A call that an earlier run paid for is answered from the journal, because the prompt of a part
depends on nothing but its text and the request.
"""

from __future__ import annotations

import asyncio
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from rlm.errors import BudgetExhausted, ModelError, cause_of
from rlm.escaping import markdown_answer
from rlm.models.base import Model
from rlm.prompts.history.message import render
from rlm.prompts.templates import table
from rlm.prompts.tokens.counters import get_counter
from rlm.sandbox.host.daemon_thread import run_in_daemon_thread
from rlm.tasks.jobs.job import Job
from rlm.tasks.summaries.checking import MARK, names_in
from rlm.tasks.summaries.entries import Entry
from rlm.tasks.summaries.forms import Form

__all__ = ["SummaryRequest", "Written", "write_summary"]

_COUNTER = get_counter()
_OVERHEAD = 1_500
"""Tokens of a prompt besides the text, at most."""
_WINDOW_SHARE = 0.9
_WORDS_A_TOKEN = 0.72
_CHARS_A_WORD = 12
"""More than that, and the text has no blanks between its words."""
_OUTPUT_A_TOKEN = 2
_FOR_MARKS = 1_000
_TOO_LONG = 1.3
_PART_TOKENS = 60_000
_TOKENS_A_NOTED_WORD = 20
"""The notes on a part have one word for so many tokens of it, and from 150 to 1,200."""
_MAX_CHOICES = 4
_CHOSEN = 0.9


@dataclass(frozen=True, slots=True)
class SummaryRequest:
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

    @property
    def reader(self) -> str:
        """Who the summary is for."""
        if self.focus:
            return f"a reader who wants this of it: {' '.join(self.focus.split())}"
        return self.form.reader if self.form else _words()["reader"].strip()


@dataclass(frozen=True, slots=True)
class Written:
    """What the model wrote, "" if every call failed. `unread` are the names of the entries that it could not
    read."""

    text: str = ""
    unread: frozenset[str] = frozenset()


async def write_summary(job: Job, model: Model, entries: Sequence[Entry], request: SummaryRequest) -> Written:
    """Return the summary of these entries. Calls that fail are told in warnings and in the stop reason."""
    output = _output(model, request.tokens)
    room = int(model.window.context * _WINDOW_SHARE) - output - _OVERHEAD - _COUNTER.count(request.earlier)
    if room <= 0:
        job.warn(f"{model.name} was not asked: its window has no room for the text and its summary")
        return Written()
    new = entries[request.known :]
    parts = await run_in_daemon_thread(lambda: _parts(new, min(room, _PART_TOKENS)), name="rlm-parts")
    notes: list[str] = []
    unread = frozenset[str]()
    if sum(part.tokens for part in parts) <= room:
        material = "\n".join(part.text for part in parts)
    else:
        notes, unread = await _take_notes(job, model, parts, request)
        if not notes:
            return Written(unread=unread)
        chosen = await _choose(job, model, notes, request, room)
        material = "\n".join([_words()["notes"].strip(), "", *chosen])
    reply = await _asked(job, model, _prompt(material, request), output, "the summary", is_answer=True)
    if reply is None:
        if not notes:
            return Written(unread=frozenset(entry.name for entry in new))
        job.warn("these are the notes on the parts of the text, because their summary was not written")
        return Written(markdown_answer("\n\n".join(notes)), unread)
    if _size(reply) > request.tokens * _TOO_LONG:
        reply = await _shortened(job, model, reply, request, output)
    if _size(reply) > request.tokens * _TOO_LONG:
        job.warn(f"the summary is longer than the {request.tokens:,} tokens that were asked for")
    return Written(markdown_answer(reply.strip()), unread)


@dataclass(frozen=True, slots=True)
class _Part:
    """A part of the text as a prompt shows it, and the names of the entries in it."""

    text: str
    tokens: int
    names: tuple[str, ...]

    @property
    def place(self) -> str:
        first, last = self.names[0], self.names[-1]
        return first if first == last else f"{first} to {last}"


def _parts(entries: Sequence[Entry], most: int) -> list[_Part]:
    """Return the entries in parts of at most `most` tokens. An entry that is longer is in several parts."""
    parts: list[_Part] = []
    rows: list[str] = []
    names: list[str] = []
    size = 0
    for name, row in _rows(entries):
        for piece, tokens in _pieces(row, name, most):
            if rows and size + tokens > most:
                parts.append(_Part("\n".join(rows), size, tuple(names)))
                rows, names, size = [], [], 0
            rows.append(piece)
            names.append(name)
            size += tokens
    return [*parts, _Part("\n".join(rows), size, tuple(names))] if rows else parts


def _rows(entries: Sequence[Entry]) -> Iterator[tuple[str, str]]:
    """Yield each entry as a prompt shows it, by its name. The first one of a document has its heading."""
    several = len({entry.document for entry in entries}) > 1
    document = ""
    for entry in entries:
        is_paragraph = entry.name.startswith("p")
        row = f"[{entry.name}] {entry.message.content}" if is_paragraph else render(entry.message, entry.name)
        if several and entry.document != document:
            document = entry.document
            row = f"{_words()['document'].strip().format(name=' '.join(document.split()))}\n{row}"
        yield entry.name, row


def _pieces(row: str, name: str, most: int) -> Iterator[tuple[str, int]]:
    """Yield a row with its tokens, or pieces of one that is too long, cut between words where it has any."""
    prefix, rest = "", row
    while (tokens := _COUNTER.count(prefix + rest) + 1) > most and len(rest) > 1:
        end = max(1, len(rest) * most // tokens * 9 // 10 - len(prefix))
        blank = max(rest.rfind("\n", end // 2, end), rest.rfind(" ", end // 2, end))
        end = blank + 1 if blank > 0 else end
        piece, rest = prefix + rest[:end], rest[end:]
        yield piece, min(_COUNTER.count(piece) + 1, most)
        prefix = _words()["continued"].format(name=name)
    yield prefix + rest, min(tokens, most)


async def _take_notes(
    job: Job, model: Model, parts: Sequence[_Part], request: SummaryRequest
) -> tuple[list[str], frozenset[str]]:
    """Return the notes on the parts, in order, and the names of the entries on which there are none."""
    words = table("summaries.toml")["part"]
    slots = asyncio.Semaphore(job.config.limits.concurrency)
    ended = 0

    async def ask(part: _Part) -> str | None:
        nonlocal ended
        noted = max(150, min(1_200, part.tokens // _TOKENS_A_NOTED_WORD))
        asked = words["ask"].strip().format(
            words=request.words, reader=request.reader, noted=noted, **_units(request)
        )  # fmt: skip
        async with slots:
            prompt = f"{asked}\n\n---\n\n{part.text}"
            reply = await _asked(job, model, prompt, 2 * noted + _FOR_MARKS, f"the notes on {part.place}")
        ended += 1
        job.progress(ended, len(parts))
        if reply is not None and not any(
            set(names_in(mark[1])) & set(part.names) for mark in MARK.finditer(reply)
        ):
            shown = " ".join(reply.split())[:80]
            job.warn(f"the reply about {part.place} names none of it and is not used: “{shown}”")
            return None
        return reply

    replies = await asyncio.gather(*map(ask, parts))
    unread = {
        name for part, reply in zip(parts, replies, strict=True) if reply is None for name in part.names
    }
    return [reply for reply in replies if reply is not None], frozenset(unread)


async def _choose(
    job: Job, model: Model, notes: Sequence[str], request: SummaryRequest, room: int
) -> list[str]:
    """Return the lines of the notes that the model chooses, as many as fit `room` tokens."""
    lines = [line for one in notes for line in one.splitlines() if line.strip()]
    slots = asyncio.Semaphore(job.config.limits.concurrency)
    ask = table("summaries.toml")["part"]["choose"].strip()

    async def choose(group: Sequence[str], most: int) -> list[str]:
        asked = ask.format(count=len(group), most=most, words=request.words, reader=request.reader)
        listed = "\n".join(f"{number}: {line}" for number, line in enumerate(group, 1))
        async with slots:
            reply = await _asked(
                job, model, f"{asked}\n\n{listed}", 8 * most + 200, "a choice among the notes"
            )
        found = dict.fromkeys(int(one) for one in re.findall(r"\d{1,6}", reply or ""))
        chosen = sorted([number for number in found if 0 < number <= len(group)][:most])
        return [group[number - 1] for number in chosen] or _spread(group, most)

    for attempt in range(_MAX_CHOICES):
        sizes = _COUNTER.count_each(lines)
        share = room / max(1, sum(sizes) + len(lines))
        if share >= 1:
            break
        if attempt == _MAX_CHOICES - 1:
            job.warn("the notes on the text do not fit one prompt: every part has lost some")
            lines = _spread(lines, max(1, int(len(lines) * share * _CHOSEN)))
            break
        groups: list[list[str]] = [[]]
        size = 0
        for line, tokens in zip(lines, sizes, strict=True):
            if groups[-1] and size + tokens > room:
                groups.append([])
                size = 0
            groups[-1].append(line)
            size += tokens + 5
        counts = [max(1, int(len(group) * share * _CHOSEN)) for group in groups]
        kept = await asyncio.gather(*map(choose, groups, counts))
        lines = [line for group in kept for line in group]
    return lines


def _spread(lines: Sequence[str], count: int) -> list[str]:
    """Return `count` of the lines, evenly spread."""
    return [lines[at * len(lines) // count] for at in range(min(count, len(lines)))]


async def _asked(
    job: Job, model: Model, prompt: str, tokens: int, what: str, *, is_answer: bool = False
) -> str | None:
    """Return the reply, or None if there is none: a warning then says so."""
    try:
        reply = await job.ask(model, prompt, tokens, keep_cut="text", is_answer=is_answer)
    except (ModelError, BudgetExhausted) as error:
        job.warn(f"{what} failed ({type(error).__name__}: {cause_of(error)})")
        job.note_stop(error)
        return None
    if not reply.strip():
        job.warn(f"{what} failed: the reply was empty")
        return None
    return reply


async def _shortened(job: Job, model: Model, text: str, request: SummaryRequest, output: int) -> str:
    """Return what the model makes of a text that is too long; the text itself if the call fails, or its reply
    is cut off or no shorter."""
    ask = _words()["shorten"].strip()
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


def _words() -> Mapping[str, str]:
    words: Mapping[str, str] = table("summaries.toml")["whole"]
    return words


def _units(request: SummaryRequest) -> dict[str, str]:
    unit = _words()["paragraphs" if request.is_document else "messages"].strip()
    return {"unit": unit, "m": "p" if request.is_document else "m"}


def _prompt(material: str, request: SummaryRequest) -> str:
    words = _words()
    order = words["by_subject"].strip()
    if request.form is not None:
        order = words["headings"].strip().format(headings=request.form.described())
    begin = words["card" if request.is_card else "begin"].strip()
    ask = words["ask"].strip().format(
        reader=request.reader, begin=begin, order=order, words=request.words, **_units(request)
    )  # fmt: skip
    parts = [ask]
    if request.earlier:
        parts.append(words["earlier"].strip().format(summary=request.earlier))
    if request.computed:
        parts.append("\n".join([words["computed"].strip(), "", *request.computed]))
    return "\n\n".join([*parts, "---", material])
