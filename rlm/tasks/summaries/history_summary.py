"""Summarize a chat, a card or a log under the headings of its form. Each line cites its messages."""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping, Sequence
from dataclasses import asdict, replace
from hashlib import sha256
from itertools import zip_longest
from typing import Any

from rlm.answers.citations import cite_spans
from rlm.journal.checks import damage_reported
from rlm.lazy_dataclass import dataclass
from rlm.models.base import is_extractive
from rlm.prompts.history import Extraction, Message, SalientSentence
from rlm.prompts.tokens.counters import Counter, get_counter
from rlm.results import Citation, Support
from rlm.sandbox.host.daemon_thread import run_in_daemon_thread
from rlm.sandbox.text.body import Body
from rlm.sandbox.types import Span
from rlm.tasks.jobs.job import Job, PreviousJob
from rlm.tasks.summaries.board_summary import Board, boards_of
from rlm.tasks.summaries.cards import Card
from rlm.tasks.summaries.entries import Entry
from rlm.tasks.summaries.fact_check import Fact, check, facts_of
from rlm.tasks.summaries.summary_lines import Line, Tracer, page, words_of
from rlm.tasks.summaries.writing.borders import borders_of
from rlm.tasks.summaries.writing.draft import Draft, fit
from rlm.tasks.summaries.writing.fold import Brief, Start, Written, line_limit, write_summary
from rlm.tasks.summaries.writing.forms import FORMS, WORK, Form
from rlm.tasks.summaries.writing.line_check import COMPUTED, Checked, check_lines, support_of

__all__ = [
    "HistorySummary",
    "Wish",
    "carried_start",
    "cite_entries",
    "digest",
    "draft_details",
    "extract_history",
    "summarize_history",
]

_MAX_TOKENS = 8_000
_MIN_TOKENS = 300
_SHARE = 0.5
"""The share of a short history that a summary without a model may have at most."""
_BOARD_SHARE = 0.7
"""The share of a summary without a model that cards have at most if there is prose, too."""
_SMALLEST_LINE = 20  # tokens
_MAX_PASSES = 4
_MAX_NAMED = 5
_MAX_WARNING = 300
_FULL = 0.985
_IS_WORK = 0.5
"""The share of work in a text above which its summary has the headings of work, if a model does not say."""
_IN_STATE = "The card is in the state "
_STATE = re.compile(r"^state: (\S[^\n]{0,60})$", re.MULTILINE)
_COUNTER = get_counter()


@dataclass(frozen=True, slots=True)
class Wish:
    """What was asked for: at most `tokens` (None: by the length of the messages), a form (None: the model
    chooses it), what the summary is for ("" for nothing special), and whether a model checks its lines."""

    tokens: int | None = None
    form: Form | None = None
    focus: str = ""
    check: bool = True

    @property
    def most(self) -> int:
        return _MAX_TOKENS if self.tokens is None else self.tokens


@dataclass(frozen=True, slots=True)
class HistorySummary:
    """The text of the summary, the facts it was checked for, and the places of the messages that it cites.
    `support` says of each line whether its messages support it. `form` is "extracts" if no model wrote it.
    `details` are journalled."""

    text: str
    form: str
    facts: tuple[Fact, ...]
    citations: tuple[Citation, ...]
    support: Support
    details: Mapping[str, object]

    @property
    def doubtful(self) -> int:
        """The number of lines that say that nothing supports them."""
        return sum(claim.status != "supported" and claim.reason != COMPUTED for claim in self.support.claims)


def digest(entries: Sequence[Entry]) -> str:
    """Return a hash of the entries, by which a later run recognizes them."""
    hashed = sha256()
    for entry in entries:
        message = entry.message
        hashed.update(repr((message.author, message.created_at, message.content)).encode("utf-8", "replace"))
    return hashed.hexdigest()


async def extract_history(
    job: Job, entries: Sequence[Entry], tokens: int, cards: Mapping[str, Card]
) -> HistorySummary:
    """Summarize the entries without a model, by their most informative sentences."""
    job.coverage.note("read", [Span(0, job.body.chars)])
    return _extracts(job, await _texts_of(entries, cards), tokens)


