"""Summarize messages chunk by chunk, carrying the summary so far into each prompt."""

from __future__ import annotations

import re
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, replace
from hashlib import sha256
from typing import Protocol

from rlm.prompts.fitting import trim_text
from rlm.prompts.history.message import Message, render, units
from rlm.prompts.templates import words
from rlm.prompts.tokens.counters import Counter

__all__ = [
    "BREAK",
    "MIN_GAIN",
    "SUMMARY_PROMPT",
    "Ask",
    "Folding",
    "Summary",
    "SummaryCache",
    "chunks",
    "fits_window",
    "summarize_messages",
]

SUMMARY_PROMPT = words("summary.md")
"""The instructions of a summary prompt, before `BREAK` and the messages."""

BREAK = "\n\n---\n\n"

MIN_GAIN = 0.1
"""Minimum share of its input that a summary must save to be used."""

_MAX_PARTS = 16  # prompts that one message may take
_TOKENS_A_LINE = 52  # of 25 words and two marks, so that a model that keeps the lines keeps the tokens
_SO_FAR = "Summary so far:\n\n"
_NEW = "\n\nNew messages:\n\n"
_JOIN = "\n\n"
_CUTS = tuple(map(re.compile, (r"\n[ \t]*\n", r"\n", r"[.!?…][\"'”’)]*\s|[。！？]", r"\s|[，、；]")))


Ask = Callable[[str], Awaitable[str]]
"""Answers a prompt (`SUMMARY_PROMPT`, `BREAK`, messages) with a summary."""


class SummaryCache(Protocol):
    """Maps the hash of a prompt to its summary. A `dict[str, str]` works."""

    def get(self, key: str, /) -> str | None: ...

    def __setitem__(self, key: str, summary: str, /) -> None: ...


class _Failed(Exception):
    """There is no usable summary. The message says why."""


@dataclass(frozen=True, slots=True)
class Folding:
    """How messages are summarized.

    The summary takes at most `allowance` tokens of `counter`, each prompt at most `window` tokens. A quarter
    of the window is reserved for the summary so far. `aim` is the length in tokens that prompts ask for, as
    a number of lines. It must stay the same while a history grows, or cached prompts no longer match; 0 asks
    for no length.
    """

    counter: Counter
    allowance: int
    window: int
    cache: SummaryCache | None = None
    aim: int = 0

    @property
    def chunk_tokens(self) -> int:
        """Return the tokens of messages in one prompt.

        It depends on the window alone. So chunk borders, and cached summaries with them, stay the same while
        a history grows.
        """
        overhead = self.counter.count(SUMMARY_PROMPT + 2 * BREAK + _SO_FAR + _NEW + _size_request(10**9))
        return self.window * 3 // 4 - overhead


@dataclass(frozen=True, slots=True)
class Summary:
    """A summary. `text` is None if there is no usable one; `fault` says why."""

    text: str | None
    fault: str = ""
    actions: tuple[str, ...] = ()


async def summarize_messages(
    messages: Sequence[Message],
    names: Sequence[str],
    folding: Folding,
    ask: Ask,
    *,
    so_far: str = "",
    failures: tuple[type[Exception], ...] = (Exception,),
) -> Summary:
    """Summarize `messages`, citing them by `names`. `so_far` is the summary of earlier messages, if any.

    Checks `folding.cache` before each prompt. Stops at the first answer that fails, is empty, or saves too
    little. An answer that is too long is shortened once by the model, which gets only that answer. Only
    exceptions in `failures` count as a failed summary.
    """
    count = folding.counter.count
    notes: list[str] = []
    replaced = count(so_far)
    summary, asked = so_far, 0
    texts = _texts(messages, names, folding, notes)
    for written in texts:
        replaced += count(written)
        body = f"{_SO_FAR}{summary}{_NEW}{written}" if summary else written
        prompt = SUMMARY_PROMPT + BREAK + body + (BREAK + _size_request(folding.aim) if folding.aim else "")
        key = sha256(prompt.encode("utf-8", "surrogatepass")).hexdigest()
        kept = folding.cache.get(key) if folding.cache is not None else None
        try:
            summary = await _fitting(prompt, kept, folding, int(replaced * (1 - MIN_GAIN)), ask)
        except _Failed as failed:
            return Summary(None, str(failed))
        except failures as error:
            return Summary(None, f"the summarizer failed ({type(error).__name__}: {error})")
        if summary != kept:
            asked += 1
            if folding.cache is not None:
                folding.cache[key] = summary
    done = (
        f"summarized {len(messages):,} messages in {len(texts):,} chunks, {len(texts) - asked:,} from cache"
    )
    return Summary(summary, actions=(done, *notes))


async def _fitting(prompt: str, kept: str | None, folding: Folding, most: int, ask: Ask) -> str:
    """Return the answer to `prompt`. One of more than `most` tokens saves too little and is a failure.

    One that is too long is sent back once, alone, to be shortened. If it is still too long, it is a failure:
    a summary is never cut.
    """
    draft = (await _asked(prompt, ask) if kept is None else kept).strip()
    if not draft:
        raise _Failed("the summary was empty")
    size = folding.counter.count(draft)
    if size > most:
        raise _Failed(f"a summary saved less than {MIN_GAIN:.0%} of what it replaced")
    if size <= folding.allowance:
        return draft
    shorter = (await _asked(_shorten_request(draft, size, folding.allowance), ask)).strip()
    if shorter and folding.counter.count(shorter) <= folding.allowance:
        return shorter
    raise _Failed(
        f"the summary took {size:,} tokens, {folding.allowance:,} were allowed, and was not shortened"
    )


