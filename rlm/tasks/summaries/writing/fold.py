"""Write the summary of messages with a model: part by part, each reply a change of the draft so far."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import field, replace

from rlm.errors import BudgetExhausted, ModelError
from rlm.lazy_dataclass import dataclass
from rlm.models.base import Model
from rlm.prompts.history import BREAK, Folding, Message, read_in_parts
from rlm.prompts.templates import table
from rlm.prompts.tokens.counters import get_counter
from rlm.tasks.jobs.job import Job
from rlm.tasks.summaries.summary_lines import Line, Tracer
from rlm.tasks.summaries.writing.draft import Draft, first_draft, fit
from rlm.tasks.summaries.writing.forms import FORMS, Form

__all__ = ["Brief", "Start", "Written", "line_limit", "write_summary"]

_COUNTER = get_counter()
_PROMPT_TOKENS = 100_000
_TOKENS_A_LINE = 60
"""Tokens of a line of 25 words with four or five marks: so a model that keeps the lines keeps the tokens."""
_PAGE_TOKENS = 60  # of the headings
_LINES_A_ROOT = 0.3
"""Without a given length, a summary has this number of lines times the root of the messages' tokens: 30 for
10,000 tokens, 95 for 100,000."""
_LINES_A_MESSAGE_ROOT = 1.5  # for many short messages: 11 lines for 60 commits
_MIN_LINES = 5
_INPUT_TOKENS_A_LINE = 40  # no text has more facts than this
_HARD_LIMIT = 1.1
"""A summary that is longer than this times its limit is shortened by the model; a shorter one is cut."""
_WORDS_IN_ROW = 5
_REPEATED = 0.5
"""The share of a line's rows of words that stand in the prompt, if the line repeats it."""


@dataclass(frozen=True, slots=True)
class Brief:
    """What a summary is for. `form` is None if the model chooses it, else one of `usual`. At most `lines`
    lines are asked for, and `tokens` are kept."""

    form: Form | None
    usual: Form
    focus: str
    tokens: int
    lines: int

    @property
    def reader(self) -> str:
        if self.focus:
            return f"a reader who wants this of them: {' '.join(self.focus.split())}"
        return self.form.reader if self.form else Form("", ()).reader


@dataclass(frozen=True, slots=True)
class Start:
    """Where the writing starts: the draft so far, and the number of messages that it holds."""

    draft: Draft | None = None
    read: int = 0


@dataclass(frozen=True, slots=True)
class Written:
    """A summary that a model wrote; `draft` is None if there is none. The messages of `unread` are not in
    it, and `fault` says why. `dropped` are words around the summary and lines that repeat the prompt."""

    draft: Draft | None
    unread: tuple[range, ...] = ()
    fault: str = ""
    failure: ModelError | BudgetExhausted | None = None
    dropped: tuple[Line, ...] = field(default=())


