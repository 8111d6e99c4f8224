"""Messages folded into one summary, chunk by chunk, without ever asking for one itself.

The work is a generator: it yields a prompt and is sent the answer, so that one logic serves callers that
wait and callers that await.
"""

from __future__ import annotations

from collections.abc import Generator, Sequence
from dataclasses import dataclass

from rlm.prompts.assembly.trim import trim_text
from rlm.prompts.history.cache import SummaryCache, key_of
from rlm.prompts.history.message import Message, render, units
from rlm.prompts.templates import words
from rlm.prompts.tokens.counters import Counter

__all__ = [
    "BREAK",
    "MIN_GAIN",
    "SUMMARY_PROMPT",
    "Failed",
    "Folding",
    "Summary",
    "SummarySteps",
    "chunks",
    "fits_window",
    "summary_steps",
]

SUMMARY_PROMPT = words("summary.md")
"""What a summariser is asked, before `BREAK` and the messages."""

BREAK = "\n\n---\n\n"

MIN_GAIN = 0.1
"""A summary that saves less of what it replaces is not worth its losses."""

_WORDS_A_TOKEN = 0.6  # few enough for lines full of names, paths and marks
_SO_FAR = "Summary so far:\n\n"
_NEW = "\n\nNew messages:\n\n"
_JOIN = "\n\n"


@dataclass(frozen=True, slots=True)
class Failed:
    """Sent instead of an answer: the summariser failed, and why."""

    reason: str


@dataclass(frozen=True, slots=True)
class Folding:
    """How messages are folded: a summary of at most `allowance` tokens of `counter`, out of prompts of at
    most `window` tokens. A quarter of the window is kept for the summary so far. A summary that saves less
    than `min_gain` of what it replaces is a failure. `aim` tokens are what the prompts ask for: the same
    while a history grows, so that no prompt changes; 0 says nothing of length."""

    counter: Counter
    allowance: int
    window: int
    cache: SummaryCache | None = None
    min_gain: float = MIN_GAIN
    aim: int = 0

    @property
    def chunk_tokens(self) -> int:
        """Tokens of messages in one prompt. It hangs on the window alone: the borders of the chunks, and
        with them what is cached, stay as they are while a history grows."""
        around = (
            SUMMARY_PROMPT
            + 2 * BREAK
            + _SO_FAR
            + _NEW
            + _size_request(10**9)
            + BREAK
            + _overrun_request(10**9, 10**9)
        )
        return self.window * 3 // 4 - self.counter.count(around)


@dataclass(frozen=True, slots=True)
class Summary:
    """`text` is None when there is none worth having: `fault` says why."""

    text: str | None
    fault: str = ""
    actions: tuple[str, ...] = ()


SummarySteps = Generator[str, "str | Failed", Summary]


def summary_steps(
    messages: Sequence[Message], names: Sequence[str], folding: Folding, *, so_far: str = ""
) -> SummarySteps:
    """The summary of `messages`, which it cites by `names`; `so_far` is the summary of what came before
    them, which is carried into it.

    Yields prompts; is sent each one's answer, or Failed. Nothing is asked twice: `folding.cache` is looked
    into first. Stops at the first answer that fails, is empty, is too long twice, or saves too little.
    """
    count = folding.counter.count
    cut: list[str] = []
    replaced = count(so_far)
    summary, asked = so_far, 0
    groups = chunks(messages, names, folding)
    for group in groups:
        written = _write_group(messages, names, group, folding, cut)
        replaced += count(written)
        body = f"{_SO_FAR}{summary}{_NEW}{written}" if summary else written
        prompt = SUMMARY_PROMPT + BREAK + body + (BREAK + _size_request(folding.aim) if folding.aim else "")
        kept = folding.cache.get(key_of(prompt)) if folding.cache is not None else None
        answer = yield from _request_summary(prompt, kept, folding)
        if isinstance(answer, Failed):
            return Summary(None, answer.reason)
        if count(answer) > replaced * (1 - folding.min_gain):
            return Summary(None, f"a summary saved less than {folding.min_gain:.0%} of what it replaced")
        if answer != kept:
            asked += 1
            if folding.cache is not None:
                folding.cache[key_of(prompt)] = answer
        summary = answer
    done = (
        f"summarised {len(messages):,} messages in {len(groups):,} chunks, {len(groups) - asked:,} from cache"
    )
    return Summary(summary, actions=(done, *cut))


def _request_summary(
    prompt: str, kept: str | None, folding: Folding
) -> Generator[str, str | Failed, str | Failed]:
    """The answer to `prompt` within the allowance, after one retry that names the overrun."""
    answer: str | Failed = (yield prompt) if kept is None else kept
    sizes = []
    for last in (False, True):
        if isinstance(answer, Failed):
            return answer
        answer = answer.strip()
        if not answer:
            return Failed("the summary was empty")
        size = folding.counter.count(answer)
        if size <= folding.allowance:
            return answer
        sizes.append(f"{size:,}")
        if not last:
            answer = yield prompt + BREAK + _overrun_request(size, folding.allowance)
    return Failed(
        f"the summary took {' and then '.join(sizes)} tokens, {folding.allowance:,} were left for it"
    )


def _size_request(aim: int) -> str:
    """In words, rounded to two figures: models know these better than tokens."""
    words = int(aim * _WORDS_A_TOKEN)
    step = 10 ** max(0, len(str(words)) - 2)
    return (
        f"Your summary may take up to {words // step * step:,} words. Use them as long as there are facts "
        "worth keeping, and stop where there are no more."
    )


def _overrun_request(size: int, allowance: int) -> str:
    return (
        f"Your last summary took {size:,} tokens, {size - allowance:,} too many. Write it again in at most "
        f"{allowance:,} tokens: drop what matters least, and keep requirements, decisions and errors."
    )


def fits_window(counter: Counter, window: int) -> bool:
    """Whether prompts of `window` tokens leave room for messages."""
    return Folding(counter, 0, window).chunk_tokens > 0


def chunks(messages: Sequence[Message], names: Sequence[str], folding: Folding) -> list[list[range]]:
    """The messages' units, in order, in groups that fit a prompt; one that is larger stands alone."""
    costs = folding.counter.count_each(
        [_JOIN + render(message, name) for message, name in zip(messages, names, strict=True)]
    )
    groups: list[list[range]] = []
    left = 0
    for unit in units(messages):
        cost = sum(costs[unit.start : unit.stop])
        if not groups or cost > left:
            groups.append([])
            left = folding.chunk_tokens
        groups[-1].append(unit)
        left -= cost
    return groups


def _write_group(
    messages: Sequence[Message],
    names: Sequence[str],
    group: Sequence[range],
    folding: Folding,
    cut: list[str],
) -> str:
    """The group's messages as the summariser reads them. Those of a unit too large for any prompt are cut
    in the middle, each to its share, and noted in `cut`."""
    places = range(group[0].start, group[-1].stop)
    texts = [render(messages[place], names[place]) for place in places]
    count = folding.counter.count
    written = _JOIN.join(texts)
    if len(group) > 1 or count(written) <= folding.chunk_tokens:
        return written
    share = folding.chunk_tokens // len(texts) - count(_JOIN)
    for index, place in enumerate(places):
        shorter = trim_text(texts[index], share, "middle", count) or f"[{names[place]}] […]"
        if shorter != texts[index]:
            texts[index] = shorter
            cut.append(f"{names[place]} was cut in the middle: the summariser's prompt does not hold it")
    return _JOIN.join(texts)