async def _asked(prompt: str, ask: Ask) -> str:
    answer = await ask(prompt)
    if not isinstance(answer, str):
        raise _Failed(f"the summarizer returned {type(answer).__name__} and not a text")
    return answer


def _size_request(aim: int) -> str:
    """Ask for a length in lines: models count lines well, and tokens badly."""
    return (
        f"Your summary may have at most {max(1, aim // _TOKENS_A_LINE):,} lines, each of at most 25 words "
        "and two marks. Use them as long as there are facts worth keeping, then stop."
    )


def _shorten_request(draft: str, size: int, allowance: int) -> str:
    lines = sum(bool(line.strip()) for line in draft.splitlines())
    most = max(1, lines * allowance * 9 // (10 * size))
    return words("shorten.md").format(lines=f"{lines:,}", most=f"{most:,}") + BREAK + draft


def fits_window(counter: Counter, window: int) -> bool:
    """Return whether prompts of `window` tokens leave room for messages."""
    return Folding(counter, 0, window).chunk_tokens > 0


def chunks(messages: Sequence[Message], names: Sequence[str], folding: Folding) -> list[list[range]]:
    """Group the messages' units into prompts, in order. A unit too large for a prompt gets its own group."""
    costs = folding.counter.count_each(
        [_JOIN + render(message, name) for message, name in zip(messages, names, strict=True)]
    )
    groups: list[list[range]] = []
    size = 0
    for unit in units(messages):
        cost = sum(costs[unit.start : unit.stop])
        if not groups or size + cost > folding.chunk_tokens:
            groups.append([])
            size = 0
        groups[-1].append(unit)
        size += cost
    return groups


def _texts(
    messages: Sequence[Message], names: Sequence[str], folding: Folding, notes: list[str]
) -> list[str]:
    """Return the messages as texts that each fit a prompt, in order. `notes` gets a line for each message
    that was split or cut."""
    groups = chunks(messages, names, folding)
    return [text for group in groups for text in _write_group(messages, names, group, folding, notes)]


def _write_group(
    messages: Sequence[Message],
    names: Sequence[str],
    group: Sequence[range],
    folding: Folding,
    notes: list[str],
) -> list[str]:
    """Render the group's messages for the summarizer, as the text of one prompt or of several in order.

    A unit too large for a prompt is split between messages, and a message too large is split into parts. A
    message of more than `_MAX_PARTS` parts loses its middle. `notes` gets a line for each message that was
    split or cut.
    """
    places = range(group[0].start, group[-1].stop)
    texts = [render(messages[place], names[place]) for place in places]
    count = folding.counter.count
    if len(group) > 1 or count(_JOIN.join(texts)) <= folding.chunk_tokens:
        return [_JOIN.join(texts)]
    written: list[str] = []
    for text, place in zip(texts, places, strict=True):
        parts = _parts_of(messages[place], names[place], text, folding, notes)
        joined = _JOIN.join([written[-1], parts[0]]) if written else ""
        if joined and count(joined) <= folding.chunk_tokens:
            written[-1:] = [joined, *parts[1:]]
        else:
            written += parts
    return written


def _parts_of(message: Message, name: str, text: str, folding: Folding, notes: list[str]) -> list[str]:
    """Return the rendered message as parts that each fit a prompt."""
    room = folding.chunk_tokens
    count = folding.counter.count
    if count(text) <= room:
        return [text]
    head = count(render(replace(message, content=_part_mark(_MAX_PARTS, _MAX_PARTS)), name)) + count(_JOIN)
    if head >= room:
        notes.append(f"{name} was left out: its name and author alone do not fit a summary prompt")
        return [f"[{name}] […]"]
    content = trim_text(message.content, (room - head) * _MAX_PARTS // 2, "middle", count) or ""
    if content != message.content:
        notes.append(f"{name} was cut in the middle: it is too long to be read whole")
    pieces = _halve(content, room - head, count)
    notes.append(f"{name} was read in {len(pieces)} parts: it does not fit a summary prompt")
    return [
        render(replace(message, content=f"{_part_mark(number, len(pieces))}{piece}"), name)
        for number, piece in enumerate(pieces, 1)
    ]


def _part_mark(number: int, parts: int) -> str:
    return f"(part {number} of {parts}) "


def _halve(text: str, room: int, count: Callable[[str], int]) -> list[str]:
    """Return `text` in pieces of at most `room` tokens, halved at a blank line, a line's or a sentence's end,
    or a blank. Only a text without any of these is cut in the middle."""
    if count(text) <= room or len(text) < 2:
        return [text]
    middle = len(text) // 2
    quarter = middle // 2
    cut = next(
        (
            min((found.end() for found in places), key=lambda at: abs(at - middle))
            for pattern in _CUTS
            if (places := list(pattern.finditer(text, middle - quarter, middle + quarter)))
        ),
        middle,
    )
    return [*_halve(text[:cut], room, count), *_halve(text[cut:], room, count)]
