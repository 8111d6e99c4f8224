"""Summarize a chat, a card or a log under five headings. Each line cites the messages that support it."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass, replace
from hashlib import sha256
from itertools import zip_longest

from rlm.answers.citations import cite_spans
from rlm.answers.support.word_check import SupportCheck
from rlm.errors import BudgetExhausted, ModelError
from rlm.models.base import is_extractive
from rlm.prompts.history import (
    HEADINGS,
    Extraction,
    Folding,
    Message,
    SalientSentence,
    chunks,
    drive_async,
    summary_steps,
)
from rlm.prompts.tokens.counters import Counter, get_counter
from rlm.results import Citation
from rlm.sandbox.in_kernel.body.body import Body
from rlm.sandbox.types import Span
from rlm.tasks.jobs.job import Job
from rlm.tasks.summaries.board_summary import Board, boards_of
from rlm.tasks.summaries.cards import Card
from rlm.tasks.summaries.entries import Entry
from rlm.tasks.summaries.fact_check import Fact, check, facts_of
from rlm.tasks.summaries.summary_lines import Line, Tracer, page, parse_lines, words_of

__all__ = ["HistorySummary", "digest", "summarize_history"]

_PROMPT_TOKENS = 100_000
_MIN_TOKENS = 300
_SHARE = 0.5
"""The share of a short history that a summary without a model may have at most."""
_BOARD_SHARE = 0.7
"""The share of a summary without a model that cards have at most if there is prose, too."""
_SMALLEST_LINE = 20  # tokens
_MAX_PASSES = 4
_MAX_NAMED = 5
_FULL = 0.985
_IN_STATE = "The card is in the state "
_STATE = re.compile(r"^state: (\S[^\n]{0,60})$", re.MULTILINE)
_COUNTER = get_counter()


@dataclass(frozen=True, slots=True)
class HistorySummary:
    """The text of the summary, the facts it was checked for, and the places of the messages that it cites.
    `supported` of its `lines` share their facts with the messages that they cite."""

    text: str
    facts: tuple[Fact, ...]
    citations: tuple[Citation, ...]
    lines: int
    supported: int


def digest(entries: Sequence[Entry]) -> str:
    """Return a hash of the entries, by which a later run recognizes them."""
    hashed = sha256()
    for entry in entries:
        message = entry.message
        hashed.update(repr((message.author, message.created_at, message.content)).encode("utf-8", "replace"))
    return hashed.hexdigest()


async def summarize_history(
    job: Job, entries: Sequence[Entry], tokens: int, cards: Mapping[str, Card] | None = None
) -> HistorySummary:
    """Summarize the entries in at most `tokens` tokens.

    The summary model folds the messages chunk by chunk. Without a model, or if it fails, the summary consists
    of the most informative sentences. Lines that no message supports are left out, and lines whose facts are
    not in the messages that they cite are marked, both with a warning. Facts that the model dropped are added
    word for word if there is room.

    `cards` are those of issue trackers, by the text of their entries. Their counts are computed. Without a
    model, their lines are, too.
    """
    messages = [entry.message for entry in entries]
    names = [entry.name for entry in entries]
    boards = boards_of(entries, cards or {})
    states = [*(line for board in boards for line in board.counts()), *_states(entries)]
    prose = _prose(messages, cards or {}, boards)
    extraction = Extraction(prose)
    facts = facts_of(extraction, len(entries))
    text = await _fold_with_model(job, messages, names, tokens)
    everything = Span(0, job.body.chars)
    if text is None:
        lines, checked = _extract(states, boards, facts, extraction, messages, prose, names, tokens)
        job.coverage.note_read([everything])
    else:
        job.coverage.note_answered([everything])
        lines, unsupported = Tracer(entries).trace(parse_lines(text))
        _warn_of(
            job,
            unsupported,
            "left out of the summary, because no message supports it",
            "lines were left out, because no message supports them",
        )
        lines = _judge(lines, entries)
        _warn_of(
            job,
            [line for line in lines if line.doubtful],
            "not supported by the messages that it cites",
            "lines are not supported by the messages that they cite",
        )
        lines = [*(state for state in states if not _has_state(lines, state)), *lines]
        lines, checked = _restore_facts(_trim(job, lines, tokens), facts, names, tokens)
    supported = sum(not line.doubtful for line in lines)
    return HistorySummary(page(lines), checked, _citations(job.body, lines, entries), len(lines), supported)


def _judge(lines: Sequence[Line], entries: Sequence[Entry]) -> list[Line]:
    """Return the lines, doubtful where the messages that they cite do not have their facts. The messages just
    before and after are context."""
    places = {entry.name: place for place, entry in enumerate(entries)}
    texts = [entry.message.content for entry in entries]
    speakers = {entry.message.author for entry in entries if entry.message.author}
    judged: list[Line] = []
    with closing(SupportCheck(texts, speakers)) as support:
        for line in lines:
            cited = {places[name] for name in line.names}
            near = {at for place in cited for at in (place - 1, place + 1) if 0 <= at < len(texts)} - cited
            judged.append(replace(line, doubtful=not support.judge(line.text, cited, near).supported))
    return judged


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


async def _fold_with_model(
    job: Job, messages: Sequence[Message], names: Sequence[str], tokens: int
) -> str | None:
    """Return the summary model's text; None if there is no model, it has no room, or it failed."""
    model = job.config.summary_model
    if is_extractive(model):
        return None
    output = min(model.window.output, 2 * tokens)
    window = min(model.window.context - output, max(_PROMPT_TOKENS, 4 * tokens))
    most = min(tokens, window // 4)
    folding = Folding(_COUNTER, most, window, aim=most)
    if folding.chunk_tokens <= 0:
        job.warn(
            f"{model.name} was not asked: its window has no room for messages and a summary of "
            f"{tokens:,} tokens"
        )
        return None
    parts = len(chunks(messages, names, folding))
    if parts == 1:
        # Summarize a short chat even if that saves no tokens.
        folding = replace(folding, min_gain=float("-inf"))
    failure: list[ModelError | BudgetExhausted] = []
    calls = 0

    async def ask(prompt: str) -> str:
        nonlocal calls
        calls += 1
        job.progress(calls, max(calls, parts))
        try:
            return await job.ask(model, prompt, output)
        except (ModelError, BudgetExhausted) as error:
            failure.append(error)
            if isinstance(error, BudgetExhausted):
                # A warning quotes this error, and warnings must not contain Python names of limits.
                raise BudgetExhausted(error.limit, error.cause) from error
            raise

    summary = await drive_async(
        summary_steps(messages, names, folding), ask, failures=(ModelError, BudgetExhausted)
    )
    if summary.text is None:
        job.warn(f"{summary.fault}: the summary consists of sentences from the messages instead")
        if failure:
            job.note_stop(failure[-1])
    return summary.text


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


def _trim(job: Job, lines: list[Line], tokens: int) -> list[Line]:
    """Drop lines until the page fits `tokens`: first doubtful ones, then each time the last line of the
    heading with the most lines."""
    dropped = 0
    while lines and _COUNTER.count(page(lines)) > tokens:
        sizes = {heading: sum(line.heading == heading for line in lines) for heading in HEADINGS}
        longest = max(HEADINGS, key=lambda heading: sizes[heading])
        doubtful = [place for place, line in enumerate(lines) if line.doubtful]
        last = max(doubtful or (place for place, line in enumerate(lines) if line.heading == longest))
        lines = lines[:last] + lines[last + 1 :]
        dropped += 1
    if dropped:
        job.warn(f"{dropped:,} lines were left out to fit {tokens:,} tokens; allow more tokens")
    return lines


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


def _citations(body: Body, lines: Sequence[Line], entries: Sequence[Entry]) -> tuple[Citation, ...]:
    """Return a citation for each message that a line cites, in the order of the history."""
    named = {name for line in lines for name in line.names}
    cited = [entry for entry in entries if entry.name in named]
    spans = [_words_of(body, entry) for entry in cited]
    found = {(one.start, one.end): one for one in cite_spans(spans, body)}
    return tuple(
        replace(
            found[span.start, span.end],
            marker=f"[{entry.name}]",
            author=entry.message.author or entry.message.role,
            time=entry.message.created_at,
        )
        for entry, span in zip(cited, spans, strict=True)
    )


def _words_of(body: Body, entry: Entry) -> Span:
    """Return the span of the message without its header line of author and time."""
    raw = body.text(entry.start, entry.end)
    at = max(0, raw.find(entry.message.content[:40].partition("\n")[0]))
    return Span(entry.start + at, entry.start + len(raw.rstrip()))
