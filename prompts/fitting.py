"""Fitting one section into the tokens there are for it: choosing items, then the steps of its policy."""

from __future__ import annotations

import math
from collections.abc import Iterable

from prompts.policy import Compress, Drop, Gate, Never, Skip, StopFirst, Summarize, TierDown, Trim
from prompts.report import Decision, DecisionStatus
from prompts.section import Citation, Item, Section
from prompts.tokens import Counter
from prompts.trim import trim_text

__all__ = ["Fitting", "Measure"]


class Measure:
    """A counter that remembers. One lives for one assembly; summaries are remembered with it."""

    def __init__(self, counter: Counter) -> None:
        self._counter = counter
        self._known: dict[str, int] = {}
        self._summaries: dict[tuple[str, int], str] = {}

    def __call__(self, text: str) -> int:
        tokens = self._known.get(text)
        if tokens is None:
            tokens = self._known[text] = self._counter.count(text)
        return tokens

    def learn(self, texts: Iterable[str]) -> None:
        """Count all of these at once, which is faster than one by one."""
        new = list(dict.fromkeys(texts))
        self._known.update(zip(new, self._counter.count_each(new), strict=True))

    def once(self, text: str) -> int:
        """Count without remembering: for texts that are tried and thrown away."""
        return self._counter.count(text)

    def summary(self, step: Summarize, text: str, tokens: int) -> str:
        """The summary of `text`, asked for once."""
        if (text, tokens) not in self._summaries:
            self._summaries[text, tokens] = step.summarizer(text, tokens)
        return self._summaries[text, tokens]


class _Part:
    """An item on its way: its text as it stands, None once it is out."""

    __slots__ = ("before", "item", "reason", "status", "text", "tokens")

    def __init__(self, item: Item, tokens: int) -> None:
        self.item = item
        self.text: str | None = item.text
        self.before = self.tokens = tokens
        self.status: DecisionStatus = "included"
        self.reason = "fits"

    def out(self, reason: str) -> None:
        self.text, self.tokens, self.status, self.reason = None, 0, "dropped", reason

    def become(self, text: str, tokens: int, status: DecisionStatus, reason: str) -> None:
        self.text, self.tokens, self.status, self.reason = text, tokens, status, reason


