"""A chat, a card or a log as a summary under the five headings, every line with the messages it came from."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, replace
from hashlib import sha256

from rlm.answers.citations import cite
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
from rlm.tasks.summaries.entries import Entry
from rlm.tasks.summaries.fact_check import Fact, check, facts_of
from rlm.tasks.summaries.summary_lines import Line, Tracer, page, parsed, words_of

__all__ = ["HistorySummary", "digest", "summarize_history"]

_PROMPT_TOKENS = 100_000
_MIN_TOKENS = 300
_SHARE = 0.5
"""Of a short history that a summary without a model may take: more would be no summary."""
_GUESSES = 4
_FULL = 0.985
_IN_STATE = "The card is in the state "
_STATE = re.compile(r"^state: (\S[^\n]{0,60})$", re.MULTILINE)
_COUNTER = get_counter()


@dataclass(frozen=True, slots=True)
class HistorySummary:
    """The five headings with their lines, at most the tokens asked for; what was checked; where the messages
    that lines name stand."""

    text: str
    facts: tuple[Fact, ...]
    citations: tuple[Citation, ...]


def digest(entries: Sequence[Entry]) -> str:
    """A hash of what entries say, by which a later run knows them again."""
    found = sha256()
    for entry in entries:
        message = entry.message
        found.update(repr((message.author, message.created_at, message.content)).encode("utf-8", "replace"))
    return found.hexdigest()


async def summarize_history(job: Job, entries: Sequence[Entry], tokens: int) -> HistorySummary:
    """A summary by the summary model, folded chunk by chunk at message borders; without a model, or when it
    fails, the telling sentences. Lines that no message holds are left out and reported; facts that the
    summary lost are put back word for word where there is room."""
    messages = [entry.message for entry in entries]
    names = [entry.name for entry in entries]
    states = _states(entries)
    extraction = Extraction(messages)
    facts = facts_of(extraction, len(entries))
    text = await _folded(job, messages, names, tokens)
    everything = Span(0, job.body.chars)
    if text is None:
        lines, checked = _extracted(states, facts, extraction, messages, names, tokens)
        job.coverage.note_read([everything])
    else:
        job.coverage.note_answered([everything])
        lines, untraced = Tracer(entries).trace(parsed(text))
        for line in untraced[:5]:
            job.warn(f"left out of the summary, for no message says so: {line.text[:200]}")
        if len(untraced) > 5:
            job.warn(f"{len(untraced) - 5:,} more lines were left out, for no message says so")
        lines = [*(state for state in states if not _says(lines, state)), *lines]
        lines, checked = _restored(_within(job, lines, tokens), facts, names, tokens)
    return HistorySummary(page(lines), checked, _citations(job.body, lines, entries))


def _states(entries: Sequence[Entry]) -> list[Line]:
    """The state that a card says it is in."""
    found = ((entry, match) for entry in entries if (match := _STATE.search(entry.message.content)))
    return [
        Line("Current State", f"{_IN_STATE}{match[1]}.", (entry.name,))
        for entry, match in found
        if entry.card
    ]


def _says(lines: Sequence[Line], state: Line) -> bool:
    """Whether the model said the state already."""
    wanted = words_of(state.text.removeprefix(_IN_STATE))
    return any(line.heading == state.heading and wanted <= words_of(line.text) for line in lines)


async def _folded(job: Job, messages: Sequence[Message], names: Sequence[str], tokens: int) -> str | None:
    """What the summary model wrote; None when it is not to be asked, or failed."""
    model = job.config.summary_model
    if is_extractive(model):
        return None
    output = min(model.window.output, 2 * tokens)
    window = min(model.window.context - output, max(_PROMPT_TOKENS, 4 * tokens))
    most = min(tokens, window // 4)
    folding = Folding(_COUNTER, most, window, aim=most)
    if folding.chunk_tokens <= 0:
        job.warn(f"{model.name} has no room for messages beside a summary of {tokens:,} tokens: not asked")
        return None
    parts = len(chunks(messages, names, folding))
    if parts == 1:
        # A short chat is not folded to save room.
        folding = replace(folding, min_gain=float("-inf"))
    failure: list[ModelError | BudgetExhausted] = []
    asked = 0

    async def ask(prompt: str) -> str:
        nonlocal asked
        asked += 1
        job.progress(asked, max(asked, parts))
        try:
            return await job.ask(model, prompt, output)
        except (ModelError, BudgetExhausted) as error:
            failure.append(error)
            if isinstance(error, BudgetExhausted):
                # The fault is quoted in a warning, which does not name limits by their Python names.
                raise BudgetExhausted(error.limit, error.cause) from error
            raise

    summary = await drive_async(
        summary_steps(messages, names, folding), ask, failures=(ModelError, BudgetExhausted)
    )
    if summary.text is None:
        job.warn(f"{summary.fault}: the messages' telling sentences stand in the summary's place")
        if failure:
            job.note_stop(failure[-1])
    return summary.text


def _extracted(
    states: Sequence[Line],
    facts: Sequence[SalientSentence],
    extraction: Extraction,
    messages: Sequence[Message],
    names: Sequence[str],
    tokens: int,
) -> tuple[list[Line], tuple[Fact, ...]]:
    """The telling sentences, and of the facts what else there is room for."""
    whole = sum(_COUNTER.count_each([message.content for message in messages]))
    most = min(tokens, max(_MIN_TOKENS, int(whole * _SHARE)))
    lines, checked = _restored(_filled(states, extraction, names, most), facts, names, most)
    checked = tuple(replace(fact, status="kept") if fact.status == "restored" else fact for fact in checked)
    places = {name: place for place, name in enumerate(names)}
    return sorted(lines, key=lambda line: places[line.names[0]]), checked


def _filled(states: Sequence[Line], extraction: Extraction, names: Sequence[str], tokens: int) -> list[Line]:
    """The card's states and the telling sentences in at most `tokens`: what a first guess leaves is used."""
    allowance = tokens
    best: list[Line] = list(states)
    for _ in range(_GUESSES):
        lines = [*states, *(_line(one, names) for one in extraction.lines(names, allowance, _COUNTER))]
        size = _COUNTER.count(page(lines))
        if size <= tokens and len(lines) >= len(best):
            best = lines
        if _FULL * tokens <= size <= tokens or not size:
            break
        allowance = int(allowance * tokens / size * (1.0 if size < tokens else 0.99))
    while best and _COUNTER.count(page(best)) > tokens:
        best.pop()  # states of more cards than there is room for
    return best