async def summarize_history(
    job: Job,
    entries: Sequence[Entry],
    wish: Wish,
    cards: Mapping[str, Card] | None = None,
    start: Start | None = None,
) -> HistorySummary:
    """Summarize the entries, those after `start` if an earlier summary is carried.

    The summary model changes a draft part by part. Its lines are checked against the messages that they
    cite, and marked if these do not support them. Messages that the model could not read,
    and all without a model, are represented by their most informative sentences. Of work, facts that the
    model dropped are added word for word if there is room.

    `cards` are those of issue trackers, by the text of their entries. Their counts are computed. Without a
    model, their lines are, too.
    """
    texts = await _texts_of(entries, cards or {})
    written = await _write(job, texts, wish, start or Start())
    draft = written.draft
    if draft is None:
        job.coverage.note("read", [Span(0, job.body.chars)])
        return _extracts(job, texts, wish.most)
    unread = {place for one in written.unread for place in one}
    for place, entry in enumerate(entries):
        job.coverage.note("failed" if place in unread else "answered", [Span(entry.start, entry.end)])
    known = frozenset(start.draft.lines) if start and start.draft else frozenset()
    model = job.config.summary_model if wish.check else None
    checked = await check_lines(
        draft.lines,
        entries,
        None if model is None else job.support_model(model),
        known,
        alone=cards or (),
    )
    for note in checked.notes:
        job.warn(note)
    _warn_of(
        job,
        [line for line in checked.lines if line.doubtful and line not in known],
        "not supported by the messages that it cites",
        "lines are not supported by the messages that they cite",
    )
    draft = replace(draft, lines=checked.lines)
    read = min((one.start for one in written.unread), default=len(entries))
    details = draft_details(draft, wish.focus, read)
    form = draft.form
    computed = [
        _under(line, form) for line in texts.states if not _has_state(draft.lines, _under(line, form))
    ]
    missing = _unread_lines(written, texts, form, wish.most)
    draft, _ = fit(
        replace(draft, lines=(*computed, *draft.lines, *missing)).sorted(), _size, wish.most, texts.place_of
    )
    lines, facts = list(draft.lines), tuple[Fact, ...]()
    if form.is_work and texts.is_work:
        facts_wanted = facts_of(texts.extraction, len(entries))
        lines, facts = _restore_facts(lines, facts_wanted, texts.names, wish.most)
    return _finished(job, lines, form, texts, facts, checked, details)


async def _texts_of(entries: Sequence[Entry], cards: Mapping[str, Card]) -> _Texts:
    """Return the texts. Telling facts from talk takes seconds for a long history: a thread does it."""
    return await run_in_daemon_thread(lambda: _Texts(entries, cards), name="rlm-extract")


class _Texts:
    """The entries, and what is computed from them."""

    def __init__(self, entries: Sequence[Entry], cards: Mapping[str, Card]) -> None:
        self.entries = entries
        self.messages = [entry.message for entry in entries]
        self.names = [entry.name for entry in entries]
        self.boards = boards_of(entries, cards)
        self.states = [*(line for board in self.boards for line in board.counts()), *_states(entries)]
        self.prose = _prose(self.messages, cards, self.boards)
        self.extraction = Extraction(self.prose)
        self._places = {name: place for place, name in enumerate(self.names)}

    @property
    def is_work(self) -> bool:
        """Whether words tell that this is work: then its facts can be told from talk."""
        return self.extraction.work_share > _IS_WORK

    def place_of(self, line: Line) -> int:
        return min((self._places[name] for name in line.names), default=0)


async def _write(job: Job, texts: _Texts, wish: Wish, start: Start) -> Written:
    """Return what the summary model wrote. Warns of messages that are not in it, and of words left out."""
    model = job.config.summary_model
    if is_extractive(model):
        return Written(None)
    size = sum(_COUNTER.count_each([message.content for message in texts.messages]))
    brief = Brief(
        start.draft.form if start.draft else wish.form,
        WORK if texts.is_work else FORMS["talk"],
        wish.focus,
        wish.most,
        line_limit(wish.tokens, wish.most, size, len(texts.messages)),
    )
    tracer = Tracer(texts.entries)
    written = await write_summary(
        job,
        model,
        texts.messages,
        texts.names,
        tracer,
        brief,
        borders=borders_of(texts.entries),
        start=start,
    )
    if tracer.unknown:
        job.warn(f"the summary names messages that do not exist: {', '.join(tracer.unknown)}"[:_MAX_WARNING])
    _warn_of(
        job,
        written.dropped,
        "left out of the summary, because it names no message and none supports it",
        "lines were left out, because no message supports them",
    )
    if written.fault and written.draft is None:
        job.warn(f"{written.fault}: the summary consists of sentences from the messages instead")
    elif written.fault:
        for one in written.unread:
            part = f"{texts.names[one.start]} to {texts.names[one.stop - 1]}"
            job.warn(f"{written.fault}: of {part} the summary has only sentences from the messages")
    if written.failure is not None:
        job.note_stop(written.failure)
    return written


def _unread_lines(written: Written, texts: _Texts, form: Form, tokens: int) -> list[Line]:
    """Return the most informative sentences of the messages that the model did not read."""
    lines: list[Line] = []
    for one in written.unread:
        share = int(tokens * _SHARE * len(one) / len(texts.entries))
        names = texts.names[one.start : one.stop]
        found = Extraction(texts.prose[one.start : one.stop]).lines(names, share, _COUNTER)
        lines += [_under(replace(_line(sentence, names), weight=0), form) for sentence in found]
    return lines