def line_limit(tokens: int | None, most: int, size: int, messages: int) -> int:
    """Return how many lines are asked for, of `messages` of `size` tokens: as many as `most` tokens hold.
    Without given `tokens`, the length follows the size and the number of the messages."""
    lines = max(3, (most - _PAGE_TOKENS) // _TOKENS_A_LINE)
    by_size = max(_LINES_A_ROOT * size**0.5, _LINES_A_MESSAGE_ROOT * messages**0.5)
    wanted = size // _INPUT_TOKENS_A_LINE if tokens is not None else int(by_size)
    return min(lines, max(_MIN_LINES, wanted))


async def write_summary(
    job: Job,
    model: Model,
    messages: Sequence[Message],
    names: Sequence[str],
    tracer: Tracer,
    brief: Brief,
    *,
    borders: Sequence[float],
    start: Start,
) -> Written:
    """Summarize the messages after `start`. A part whose reply is no summary, and the parts after a model's
    failure, are left unread."""
    writer = _Writer(job, model, names, tracer, brief)
    return await writer.write(messages, borders, start)


def _joined(ranges: Sequence[range]) -> tuple[range, ...]:
    """Return the places of all ranges in order, as ranges without a gap."""
    joined: list[range] = []
    for place in sorted({place for one in ranges for place in one}):
        if joined and joined[-1].stop == place:
            joined[-1] = range(joined[-1].start, place + 1)
        else:
            joined.append(range(place, place + 1))
    return tuple(joined)


class _Writer:
    def __init__(self, job: Job, model: Model, names: Sequence[str], tracer: Tracer, brief: Brief) -> None:
        self._job = job
        self._model = model
        self._names = names
        self._tracer = tracer
        self._brief = brief
        self._output = min(model.window.output, 2 * brief.tokens)
        self._place = {name: at for at, name in enumerate(names)}
        self._own_words = _rows(f"{_first(brief)}\n\n{_next(brief, Draft(brief.usual), 9, 9)}")
        self._chatter: list[Line] = []

    def _folding(self) -> Folding | None:
        """Return how the messages are cut into parts; None if the model's window has no room for them."""
        brief = self._brief
        window = min(self._model.window.context - self._output, max(_PROMPT_TOKENS, 4 * brief.tokens))
        # The same for the first and all later runs, so that the parts of an interrupted one stay the same.
        prompts = (
            _first(brief),
            _first(replace(brief, form=None)),
            _next(brief, Draft(brief.usual), 10_000, 10_000),
        )
        overhead = max(map(_COUNTER.count, prompts)) + 80
        folding = Folding(_COUNTER, brief.tokens, window, overhead=overhead)
        return folding if folding.chunk_tokens > 0 else None

    async def write(self, messages: Sequence[Message], borders: Sequence[float], start: Start) -> Written:
        new, names = messages[start.read :], self._names[start.read :]
        if not new:
            return Written(start.draft)
        folding = self._folding()
        if folding is None:
            fault = (
                f"{self._model.name} was not asked: its window has no room for messages and a summary of "
                f"{self._brief.tokens:,} tokens"
            )
            return Written(start.draft, (range(start.read, len(messages)),), fault)
        notes: list[str] = []
        parts = read_in_parts(new, names, folding, borders[start.read :], notes=notes)
        for note in notes:
            self._job.warn(note)
        draft, read, fault = start.draft, start.read, ""
        unread: list[range] = []
        for number, (text, through) in enumerate(parts, 1):
            self._job.progress(number, len(parts))
            share = (start.read + through) / len(messages)
            # What the first part tells has to last: later parts add less, or replace it.
            lines = max(_MIN_LINES, int(self._brief.lines * min(1.0, share) ** 0.5))
            try:
                # The replies after the first are changes of the draft.
                only = draft is None and len(parts) == 1
                reply = await self._ask(self._prompt(draft, text, lines, number, len(parts)), is_answer=only)
            except (ModelError, BudgetExhausted) as error:
                failure = error
                fault = f"the summarizer failed ({type(error).__name__}: {error})"
                unread.append(range(read, len(messages)))
                return Written(draft, _joined(unread), fault, failure, tuple(self._chatter))
            changed = self._change(draft, reply)
            if changed is None:
                fault = (
                    f"a reply of {self._model.name} is no summary (`rlm show {self._job.run_id}` prints it): "
                    f"“{' '.join(reply.split())[:80]}”"
                    if reply.strip()
                    else "the summary was empty"
                )
                # The message at `read` is not whole yet if this was a part of it.
                unread.append(range(read, max(read + 1, start.read + through)))
            else:
                draft = await self._shortened(changed, is_last=number == len(parts))
            read = max(read, start.read + through)
        return Written(draft, _joined(unread), fault, dropped=tuple(self._chatter))

    def _prompt(self, draft: Draft | None, text: str, lines: int, number: int, count: int) -> str:
        words = table("summaries.toml")["part"]
        part = words["more" if number < count else "last"].format(number=number, count=count)
        part = f"\n\n{part}" if count > 1 else ""
        if draft is None:
            return f"{_first(self._brief, lines)}{part}{BREAK}{text}"
        # What is asked for is what fits: lines of this model may be longer than most.
        lines = max(_MIN_LINES, min(lines, self._fitting_lines(draft)))
        new = max(_MIN_LINES, lines - len(draft.lines))
        ask = _next(self._brief, draft, lines, new)
        return f"{ask}{part}{BREAK}Summary so far:\n\n{draft.numbered()}\n\nNew messages:\n\n{text}"

    async def _ask(self, prompt: str, *, is_answer: bool = False) -> str:
        try:
            return await self._job.ask(
                self._model, prompt, self._output, keep_cut="lines", is_answer=is_answer
            )
        except BudgetExhausted as error:
            # A warning quotes this error, and warnings must not contain Python names of limits.
            raise BudgetExhausted(error.limit, error.cause) from error

    def _change(self, draft: Draft | None, reply: str) -> Draft | None:
        """Return the draft with what a reply changes; None if the reply is no summary."""
        if draft is None:
            first = first_draft(reply, self._brief.form, self._brief.usual, self._trace)
            return first if first.lines else None
        if not reply.strip():
            return None
        return draft.edited(reply, self._trace)

    def _trace(self, lines: Sequence[Line]) -> list[Line]:
        """Return the lines with their sources. Leaves out words around a summary and lines that repeat the
        prompt; they are named in a warning."""
        is_list = any(line.is_item for line in lines)
        kept: list[Line] = []
        for line in lines:
            rows = _rows(line.text)
            repeats = bool(rows) and len(rows & self._own_words) >= _REPEATED * len(rows)
            names = self._tracer.find_sources(line)
            if repeats or (not names and (not line.is_item or not is_list)):
                self._chatter.append(line)
            else:
                kept.append(replace(line, names=names))
        return kept

    async def _shortened(self, draft: Draft, *, is_last: bool) -> Draft:
        """Return the draft in its limit. The model shortens a long one once; then whole lines are cut."""
        most = self._brief.tokens
        if _size(draft) > most * _HARD_LIMIT:
            lines = max(1, self._fitting_lines(draft) * 9 // 10)
            ask = table("summaries.toml")["shorten"]["ask"].strip()
            prompt = ask.format(
                count=len(draft.lines), lines=lines, reader=self._brief.reader, draft=draft.numbered()
            )
            try:
                shorter = draft.edited(await self._ask(prompt), self._trace)
            except (ModelError, BudgetExhausted) as error:
                self._job.warn(f"the summary was cut, because the model did not shorten it: {error}")
            else:
                draft = shorter if shorter.lines and _size(shorter) < _size(draft) else draft
        if is_last or _size(draft) > most * _HARD_LIMIT:
            draft, gone = fit(draft, _size, most, self._place_of)
            if gone:
                self._job.warn(f"{len(gone):,} lines were left out to fit {most:,} tokens; allow more tokens")
        return draft

    def _fitting_lines(self, draft: Draft) -> int:
        """Return how many lines as long as those of the draft fit the summary's limit."""
        return (self._brief.tokens - _PAGE_TOKENS) * len(draft.lines) // max(1, _size(draft))

    def _place_of(self, line: Line) -> int:
        return min((self._place[name] for name in line.names if name in self._place), default=0)


def _size(draft: Draft) -> int:
    return _COUNTER.count(draft.page())


def _rows(text: str) -> set[tuple[str, ...]]:
    """Return every row of `_WORDS_IN_ROW` words of a text."""
    words = "".join(one if one.isalnum() else " " for one in text.casefold()).split()
    return {tuple(words[at : at + _WORDS_IN_ROW]) for at in range(len(words) - _WORDS_IN_ROW + 1)}


def _first(brief: Brief, lines: int = 10_000) -> str:
    """Return the words of the first prompt."""
    words = table("summaries.toml")["first"]
    if brief.form is None:
        forms = "\n".join(
            f"- {form.name} ({form.about}): "
            + "; ".join(f"`## {title}` {what}" for title, what in form.headings)
            for form in FORMS.values()
            if form.name not in ("board", "log")
        )
        headings = words["choose"].strip().format(forms=forms)
    else:
        headings = words["given"].strip().format(headings=brief.form.described())
    opening = words["opening"].strip().format(reader=brief.reader)
    prose = _prose([brief.form] if brief.form else FORMS.values())
    return "\n\n".join([opening, headings, words["rules"].strip().format(lines=lines, prose=prose)])


def _next(brief: Brief, draft: Draft, lines: int, new: int) -> str:
    """Return the words of a later prompt."""
    words = table("summaries.toml")["next"]
    reader = brief.reader if brief.focus else draft.form.reader
    return "\n\n".join(
        [
            words["opening"].strip().format(reader=reader),
            words["headings"].strip().format(headings=draft.form.described()),
            words["rules"]
            .strip()
            .format(lines=lines, new=new, count=len(draft.lines), prose=_prose([draft.form])),
        ]
    )


def _prose(forms: Iterable[Form]) -> str:
    """Return the rule for headings that are shown as paragraphs, "" if there are none."""
    titles = sorted(frozenset().union(*(form.prose for form in forms)))
    headings = ", ".join(f"`## {title}`" for title in titles)
    return table("summaries.toml")["part"]["prose"].rstrip().format(headings=headings) if titles else ""
