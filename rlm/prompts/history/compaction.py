"""Fit a chat history into a budget: whole if it fits, else a summary and recent messages word for word.

Rules (system messages) are always kept unchanged, and so is the user's last request, unless the two exceed
the budget: then the middle of the request is cut. If the summary fails, it is not used: then the most recent
messages that fit are kept. The result carries a warning in both cases.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Literal

from rlm.prompts.errors import BudgetExceeded, SectionError
from rlm.prompts.fitting import trim_text
from rlm.prompts.history.extract import extract
from rlm.prompts.history.message import Message, label, render, units
from rlm.prompts.history.summary import (
    MIN_GAIN,
    Ask,
    Folding,
    SummaryCache,
    chunks,
    fits_window,
    summarize_messages,
)
from rlm.prompts.tokens.counters import Counter, get_counter

__all__ = ["CompactedHistory", "Summarizer", "compact_history"]

Summarizer = Callable[[str], str]
"""Answers a prompt (`SUMMARY_PROMPT`, `BREAK`, messages) with a summary. Any exception counts as a failure.
"""

Kind = Literal["whole", "summary", "recent"]

_JOIN = "\n\n"
_KEPT_HEADING = "Messages kept word for word:"


@dataclass(frozen=True, slots=True)
class CompactedHistory:
    """A history as it goes into a prompt.

    `text` is the whole history, in at most the budget's tokens; `tokens` is its size. `messages` are those
    kept word for word, in order. `summary` is None if there is none. `kind` is `whole`, `summary`, or
    `recent`: messages were left out or cut without a summary, and a warning says why.
    """

    text: str
    messages: tuple[Message, ...]
    summary: str | None
    tokens: int
    actions: tuple[str, ...] = ()
    warnings: tuple[str, ...] = ()
    kind: Kind = "whole"


def compact_history(
    messages: Sequence[Message],
    *,
    budget: int,
    counter: Counter | None = None,
    summarizer: Summarizer | None = None,
    threshold: int = 80,
    window: int = 32_000,
    cache: SummaryCache | None = None,
) -> CompactedHistory:
    """Return the history in at most `budget` tokens of `counter` (default `estimate`).

    A history of at most `threshold` per cent of the budget stays whole, and no model is called. Otherwise
    older messages are summarized by `summarizer`, in prompts of at most `window` tokens; `cache` is checked
    before each call. Without a summarizer their salient sentences are selected, which needs no model and is
    deterministic.

    Raises SectionError for an invalid budget, threshold or window. Raises BudgetExceeded if the rules
    alone exceed the budget.
    """
    job = _Job(tuple(messages), budget, counter or get_counter(), threshold, window, cache)
    ask: Ask | None = None
    if summarizer is not None:
        answer = summarizer

        async def ask(prompt: str) -> str:
            return answer(prompt)

    work = _compact(job, ask)
    try:
        work.send(None)
    except StopIteration as end:
        result: CompactedHistory = end.value
        return result
    raise AssertionError("unreachable: a summarizer that is no coroutine is not waited for")


@dataclass(frozen=True)
class _Job:
    """The input of one compaction, with values computed from it."""

    messages: tuple[Message, ...]
    budget: int
    counter: Counter
    threshold: int
    window: int
    cache: SummaryCache | None

    def __post_init__(self) -> None:
        faults = []
        if self.budget < 0:
            faults.append(f"a history budget of {self.budget:,} tokens is negative: use 0 or more")
        if not 1 <= self.threshold <= 100:
            faults.append(f"a threshold of {self.threshold} per cent is out of range: use 1 to 100")
        if not fits_window(self.counter, self.window):
            faults.append(
                f"a summary prompt of {self.window:,} tokens leaves no room for messages: raise `window`"
            )
        if faults:
            raise SectionError(tuple(faults))

    @cached_property
    def names(self) -> list[str]:
        return [label(message, place) for place, message in enumerate(self.messages)]

    @cached_property
    def costs(self) -> list[int]:
        """Return the tokens of each message, with the blank line before it."""
        return self.counter.count_each([_JOIN + render(message) for message in self.messages])

    @cached_property
    def talk_places(self) -> list[int]:
        """Return the indexes of all messages except rules."""
        return [place for place, message in enumerate(self.messages) if message.role != "system"]

    @cached_property
    def conversation(self) -> list[Message]:
        return [self.messages[place] for place in self.talk_places]

    @cached_property
    def pinned(self) -> frozenset[int]:
        """Return the indexes of the rules and the last request."""
        rules = {place for place, message in enumerate(self.messages) if message.role == "system"}
        users = [place for place, message in enumerate(self.messages) if message.role == "user"]
        return frozenset(rules | set(users[-1:]))

    def pinned_names(self) -> tuple[str, ...]:
        """Return what is pinned ("the rules", "the last request"), largest first."""
        sizes: dict[str, int] = {}
        for place in self.pinned:
            what = "the rules" if self.messages[place].role == "system" else "the last request"
            sizes[what] = sizes.get(what, 0) + self.costs[place]
        return tuple(sorted(sizes, key=lambda what: -sizes[what]))

    @cached_property
    def room(self) -> int:
        """Return the tokens left next to the pinned messages and the headings around a summary."""
        count = self.counter.count
        longest = max(count(_heading(len(self.messages))), count(_omission_note(len(self.messages))))
        frame = longest + count(_KEPT_HEADING) + 3 * count(_JOIN)
        return self.budget - sum(self.costs[place] for place in self.pinned) - frame

    def places_without(self, old: Sequence[int]) -> list[int]:
        """Return the indexes of the messages that stay when those of `old` are summarized."""
        gone = set(old) - self.pinned
        return [place for place in range(len(self.messages)) if place not in gone]

    def result(
        self,
        places: Sequence[int],
        kind: Kind,
        *,
        summary: str | None = None,
        folded: int = 0,
        actions: tuple[str, ...] = (),
        warnings: tuple[str, ...] = (),
    ) -> CompactedHistory:
        """Return the history with the messages at `places` word for word.

        A summary, or a line that counts the messages left out, follows the rules.
        """
        kept = tuple(self.messages[place] for place in places)
        if kind == "whole":
            text = _JOIN.join(map(render, kept))
        else:
            rules = [render(message) for message in kept if message.role == "system"]
            others = [render(message) for message in kept if message.role != "system"]
            stead = [_heading(folded), summary] if summary else [_omission_note(folded)] if folded else []
            text = _JOIN.join([*rules, *stead, *([_KEPT_HEADING, *others] if others else [])])
        return CompactedHistory(text, kept, summary, self.counter.count(text), actions, warnings, kind)


def _heading(count: int) -> str:
    return f"Summary of {count:,} earlier messages:"


def _omission_note(count: int) -> str:
    return f"[… {count:,} earlier messages left out …]"


async def _compact(job: _Job, ask: Ask | None) -> CompactedHistory:
    """Compact with the model behind `ask`, or without one."""
    everything = range(len(job.messages))
    whole = job.result(everything, "whole")
    if whole.tokens <= job.budget * job.threshold // 100:
        return whole
    if whole.tokens > job.budget and job.room < 0:
        job, note = _cut_last_request(job)
        if note:
            made = await _compact(job, ask)
            kind: Kind = "recent" if made.kind == "whole" else made.kind
            return replace(made, kind=kind, warnings=(note, *made.warnings))
    old = job.talk_places[: _tail_start(job, extractive=ask is None)]
    fault = f"a summary would save less than {MIN_GAIN:.0%}"
    actions: tuple[str, ...] = ()
    if job.room > 0 and sum(job.costs[place] for place in old) >= whole.tokens * MIN_GAIN:
        if ask is None:
            max_tokens = min(job.budget, int(whole.tokens * (1 - MIN_GAIN)))
            result, fault = _extract_within(job, old, max_tokens), "no sentence stands out"
        else:
            result, fault, actions = await _summarize(job, old, ask)
        if result is not None:
            if result.tokens <= whole.tokens * (1 - MIN_GAIN):
                return result
            fault = f"the summary would save less than {MIN_GAIN:.0%}"
    if whole.tokens <= job.budget:
        return job.result(everything, "whole", actions=actions, warnings=(f"left whole: {fault}",))
    return _keep_recent(job, fault, actions)


def _cut_last_request(job: _Job) -> tuple[_Job, str]:
    """Return the job with the middle of the last request cut out, and a note. The note is "" if that would
    not help: there is no request, or the rules alone take the room."""
    place = max((at for at, message in enumerate(job.messages) if message.role == "user"), default=None)
    if place is None:
        return job, ""
    message = job.messages[place]
    around = job.costs[place] - job.counter.count(message.content)
    # A quarter of what the rules leave is for the messages before the request.
    share = (job.room + job.costs[place]) * 3 // 4 - around
    shorter = trim_text(message.content, share, "middle", job.counter.count) if share > 0 else None
    if shorter is None or shorter == message.content:
        return job, ""
    messages = (*job.messages[:place], replace(message, content=shorter), *job.messages[place + 1 :])
    note = (
        f"the last request was cut in the middle: {len(message.content):,} characters do not fit the "
        "history's budget"
    )
    return replace(job, messages=messages), note


def _tail_start(job: _Job, *, extractive: bool) -> int:
    """Return the index in `job.talk_places` from which messages stay word for word."""
    groups = units(job.conversation)
    costs = [sum(job.costs[job.talk_places[at]] for at in unit) for unit in groups]
    free = [
        cost - sum(job.costs[job.talk_places[at]] for at in unit if job.talk_places[at] in job.pinned)
        for unit, cost in zip(groups, costs, strict=True)
    ]
    start = _tail(free, job.room // 5) if extractive else _border(job, groups, costs, free)
    return groups[start].start if start < len(groups) else len(job.talk_places)


def _tail(costs: Sequence[int], allowance: int) -> int:
    """Return the index of the first of the last units that `allowance` holds."""
    start = len(costs)
    while start and costs[start - 1] <= allowance:
        start -= 1
        allowance -= costs[start]
    return start


def _border(job: _Job, groups: Sequence[range], costs: Sequence[int], free: Sequence[int]) -> int:
    """Return the index of the unit from which messages stay word for word.

    The border moves in blocks, not message by message: a moving border would change every prompt and so miss
    the cache. It stays at the border of a chunk as long as the messages after it fit. So a history that grew
    by at most two blocks (an eighth of the budget) costs at most one new prompt.
    """
    block = max(1, job.budget // 16)
    max_tokens = job.room // 2
    first = _tail(free, max(0, max_tokens - 3 * block))
    names = [job.names[place] for place in job.talk_places]
    starts = {
        group[0].start for group in chunks(job.conversation, names, Folding(job.counter, 0, job.window))
    }
    chunk = filled = 0
    for at, unit in enumerate(groups):
        if unit.start in starts:
            # Stay at the border of a chunk as long as the messages after it fit.
            chunk, filled = at, 0
        elif filled + costs[at] > block:
            filled = 0
        if filled == 0 and at >= first:
            return chunk if chunk and sum(free[chunk:]) <= max_tokens else at
        filled += costs[at]
    return len(groups)


def _extract_within(job: _Job, old: Sequence[int], max_tokens: int) -> CompactedHistory | None:
    """Return the history with salient sentences, in at most `max_tokens` tokens.

    The budget is used in full, because another sentence costs no call.
    """
    kept = job.places_without(old)
    messages, names = [job.messages[place] for place in old], [job.names[place] for place in old]
    allowance = (
        job.room
        - (job.budget - max_tokens)
        - sum(job.costs[place] for place in kept if place not in job.pinned)
    )
    while allowance > 0:
        summary = extract(messages, names, allowance, job.counter)
        if not summary:
            return None
        action = f"summarized {len(old):,} messages by their salient sentences, without a model"
        result = job.result(kept, "summary", summary=summary, folded=len(old), actions=(action,))
        if result.tokens <= max_tokens:
            return result
        allowance -= result.tokens - max_tokens  # the whole measured more than its parts
    return None


async def _summarize(
    job: _Job, old: Sequence[int], ask: Ask
) -> tuple[CompactedHistory | None, str, tuple[str, ...]]:
    """Return the result (or None), the reason if there is none, and the actions taken."""
    allowance = min(job.room // 2, job.window // 4)
    # The length asked for depends on the budget alone: `room` changes with every last request.
    aim = min(job.budget // 3, job.window // 4)
    folding = Folding(job.counter, allowance, job.window, job.cache, aim=aim)
    messages, names = [job.messages[place] for place in old], [job.names[place] for place in old]
    made = await summarize_messages(messages, names, folding, ask)
    if made.text is None:
        return None, made.fault, made.actions
    result = job.result(
        job.places_without(old), "summary", summary=made.text, folded=len(old), actions=made.actions
    )
    if result.tokens > job.budget:
        return None, "the summary and the kept messages exceed the budget", made.actions
    return result, "", made.actions


def _cut_newest(job: _Job, groups: Sequence[Sequence[int]]) -> tuple[_Job, tuple[str, ...]]:
    """Return the job with the newest message cut to its end if it alone exceeds the room, and a note."""
    newest = groups[-1][-1] if groups else None
    if newest is None or newest in job.pinned or job.room <= 0:
        return job, ()
    message = job.messages[newest]
    others = sum(job.costs[place] for place in groups[-1] if place != newest and place not in job.pinned)
    if job.costs[newest] + others <= job.room:
        return job, ()
    around = job.costs[newest] - job.counter.count(message.content)
    share = job.room - others - around
    tail = trim_text(message.content, share, "tail", job.counter.count) if share > 0 else None
    if tail is None:
        return job, ()
    messages = (*job.messages[:newest], replace(message, content=tail), *job.messages[newest + 1 :])
    note = f"{job.names[newest]}, the newest message, was cut to its end: it does not fit the budget"
    return replace(job, messages=messages), (note,)


def _keep_recent(job: _Job, fault: str, actions: tuple[str, ...]) -> CompactedHistory:
    """Keep the rules, the last request and the most recent messages that fit, in order."""
    kept = set(job.pinned)
    left = job.room
    groups = [[job.talk_places[at] for at in unit] for unit in units(job.conversation)]
    job, notes = _cut_newest(job, groups)
    for unit in reversed(groups):
        places = [place for place in unit if place not in job.pinned]
        cost = sum(job.costs[place] for place in places)
        if cost > max(job.room, 0):
            continue  # never fits: older units may
        if cost > left:
            break
        kept.update(places)
        left -= cost
    order = sorted(kept)
    while True:
        out = len(job.messages) - len(order)
        what = f"{out:,} of {len(job.messages):,} messages were left out" if out else "a message was cut"
        warning = f"{what} without a summary: {fault}"
        result = job.result(order, "recent", folded=out, actions=actions, warnings=(warning, *notes))
        if result.tokens <= job.budget:
            return result
        # The whole measured more than its parts: drop the oldest unit.
        oldest = next((unit for unit in groups if kept.intersection(unit) - job.pinned), None)
        if oldest is None:
            raise BudgetExceeded(
                result.tokens, job.budget, job.pinned_names(), "shorten them or raise the history's budget"
            )
        kept -= set(oldest) - job.pinned
        order = sorted(kept)