class Fitting:
    """A section being fitted. After `fit`, `texts` and `decisions` say what became of it.

    `cost` is what it takes now, 0 when nothing is left: items, separators and frame, each measured alone.
    `whole` is what it took before anything was done.
    """

    __slots__ = (
        "_frame",
        "_groups",
        "_measure",
        "_parts",
        "_ranked",
        "_separator",
        "actions",
        "cost",
        "section",
        "whole",
    )

    def __init__(self, section: Section, measure: Measure) -> None:
        self.section = section
        self._measure = measure
        self.actions: list[str] = []
        self._frame = measure(section.prefix) + measure(section.suffix)
        self._separator = measure(section.separator)
        self._parts = [_Part(item, measure(item.text)) for item in section.items]
        self._groups: dict[str, list[_Part]] = {}
        self._ranked = self._rank()
        for part in self._parts:
            if not part.text:
                part.out("its text is empty")
        self.cost = self.whole = self._reckon()

    @property
    def empty(self) -> bool:
        """Whether nothing is left, or nothing ever was."""
        return all(part.text is None for part in self._parts)  # a text may well cost nothing

    @property
    def decisions(self) -> list[Decision]:
        """One for every item of the section, in the order given."""
        name = self.section.id
        return [Decision(name, p.item.id, p.status, p.reason, p.before, p.tokens) for p in self._parts]

    def texts(self) -> list[str]:
        """The texts that are in, in the order they stand."""
        return [part.text for part in self._standing() if part.text is not None]

    def citations(self) -> list[Citation]:
        """The citations of what is in, in the order it stands."""
        return [part.item.citation for part in self._standing() if part.item.citation is not None]

    def _standing(self) -> list[_Part]:
        kept = [part for part in self._parts if part.text is not None]
        kept.sort(key=lambda part: part.item.order)
        return kept

    def drop(self, reason: str) -> None:
        """Take the whole section out."""
        for part in self._parts:
            if part.text is not None:
                part.out(reason)
        self.cost = 0

    def fit(self, room: int) -> bool:
        """Bring the section within `room` tokens as its policy allows; False when that can't be done.

        A False leaves the section as the last step made it: drop it, or give up.
        """
        for step in self.section.ladder:
            before = self.cost
            match step:
                case StopFirst() | Skip() | Gate():
                    self._enter(room, step)
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
                    self.drop("its section gave way")
            self.cost = self._reckon()
            if self.cost != before:
                name = type(step).__name__.lower()
                self.actions.append(f"{name} {self.section.id}: {before:,} to {self.cost:,} tokens")
        return self.cost <= room

    def _reckon(self) -> int:
        kept = [part.tokens for part in self._parts if part.text is not None]
        return self._frame + sum(kept) + self._separator * (len(kept) - 1) if kept else 0

    def _rank(self) -> list[_Part]:
        """The parts, those that matter most first; of a group only its first, the others in `_groups`."""
        ranked = []
        for part in sorted(self._parts, key=_importance):
            group = part.item.group
            if group is None:
                ranked.append(part)
            elif group in self._groups:
                self._groups[group].append(part)
            else:
                self._groups[group] = [part]
                ranked.append(part)
        return ranked

    def _unit(self, part: _Part) -> list[_Part]:
        """What enters or leaves together with `part`, so far as it is still in."""
        members = [part] if part.item.group is None else self._groups[part.item.group]
        return [member for member in members if member.text is not None]

    def _enter(self, room: int, step: StopFirst | Skip | Gate) -> None:
        gate = step.tokens if isinstance(step, Gate) else -math.inf
        left = room - self._frame + self._separator
        refused = ""
        for part in self._ranked:
            unit = self._unit(part)
            need = self._separator * len(unit)
            for member in unit:
                need += member.tokens
            if need <= left and left - self._separator > gate and not refused:
                left -= need
                continue
            if left - self._separator <= gate:
                reason = refused = f"no more than {gate:,} tokens were left"
            elif refused:
                reason = refused
            else:
                reason = f"only {max(left - self._separator, 0):,} tokens were left"
                if isinstance(step, StopFirst):
                    refused = "one before it did not fit"
            for member in unit:
                member.out(reason)

    def _trim(self, room: int, step: Trim) -> None:
        left = room - self._frame + self._separator
        full = False
        for part in self._ranked:
            unit = self._unit(part)
            need = sum(member.tokens + self._separator for member in unit)
            if need <= left and not full:
                left -= need
                continue
            if not full and len(unit) == 1 and left > self._separator:
                shorter = trim_text(part.text or "", left - self._separator, step.keep, self._measure.once)
                if shorter is not None:
                    part.become(shorter, self._measure(shorter), "trimmed", f"cut to {step.keep}")
                    unit = []
            full = True
            for member in unit:
                member.out("cut away to make room")

    def _compress(self, room: int) -> None:
        for level in range(max((len(part.item.variants) for part in self._parts), default=0)):
            for leader in reversed(self._ranked):
                for part in self._unit(leader):
                    if self.cost <= room:
                        return
                    if level >= len(part.item.variants):
                        continue
                    shorter = part.item.variants[level]
                    tokens = self._measure(shorter)
                    if shorter and tokens < part.tokens:
                        self.cost -= part.tokens - tokens
                        part.become(shorter, tokens, "compressed", f"variant {level + 1}, to save tokens")

    def _tier_down(self, room: int) -> None:
        while self.cost > room:
            tiers = [part.item.tier or 0 for part in self._parts if part.text is not None]
            highest = max(tiers, default=0)
            if highest <= 0:
                return
            for part in self._parts:
                if part.text is not None and (part.item.tier or 0) == highest:
                    part.out(f"tier {highest} left to make room")
            self.cost = self._reckon()

    def _summarize(self, room: int, step: Summarize) -> None:
        standing = self._standing()
        left = room - self._frame
        if not standing or left <= 0:
            return
        whole = self.section.separator.join(self.texts())
        summary = self._measure.summary(step, whole, left)
        tokens = self._measure(summary)
        if not summary.strip() or tokens > left:
            self.actions.append(f"summarize {self.section.id}: the summary was empty or too long, not used")
            return
        first = standing[0]
        first.become(summary, tokens, "summarized", f"one summary of {len(standing):,} items")
        for part in standing[1:]:
            part.out(f"in the summary at {first.item.id}")


def _importance(part: _Part) -> tuple[int, bool, float, int]:
    item = part.item
    if item.score != item.score:  # NaN sorts last
        return (-item.priority, True, 0.0, item.order)
    return (-item.priority, False, -item.score, item.order)
