"""Fit one section into the available room: choose its items, then apply the steps of its policy."""

from __future__ import annotations

import math
from bisect import bisect_left
from collections.abc import Sequence

from rlm.prompts.assembly.derived_sections import DerivedSections
from rlm.prompts.assembly.measure import Measure
from rlm.prompts.assembly.policy import (
    Compress,
    Drop,
    Gate,
    Never,
    Skip,
    StopFirst,
    Summarize,
    TierDown,
    Trim,
)
from rlm.prompts.assembly.section import Item, Section
from rlm.prompts.assembly.trim import trim_text
from rlm.prompts.prompt import Decision, DecisionStatus

__all__ = ["SectionFitter"]

_FITS: tuple[DecisionStatus, str] = ("included", "fits")


class SectionFitter:
    """Fits one section. After `fit`, `texts` and `decisions` describe the result.

    `cost` is the current size, 0 when nothing is left: items, separators and frame, each measured alone.
    `whole` is the size before any change. Both, like every room here, are in units of the measure. Items are
    addressed by their index in the section, in lists of numbers, because a section may have ten thousand
    items.
    """

    __slots__ = (
        "_before",
        "_fates",
        "_frame",
        "_groups",
        "_measure",
        "_order",
        "_separator",
        "_sizes",
        "_texts",
        "actions",
        "cost",
        "section",
        "whole",
    )

    def __init__(self, section: Section, measure: Measure, sizes: Sequence[int]) -> None:
        """Start from a section. `sizes` are the sizes of its items' texts."""
        self.section = section
        self._measure = measure
        self.actions: list[str] = []
        self._frame = measure(section.prefix) + measure(section.suffix)
        self._separator = measure(section.separator)
        self._before = sizes
        self._sizes = list(sizes)
        self._texts: list[str | None] = [item.text for item in section.items]
        self._fates: dict[int, tuple[DecisionStatus, str]] = {}
        self._groups: dict[int, list[int]] = {}
        self._order: list[int] | None = None
        for place, text in enumerate(self._texts):
            if not text:
                self._drop_item(place, "its text is empty")
        self.cost = self.whole = self._total_size()

    @property
    def empty(self) -> bool:
        """Return whether no item is left."""
        return self._texts.count(None) == len(self._texts)  # the size of a text may be 0

    @property
    def decisions(self) -> list[Decision]:
        """Return one decision for each item, in the order given."""
        name, fates = self.section.id, self._fates
        before, after = map(self._measure.tokens_each, (self._before, self._sizes))
        return [
            Decision(name, item.id, *fates.get(place, _FITS), old, new)
            for place, (item, old, new) in enumerate(zip(self.section.items, before, after, strict=True))
        ]

    @property
    def tokens(self) -> int:
        """Return `cost` in tokens."""
        return self._measure.tokens(self.cost)

    def texts(self) -> list[str]:
        """Return the remaining texts in rendered order."""
        return [text for place in self._places_in_order() if (text := self._texts[place]) is not None]

    def drop(self, reason: str) -> None:
        """Drop the whole section."""
        for place in self._kept_places():
            self._drop_item(place, reason)
        self.cost = 0

    def fit(self, room: int, derived: DerivedSections) -> bool:
        """Shrink the section and the sections derived from it to `room`, as its policy allows.

        Return False if that is impossible. The section then stays as the last step left it, and the caller
        drops it or gives up.
        """
        for step in self.section.ladder:
            before = self.cost
            match step:
                case StopFirst() | Skip() | Gate():
                    self._choose_items(room, step, derived)
                case _ if before <= room:
                    continue
                case Never():
                    return False
                case Trim():
                    self._trim(room, step)
                case Compress():
                    self._compress(room)
                case TierDown():
                    self._tier_down(room)
                case Summarize():
                    self._summarize(room, step)
                case Drop():
                    self.drop("its section was dropped")
            self.cost = self._total_size()
            if self.cost != before:
                name, tokens = type(step).__name__.lower(), self._measure.tokens
                self.actions.append(
                    f"{name} {self.section.id}: {tokens(before):,} to {tokens(self.cost):,} tokens"
                )
        return self.cost <= room

    def _kept_places(self) -> list[int]:
        return [place for place, text in enumerate(self._texts) if text is not None]

    def _places_in_order(self) -> list[int]:
        items = self.section.items
        return sorted(self._kept_places(), key=lambda place: items[place].order)

    def _drop_item(self, place: int, reason: str) -> None:
        self._texts[place], self._sizes[place] = None, 0
        self._fates[place] = ("dropped", reason)

    def _replace_item(self, place: int, text: str, status: DecisionStatus, reason: str) -> None:
        self._texts[place], self._sizes[place] = text, self._measure(text)
        self._fates[place] = (status, reason)

    def _total_size(self) -> int:
        kept = len(self._texts) - self._texts.count(None)
        return self._frame + sum(self._sizes) + self._separator * (kept - 1) if kept else 0

    def _rank(self) -> list[int]:
        """Return the item indexes, most important first.

        Each group is represented by its first item; `_groups` holds all its members.
        """
        if self._order is None:
            self._order = _by_importance(self.section.items)
            if any(item.group is not None for item in self.section.items):
                self._order = self._rank_groups(self._order)
        return self._order

    def _rank_groups(self, order: list[int]) -> list[int]:
        leaders: dict[str, int] = {}
        for place in order:
            group = self.section.items[place].group
            if group is not None:
                self._groups.setdefault(leaders.setdefault(group, place), []).append(place)
        return [place for place in order if place in self._groups or self.section.items[place].group is None]

    def _unit_of(self, place: int) -> list[int]:
        """Return the remaining items that enter or leave together with `place`."""
        if place not in self._groups:
            return [] if self._texts[place] is None else [place]
        return [member for member in self._groups[place] if self._texts[member] is not None]

    def _choose_items(self, room: int, step: StopFirst | Skip | Gate, derived: DerivedSections) -> None:
        everything = self.cost if self._kept_places() else 0
        if not isinstance(step, Gate) and everything <= room:
            kept = self._kept_places() if derived else []
            ranked = [member for place in self._rank() for member in self._unit_of(place)] if kept else []
            if everything + derived.offer(ranked) <= room:
                derived.accept(ranked)
                return
        if isinstance(step, StopFirst):
            self._stop_first(room, derived)
        else:
            self._skip(room, step.tokens if isinstance(step, Gate) else -math.inf, derived)

    def _stop_first(self, room: int, derived: DerivedSections) -> None:
        """Take items in rank order up to the first that does not fit.

        First, `used[n]` is computed for the first n units of the section alone. If other sections are
        derived from this one, their text needs room too, and it depends on the items taken. So `bisect_left`
        finds the largest n for which the section and the derived text fit together. Bisecting is valid
        because `Derived` requires that the text never shrinks as items enter. Trying each n in turn would
        render the derived text ten thousand times.
        """
        left = room - self._frame + self._separator
        ranked = [unit for place in self._rank() if (unit := self._unit_of(place))]
        units: list[list[int]] = []
        used = [0]
        for unit in ranked:
            total = used[-1] + sum([self._sizes[place] + self._separator for place in unit])
            if total > left:
                break
            units.append(unit)
            used.append(total)

        def exceeds(count: int) -> bool:
            first = [place for unit in units[:count] for place in unit]
            return used[count] + derived.offer(first) > left

        entered = len(units)
        if derived:
            entered = max(bisect_left(range(len(units) + 1), True, key=exceeds) - 1, 0)
            derived.accept([place for unit in units[:entered] for place in unit])
        remaining = max(self._measure.tokens(left - used[entered] - derived.cost - self._separator), 0)
        reason = f"only {remaining:,} tokens were left"
        for unit in ranked[entered:]:
            for place in unit:
                self._drop_item(place, reason)
            reason = "an earlier item did not fit"

    def _skip(self, room: int, gate: float, derived: DerivedSections) -> None:
        """Take items in rank order, leaving out those that do not fit.

        With a `gate` of 0 or more, stop as soon as no more than `gate` tokens are left. Every item is asked
        about its derived text only after it fits by itself, because rendering that text is the expensive
        part. The loop binds attributes to local names because it may run for ten thousand items.
        """
        left = room - self._frame + self._separator
        tokens, separator, sizes, texts = self._measure.tokens, self._separator, self._sizes, self._texts
        closed = reason = ""
        for place in self._rank():
            if place in self._groups:
                unit = self._unit_of(place)
                need = sum([sizes[member] + separator for member in unit])
            elif texts[place] is None:
                continue
            else:
                unit, need = [place], sizes[place] + separator
            if gate >= 0 and not closed and tokens(left - separator) <= gate:
                closed = f"no more than {gate:,} tokens were left"
            if need <= left and not closed:
                if not derived:
                    left, reason = left - need, ""
                    continue
                if need + derived.offer(unit) <= left:
                    derived.accept(unit)
                    left, reason = left - need, ""
                    continue
            reason = (
                closed
                or reason
                or f"only {max(tokens(left - derived.cost - separator), 0):,} tokens were left"
            )
            for member in unit:
                self._drop_item(member, reason)

    def _trim(self, room: int, step: Trim) -> None:
        """Keep the items that fit, cut the next one, drop the rest.

        Only a single item is cut, never a group: half a group would break the promise that its items stay
        together.
        """
        left = room - self._frame + self._separator
        full = False
        for place in self._rank():
            unit = self._unit_of(place)
            need = sum(self._sizes[member] + self._separator for member in unit)
            if need <= left and not full:
                left -= need
                continue
            if not full and len(unit) == 1 and left > self._separator:
                text = self._texts[unit[0]] or ""
                shorter = trim_text(text, left - self._separator, step.keep, self._measure.once)
                if shorter is not None:
                    self._replace_item(unit[0], shorter, "trimmed", f"cut to {step.keep}")
                    unit = []
            full = True
            for member in unit:
                self._drop_item(member, "dropped to make room")

    def _compress(self, room: int) -> None:
        items = self.section.items
        for level in range(max((len(item.variants) for item in items), default=0)):
            for leader in reversed(self._rank()):
                for place in self._unit_of(leader):
                    if self.cost <= room:
                        return
                    if level >= len(items[place].variants):
                        continue
                    shorter = items[place].variants[level]
                    before = self._sizes[place]
                    if shorter and self._measure(shorter) < before:
                        self._replace_item(
                            place, shorter, "compressed", f"variant {level + 1}, to save tokens"
                        )
                        self.cost -= before - self._sizes[place]

    def _tier_down(self, room: int) -> None:
        items = self.section.items
        while self.cost > room:
            kept = self._kept_places()
            highest = max((items[place].tier or 0 for place in kept), default=0)
            if highest <= 0:
                return
            for place in kept:
                if (items[place].tier or 0) == highest:
                    self._drop_item(place, f"tier {highest} was dropped to make room")
            self.cost = self._total_size()

    def _summarize(self, room: int, step: Summarize) -> None:
        standing = self._places_in_order()
        left = self._measure.tokens(room - self._frame)
        if not standing or left <= 0:
            return
        whole = self.section.separator.join(self.texts())
        summary = self._measure.summary(step, whole, left)
        if not summary.strip() or self._measure(summary) > room - self._frame:
            self.actions.append(f"summarize {self.section.id}: the summary was empty or too long, not used")
            return
        first = standing[0]
        self._replace_item(first, summary, "compressed", f"one summary of {len(standing):,} items")
        for place in standing[1:]:
            self._drop_item(place, f"in the summary at {self.section.items[first].id}")


def _by_importance(items: Sequence[Item]) -> list[int]:
    """Return the indexes by priority, then score (NaN last), then order.

    Three stable sorts by one number each are faster than one sort by tuples.
    """
    places = sorted(range(len(items)), key=[item.order for item in items].__getitem__)
    scores = [-item.score for item in items]
    if any(map(math.isnan, scores)):
        numbers = [(True, 0.0) if math.isnan(score) else (False, score) for score in scores]
        places.sort(key=numbers.__getitem__)
    else:
        places.sort(key=scores.__getitem__)
    places.sort(key=[-item.priority for item in items].__getitem__)
    return places