def _under(line: Line, form: Form) -> Line:
    """Return a computed line under a heading that the form has."""
    if line.heading in form.titles:
        return line
    return replace(line, heading=form.titles[0 if line.heading == "Task Summary" else -1])


def _size(draft: Draft) -> int:
    return _COUNTER.count(draft.page())


def _extracts(job: Job, texts: _Texts, tokens: int) -> HistorySummary:
    """Return a summary of sentences from the messages and computed lines."""
    facts = facts_of(texts.extraction, len(texts.entries))
    lines, checked = _extract(
        texts.states, texts.boards, facts, texts.extraction, texts.messages, texts.prose, texts.names, tokens
    )
    return _finished(
        job, lines, WORK, texts, checked if texts.is_work else (), None, {}, form_name="extracts"
    )


def _finished(
    job: Job,
    lines: Sequence[Line],
    form: Form,
    texts: _Texts,
    facts: tuple[Fact, ...],
    checked: Checked | None,
    details: Mapping[str, object],
    *,
    form_name: str = "",
) -> HistorySummary:
    draft = Draft(form, tuple(lines))
    text = draft.page()
    names = {name for line in lines for name in line.names}
    citations = cite_entries(job.body, names, texts.entries)
    judged = frozenset(checked.lines if checked else ())
    quoted = [
        line if line in judged or line.doubtful or not line.names else replace(line, test="extract")
        for line in draft.sorted().lines
    ]
    support = support_of(quoted, [one.marker for one in citations], text, checked, form.prose)
    return HistorySummary(
        text,
        form_name or form.name,
        facts,
        citations,
        support,
        details,
    )


def _warn_of(job: Job, lines: Sequence[Line], what: str, more: str) -> None:
    """Name the first lines in a warning each, and count the others."""
    for line in lines[:_MAX_NAMED]:
        job.warn(f"{what}: {line.text[:200]}")
    if len(lines) > _MAX_NAMED:
        job.warn(f"{len(lines) - _MAX_NAMED:,} more {more}")


def _states(entries: Sequence[Entry]) -> list[Line]:
    """Return a line for the state of each card."""
    found = ((entry, match) for entry in entries if (match := _STATE.search(entry.message.content)))
    return [
        Line("Current State", f"{_IN_STATE}{match[1]}.", (entry.name,))
        for entry, match in found
        if entry.card
    ]


def _has_state(lines: Sequence[Line], state: Line) -> bool:
    """Return whether the model's lines name the state already."""
    words = words_of(state.text.removeprefix(_IN_STATE))
    return any(
        line.heading == state.heading and not line.doubtful and words <= words_of(line.text) for line in lines
    )


def _extract(
    states: Sequence[Line],
    boards: Sequence[Board],
    facts: Sequence[SalientSentence],
    extraction: Extraction,
    messages: Sequence[Message],
    prose: Sequence[Message],
    names: Sequence[str],
    tokens: int,
) -> tuple[list[Line], tuple[Fact, ...]]:
    """Return the most informative sentences, and the facts for which there is room."""
    whole = sum(_COUNTER.count_each([message.content for message in messages]))
    limit = min(tokens, max(_MIN_TOKENS, int(whole * _SHARE)))
    board_share = _BOARD_SHARE if any(message.content for message in prose) else 1.0
    states = _add_cards(states, boards, int(limit * board_share))
    lines, checked = _restore_facts(_fill(states, extraction, names, limit), facts, names, limit)
    checked = tuple(replace(fact, status="kept") if fact.status == "restored" else fact for fact in checked)
    places = {name: place for place, name in enumerate(names)}
    computed = lines[: len(states)] if boards else []
    return [
        *computed,
        *sorted(lines[len(computed) :], key=lambda line: places[line.names[0]]),
    ], checked


def _prose(messages: Sequence[Message], cards: Mapping[str, Card], boards: Sequence[Board]) -> list[Message]:
    """Return the messages with only what is written as prose: of a single card its description, of the cards
    of a board nothing, because a line is computed for each."""
    are_single = all(board.is_single for board in boards)
    return [
        replace(message, content=card.description if are_single else "") if card else message
        for message in messages
        for card in [cards.get(message.content)]
    ]


def _add_cards(states: Sequence[Line], boards: Sequence[Board], tokens: int) -> list[Line]:
    """Return the lines with those of the boards' cards for which there is room, in turn from each board."""
    lines = list(states)
    room = tokens - _COUNTER.count(page(lines))
    for line in (
        line for turn in zip_longest(*(board.lines(tokens) for board in boards)) for line in turn if line
    ):
        cost = _COUNTER.count("\n" + line.to_markdown())
        if cost <= room:
            lines.append(line)
            room -= cost
        elif room < _SMALLEST_LINE:
            break
    return lines