def _within(job: Job, lines: list[Line], tokens: int) -> list[Line]:
    """The lines that `tokens` hold: the last of the longest headings go first."""
    dropped = 0
    while lines and _COUNTER.count(page(lines)) > tokens:
        sizes = {heading: sum(line.heading == heading for line in lines) for heading in HEADINGS}
        longest = max(HEADINGS, key=lambda heading: sizes[heading])
        last = max(place for place, line in enumerate(lines) if line.heading == longest)
        lines = lines[:last] + lines[last + 1 :]
        dropped += 1
    if dropped:
        job.warn(f"{dropped:,} lines were left out: {tokens:,} tokens do not hold them; allow more tokens")
    return lines


def _restored(
    lines: list[Line], facts: Sequence[SalientSentence], names: Sequence[str], tokens: int
) -> tuple[list[Line], tuple[Fact, ...]]:
    """The lines with the facts that they had lost, as far as there is room; and what became of each fact."""
    counter: Counter = _COUNTER
    held = check(facts, lines, names)
    rows: list[Fact] = []
    room = tokens - counter.count(page(lines))
    for fact, kept in zip(facts, held, strict=True):
        row = Fact(fact.heading, fact.text, names[fact.place])
        if not kept:
            line = _line(fact, names)
            cost = counter.count("\n" + line.rendered())
            if cost <= room and counter.count(page([*lines, line])) <= tokens:
                lines = [*lines, line]
                room = tokens - counter.count(page(lines))
                row = replace(row, status="restored")
            else:
                row = replace(row, status="lost")
        rows.append(row)
    return lines, tuple(rows)


def _line(told: SalientSentence, names: Sequence[str]) -> Line:
    return Line(told.heading, told.text_with_speaker, (names[told.place],))


def _citations(body: Body, lines: Sequence[Line], entries: Sequence[Entry]) -> tuple[Citation, ...]:
    """Where each message that a line names stands, in the order of the history."""
    named = {name for line in lines for name in line.names}
    cited = [entry for entry in entries if entry.name in named]
    spans = [_words_of(body, entry) for entry in cited]
    found = {(one.start, one.end): one for one in cite(spans, "", body)}
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
    """Where what was said stands, without the line that says who and when."""
    raw = body.text(entry.start, entry.end)
    at = max(0, raw.find(entry.message.content[:40].partition("\n")[0]))
    return Span(entry.start + at, entry.start + len(raw.rstrip()))
