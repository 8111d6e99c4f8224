"""The arms: ways to answer one question with the same model, each by the shipped prompts alone.

No arm has words of its own. An arm chooses a strategy, limits, and which part of the texts a run gets.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import replace

from benchmarks.quality.bench.item import Item
from rlm.accounting.metered_model import estimate
from rlm.documents import TextSource
from rlm.driver.direct import room_of
from rlm.errors import UsageError
from rlm.lazy_dataclass import dataclass
from rlm.retrieval.retriever import Retriever
from rlm.runtime import RLM
from rlm.settings import Limits, Settings
from rlm.tasks.attempts import MAX_ATTEMPTS

__all__ = ["DEFAULT_ARMS", "Arm", "Given", "TooLong", "find_arm", "sources_of_texts"]

_PASSAGES = 8
_NUMBERED = re.compile(r"(depth|attempts|bm25)-(\d{1,2})")
_MAX_DEPTH = 5
_MAX_PASSAGES = 64


class TooLong(UsageError):
    """The texts do not fit the one prompt of an arm."""


@dataclass(frozen=True, slots=True)
class Given:
    """The texts that a run gets. `is_cut`: they are a part of the item's."""

    texts: tuple[str, ...]
    is_cut: bool

    @property
    def sources(self) -> list[TextSource]:
        """Return the texts as the context of a run: a text that looks like a path is a text, too."""
        return sources_of_texts(self.texts)


@dataclass(frozen=True, slots=True)
class Arm:
    """One way to answer. `kind` is its name without the number, and `number` the depth, the attempts or the
    passages."""

    name: str
    kind: str
    number: int = 0

    @property
    def title(self) -> str:
        """Return what the arm does, in one line."""
        titles = {
            "auto": "rlm as it is shipped: it chooses the strategy",
            "direct": "one call over the whole text",
            "truncated": "one call over the beginning of the text that fits",
            "map-reduce": "children read every part, one call answers from their notes",
            "bm25": f"one call over the {self.number} passages that BM25 ranks best",
            "code": "rounds of code without children",
            "depth": f"rounds of code with children, sub-RLMs of depth {self.number} at most",
            "attempts": f"{self.number} independent runs that share one run's limits; most agree",
        }
        return titles[self.kind]

    @property
    def attempts(self) -> int:
        """Return the number of independent runs that make an answer."""
        return self.number if self.kind == "attempts" else 1

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

    def give(self, rlm: RLM, item: Item) -> Given:
        """Return the texts for a run. Raises TooLong for one call that cannot hold them."""
        if self.kind == "bm25":
            return Given(_passages(item, self.number), True)
        if self.kind not in ("direct", "truncated"):
            return Given(item.texts, False)
        room = room_of(rlm.model, rlm.settings.direct) - estimate(item.question)
        tokens = sum(estimate(text) for text in item.texts)
        if tokens <= room:
            return Given(item.texts, False)
        if self.kind == "direct":
            raise TooLong(f"about {tokens:,} tokens of text, and one prompt holds {max(0, room):,}")
        return Given(_beginning(item.texts, room), True)


DEFAULT_ARMS = (
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
    with Retriever.over(sources_of_texts(item.texts)) as retriever:
        packs = retriever.retrieve(item.question.replace('"', " "), count)
    found = sorted(packs, key=lambda pack: pack.start)
    return tuple(pack.text for pack in found) or (item.texts[0][:1_000],)


def sources_of_texts(texts: Sequence[str]) -> list[TextSource]:
    """Return texts as sources, with the names that texts of a plain run have."""
    return [TextSource("text", text) for text in texts]


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