def _fill(states: Sequence[Line], extraction: Extraction, names: Sequence[str], tokens: int) -> list[Line]:
    """Return the cards' states and the most informative sentences in at most `tokens`.

    The size of the page is known only afterwards, because of headings and marks. Each pass corrects the
    allowance by the size of the last page, so that little room is left unused.
    """
    allowance = tokens
    best: list[Line] = list(states)
    for _ in range(_MAX_PASSES):
        lines = [*states, *(_line(one, names) for one in extraction.lines(names, allowance, _COUNTER))]
        size = _COUNTER.count(page(lines))
        if size <= tokens and len(lines) >= len(best):
            best = lines
        if _FULL * tokens <= size <= tokens or not size:
            break
        allowance = int(allowance * tokens / size * (1.0 if size < tokens else 0.99))
    while best and _COUNTER.count(page(best)) > tokens:
        best.pop()  # there may be more cards than room for their states
    return best


def _restore_facts(
    lines: list[Line], facts: Sequence[SalientSentence], names: Sequence[str], tokens: int
) -> tuple[list[Line], tuple[Fact, ...]]:
    """Add the missing facts for which there is room. Return the lines, and the status of each fact."""
    counter: Counter = _COUNTER
    is_kept = check(facts, [line for line in lines if not line.doubtful], names)
    rows: list[Fact] = []
    room = tokens - counter.count(page(lines))
    for fact, kept in zip(facts, is_kept, strict=True):
        row = Fact(fact.heading, fact.text, names[fact.place])
        if not kept:
            line = _line(fact, names)
            cost = counter.count("\n" + line.to_markdown())
            if cost <= room and counter.count(page([*lines, line])) <= tokens:
                lines = [*lines, line]
                room = tokens - counter.count(page(lines))
                row = replace(row, status="restored")
            else:
                row = replace(row, status="lost")
        rows.append(row)
    return lines, tuple(rows)


def _line(sentence: SalientSentence, names: Sequence[str]) -> Line:
    return Line(sentence.heading, sentence.text_with_speaker, (names[sentence.place],))


def cite_entries(body: Body, names: Collection[str], entries: Sequence[Entry]) -> tuple[Citation, ...]:
    """Return a citation for each of the entries with these names, in their order."""
    cited = [entry for entry in entries if entry.name in names]
    spans = [_words_of(body, entry) for entry in cited]
    found = {(one.start, one.end): one for one in cite_spans(spans, body)}
    return tuple(
        replace(
            found[span.start, span.end],
            marker=f"[{entry.name}]",
            author=entry.message.author or (None if entry.name.startswith("p") else entry.message.role),
            time=entry.message.created_at,
        )
        for entry, span in zip(cited, spans, strict=True)
    )


def _words_of(body: Body, entry: Entry) -> Span:
    """Return the span of the message without its header line of author and time."""
    raw = body.text(entry.start, entry.end)
    at = max(0, raw.find(entry.message.content[:40].partition("\n")[0]))
    return Span(entry.start + at, entry.start + len(raw.rstrip()))


def draft_details(draft: Draft, focus: str, read: int) -> dict[str, Any]:
    """Return what is journalled of a summary, so that a later run can go on from it. `read` counts the first
    messages that are in it."""
    return {
        "draft": {
            "form": draft.form.name,
            "headings": [list(one) for one in draft.form.headings],
            "focus": focus,
            "read": read,
            "lines": [asdict(line) for line in draft.lines],
        }
    }


def carried_start(past: PreviousJob, known: int, form: Form | None, focus: str) -> tuple[Start, str]:
    """Return where to start after `past`, whose first `known` messages are unchanged, and a note if its
    summary cannot be carried; "" if there is nothing to say."""
    if not known:
        return Start(), ""
    kept = (past.ended or {}).get("draft")
    if not isinstance(kept, Mapping):
        return Start(), ""
    with damage_reported(past.run_id):
        draft, read = _read_draft(kept), min(known, int(kept["read"]))
        if kept["focus"] != focus or (form is not None and form.headings != draft.form.headings):
            return Start(), f"run {past.run_id} has another form or focus: all messages are read again"
    return Start(draft, read), ""


def _read_draft(kept: Mapping[str, Any]) -> Draft:
    headings = tuple((str(title), str(what)) for title, what in kept["headings"])
    form = FORMS.get(kept["form"])
    if form is None or form.titles != tuple(title for title, _ in headings):
        form = Form("own", headings, ordered=form.ordered if form else frozenset())
    titles = set(form.titles)
    lines = [Line(**{**one, "names": tuple(one["names"])}) for one in kept["lines"]]
    return Draft(form, tuple(line for line in lines if line.heading in titles))
