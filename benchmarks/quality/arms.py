"""The arms: ways to answer one question with the same model, each by the shipped prompts alone.

No arm has words of its own. An arm chooses a strategy, limits, and which part of the texts a run gets.
"""

from __future__ import annotations

import asyncio
import re
from collections.abc import Sequence
from dataclasses import dataclass, replace

from benchmarks.quality.item import Item
from rlm.accounting.metered_model import estimate
from rlm.answers.thinking import without_reasoning
from rlm.documents import TextSource
from rlm.driver.direct import answer_and_quotes, room_of
from rlm.errors import UsageError
from rlm.models.base import Model
from rlm.results import RunResult
from rlm.retrieval.retriever import Retriever
from rlm.runs.opening import open_journal
from rlm.runtime import RLM
from rlm.settings import Limits, Settings
from rlm.tasks.attempts import MAX_ATTEMPTS, answer_in_attempts

__all__ = ["ARMS", "Arm", "TooLong", "find_arm"]

_PASSAGES = 8
_NUMBERED = re.compile(r"(depth|attempts|bm25)-(\d{1,2})")
_MAX_DEPTH = 5
_MAX_PASSAGES = 64
_WITHHELD = frozenset({"unverified", "invalid_reply", "truncated_reply"})


class TooLong(UsageError):
    """The texts do not fit the one prompt of an arm."""


@dataclass(frozen=True, slots=True)
class Arm:
    """One way to answer. `kind` is its name without the number, and `number` the depth, the attempts or the
    passages."""

    name: str
    kind: str
    number: int = 0

    def settings(self, settings: Settings) -> Settings:
        """Return the settings of its runs."""
        one_call = self.kind in ("direct", "truncated", "bm25")
        if self.kind == "auto":
            return replace(settings, strategy="auto")
        if self.kind == "map-reduce":
            return replace(settings, strategy="map-reduce")
        return replace(settings, strategy="direct" if one_call else "rlm")

    def limits(self, limits: Limits) -> Limits:
        """Return the limits of its runs. Only what makes the arm differs."""
        if self.kind == "code":
            return replace(limits, max_calls=0, max_depth=0)
        return replace(limits, max_depth=self.number) if self.kind == "depth" else limits

    def give(self, rlm: RLM, item: Item) -> tuple[str, ...]:
        """Return the texts for a run. Raises TooLong for one call that cannot hold them."""
        if self.kind == "bm25":
            return _passages(item, self.number)
        if self.kind not in ("direct", "truncated"):
            return item.texts
        room = room_of(rlm.model, rlm.settings.direct) - estimate(item.question)
        tokens = sum(estimate(text) for text in item.texts)
        if tokens <= room:
            return item.texts
        if self.kind == "direct":
            raise TooLong(f"about {tokens:,} tokens of text, and one prompt holds {max(0, room):,}")
        return _beginning(item.texts, room)

    async def answer(
        self, model: str | Model, item: Item, run_id: str, *, settings: Settings, limits: Limits
    ) -> tuple[RunResult, str]:
        """Return the result of one run, and what it said as it is scored.

        `limits` are those of the run, and `settings` name its store. A run of that name in it is resumed;
        attempts begin anew. Raises TooLong.

        The runtime withholds the answer of a single call whose quotes it cannot verify. Scoring that would
        score our gate and not the model, so the reply itself is scored.
        """
        rlm = RLM(model, settings=self.settings(settings), limits=self.limits(limits))
        async with rlm, open_journal(rlm.settings) as journal:
            sources = [TextSource("text", text) for text in await asyncio.to_thread(self.give, rlm, item)]
            if self.kind == "attempts":
                result = await answer_in_attempts(rlm, item.question, sources, attempts=self.number)
            elif await journal.holds(run_id):
                result = await rlm.resume(run_id, context=sources, take_over=True)
            else:
                result = await rlm.run(item.question, sources, run_id=run_id)
            if result.answer is not None:
                return result, result.text
            if result.stop_reason not in _WITHHELD:
                return result, ""
            replies = [
                event.data["reply"]
                for event in await journal.events(result.run_id)
                if event.data.get("role") == "direct" and "reply" in event.data
            ]
        return result, answer_and_quotes(without_reasoning(replies[-1]))[0] if replies else ""


ARMS = (
    *("direct", "truncated", "map-reduce", "bm25", "code", "depth-1", "depth-2", "depth-3", "attempts-3"),
)
_PLAIN = ("auto", "direct", "truncated", "map-reduce", "code")


def find_arm(name: str) -> Arm:
    """Return an arm by its name: `direct`, `bm25`, `bm25-16`, `depth-2`, `attempts-5`, … Raises UsageError,
    which lists the forms."""
    if name in _PLAIN:
        return Arm(name, name)
    if name == "bm25":
        return Arm(name, "bm25", _PASSAGES)
    numbered = _NUMBERED.fullmatch(name)
    if numbered is not None:
        kind, number = numbered[1], int(numbered[2])
        low, high = {"depth": (0, _MAX_DEPTH), "attempts": (2, MAX_ATTEMPTS), "bm25": (1, _MAX_PASSAGES)}[
            kind
        ]
        if low <= number <= high:
            return Arm(f"{kind}-{number}", kind, number)
        raise UsageError(f"the arm {name} has a number out of range: give {kind}-{low} to {kind}-{high}")
    raise UsageError(
        f"there is no arm {name!r}: the arms are {', '.join(_PLAIN)}, bm25, bm25-K, depth-N, attempts-N"
    )


def _passages(item: Item, count: int) -> tuple[str, ...]:
    """Return the best passages in the order of the text; the beginning if no word of the question occurs."""
    with Retriever.over([TextSource("text", text) for text in item.texts]) as retriever:
        packs = retriever.retrieve(item.question.replace('"', " "), count)
    found = sorted(packs, key=lambda pack: pack.start)
    return tuple(pack.text for pack in found) or (item.texts[0][:1_000],)


def _beginning(texts: Sequence[str], tokens: int) -> tuple[str, ...]:
    """Return what of the texts fits so many tokens, from the first one on."""
    kept: list[str] = []
    for text in texts:
        size = len(text)
        while size and (taken := estimate(text[:size])) > tokens:
            size = min(size - 1, int(size * tokens / taken))
        if size:
            kept.append(text[:size])
        if size < len(text):
            break
        tokens -= estimate(text)
    return tuple(kept) or (texts[0][:1],)
