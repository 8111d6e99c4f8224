"""The sections derived from one that is being filled: what they would take, item by item."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace

from prompts.measure import Measure
from prompts.section import Derived, Item, Section

__all__ = ["Followers"]


class Followers:
    """Knows what the derived sections take with the items that have entered, and with one more."""

    def __init__(self, sections: Sequence[Section], measure: Measure, joiner: int) -> None:
        self._measure = measure
        self._joiner = joiner
        self._sections = [(part, part.derived) for part in sections if part.derived is not None]
        self._keys: list[dict[str, None]] = [{} for _ in self._sections]
        self.cost = self._reckon()

    def __bool__(self) -> bool:
        return bool(self._sections)

    def offer(self, items: Iterable[Item]) -> int:
        """What the derived sections take once these have entered as well; nothing is kept of it."""
        added = self._add(items)
        cost = self._reckon() if any(added) else self.cost
        for keys, new in zip(self._keys, added, strict=True):
            for key in new:
                del keys[key]
        return cost

    def accept(self, items: Iterable[Item]) -> None:
        """These have entered."""
        if any(self._add(items)):
            self.cost = self._reckon()

    def sections(self) -> list[Section]:
        """The derived sections with their text as an item."""
        return [
            replace(part, items=(Item(part.id, text),) if (text := derived.text(keys)) else ())
            for (part, derived), keys in zip(self._sections, self._keys, strict=True)
        ]

    def _add(self, items: Iterable[Item]) -> list[list[str]]:
        items = list(items)
        added: list[list[str]] = [[] for _ in self._sections]
        for (_, derived), keys, new in zip(self._sections, self._keys, added, strict=True):
            for key in map(derived.key, items):
                if key is not None and key not in keys:
                    keys[key] = None
                    new.append(key)
        return added

    def _reckon(self) -> int:
        return sum(
            self._size(part, derived, keys)
            for (part, derived), keys in zip(self._sections, self._keys, strict=True)
        )

    def _size(self, part: Section, derived: Derived, keys: dict[str, None]) -> int:
        text = derived.text(keys)
        if not text:
            return 0
        frame = self._measure(part.prefix) + self._measure(part.suffix)
        return frame + self._measure.once(text) + self._joiner
