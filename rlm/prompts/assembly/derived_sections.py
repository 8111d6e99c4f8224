"""Compute the size of derived sections while the section they are derived from is filled."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from rlm.prompts.assembly.measure import Measure
from rlm.prompts.assembly.section import Derived, Item, Section

__all__ = ["DerivedSections"]


class DerivedSections:
    """Tracks the derived sections of one section, and what they would take with further items.

    Items are addressed by their index in `items`.
    """

    def __init__(
        self, sections: Sequence[Section], items: Sequence[Item], measure: Measure, joiner: int
    ) -> None:
        self._measure = measure
        self._joiner = joiner
        self._sections = [(part, part.derived) for part in sections if part.derived is not None]
        self._keys: list[dict[str, None]] = [{} for _ in self._sections]
        self._items = items
        self._costs: dict[tuple[str | None, ...], int] = {}  # of one more item, by its keys
        self.cost = self._total_size()

    def __bool__(self) -> bool:
        return bool(self._sections)

    def offer(self, places: Sequence[int]) -> int:
        """Return the size of the derived sections if these items also entered. Changes nothing.

        The result for a single item is cached by its keys, since thousands of items share few keys.
        """
        if len(places) > 1:
            return self._cost_with(places)
        items = [self._items[place] for place in places]
        wanted = tuple([derived.key(item) for item in items for _, derived in self._sections])
        cost = self._costs.get(wanted)
        if cost is None:
            cost = self._costs[wanted] = self._cost_with(places)
        return cost

    def accept(self, places: Sequence[int]) -> None:
        """Record that these items have entered."""
        if any(self._add(places)):
            self.cost = self._total_size()
            self._costs.clear()

    def sections(self) -> list[Section]:
        """Return the derived sections with their text as an item."""
        return [
            replace(part, items=(Item(part.id, text),) if (text := derived.text(keys)) else ())
            for (part, derived), keys in zip(self._sections, self._keys, strict=True)
        ]

    def _cost_with(self, places: Sequence[int]) -> int:
        added = self._add(places)
        cost = self._total_size() if any(added) else self.cost
        for keys, new in zip(self._keys, added, strict=True):
            for key in new:
                del keys[key]
        return cost

    def _add(self, places: Sequence[int]) -> list[list[str]]:
        items = [self._items[place] for place in places]
        added = []
        for (_, derived), keys in zip(self._sections, self._keys, strict=True):
            wanted = dict.fromkeys(map(derived.key, items))
            new = [key for key in wanted if key is not None and key not in keys]
            keys.update(dict.fromkeys(new))
            added.append(new)
        return added

    def _total_size(self) -> int:
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
