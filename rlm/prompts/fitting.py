"""Fit the parts of a prompt to a limit of tokens, and report what happened to each part."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Literal, NamedTuple

from rlm.prompts.errors import BudgetExceeded
from rlm.prompts.prompt import (
    JOINER,
    AssembledPrompt,
    Decision,
    PromptSection,
    Role,
    Totals,
    joined,
    make_report,
)
from rlm.prompts.tokens.counters import Counter

__all__ = ["Keep", "Part", "Section", "assemble", "trim_text"]

Keep = Literal["head", "tail", "middle", "sentence"]
"""What stays of a text that is cut: the head, the tail, both ends (the middle is cut out), or the head up to
the end of a sentence if one ends past 70 % of the room."""

_SENTENCE_END = re.compile(r"[.!?…]['\")\]]?(?=\s)|[。！？]|\n")
_SENTENCE_SHARE = 0.7
_EXACT_BELOW = 4096  # characters: above this, the search stops within 1.6 % of the best cut


class Part(NamedTuple):
    """A text that is included or dropped as one. `keep` None: it is required. Of the others, those with a
    higher `keep` are included first."""

    id: str
    text: str
    keep: int | None = None


@dataclass(frozen=True, slots=True)
class Section:
    """Parts under one name, between a prefix and a suffix if there are any.

    `cut`: a part that does not fit is cut, and those after it are dropped. `spare`: further parts are
    included only while more than so many tokens are left. `floor` are tokens kept free for it while other
    sections are filled. `stable`: it is the same from turn to turn.
    """

    name: str
    role: Role
    parts: Sequence[Part]
    prefix: str = ""
    suffix: str = ""
    separator: str = JOINER
    cut: Keep | None = None
    spare: int = -1
    floor: int = 0
    stable: bool = False


def assemble(
    sections: Sequence[Section],
    limit: int,
    counter: Counter,
    *,
    remedy: str = "shorten them or raise the budget",
) -> AssembledPrompt:
    """Return the prompt of these sections in their order, of at most `limit` tokens measured whole.

    Pure: equal inputs give equal bytes. Empty parts are left out. `remedy` ends the message of
    BudgetExceeded, which is raised if the required parts do not fit.
    """
    filling = _Filling(sections, counter)
    room = counter.room(limit)
    step = 0
    while True:
        lacking = filling.fill(room)
        rendered = filling.render()
        tokens = counter.count(joined(rendered))
        if lacking or room < 0:
            raise BudgetExceeded(max(filling.required(), limit + 1), limit, filling.largest(), remedy)
        if tokens <= limit:
            break
        # The parts, measured alone, can add up to less than the whole. Then leave more room and fill again.
        # The step doubles so that the loop ends soon, but takes at most half of the remaining room.
        step = max(1, min(max(room - room * limit // tokens, 2 * step), room // 2))
        room -= step
    report = make_report(rendered, filling.decisions(), counter, Totals(limit, tokens))
    return AssembledPrompt(rendered, report)


class _Filling:
    """The sections of a prompt while they are filled. Sizes are those of the counter."""

    def __init__(self, sections: Sequence[Section], counter: Counter) -> None:
        self._counter = counter
        self._sections = sections
        self._joiner = counter.size(JOINER)
        self._frames = [counter.size(one.prefix) + counter.size(one.suffix) for one in sections]
        self._separators = [counter.size(one.separator) for one in sections]
        self._parts = [[part for part in one.parts if part.text] for one in sections]
        self._sizes = [counter.sizes([part.text for part in parts]) for parts in self._parts]
        queue = [(number, place) for number, parts in enumerate(self._parts) for place in range(len(parts))]
        self._queue = sorted(queue, key=self._turn)
        self._texts: dict[tuple[int, int], str] = {}
        self._taken: dict[tuple[int, int], int] = {}
        self._reasons: dict[tuple[int, int], str] = {}

    def _turn(self, key: tuple[int, int]) -> tuple[bool, bool, int]:
        keep = self._parts[key[0]][key[1]].keep
        return keep is not None, self._sections[key[0]].cut is not None and keep is None, -(keep or 0)

    def fill(self, room: int) -> bool:
        """Choose the parts that fit `room`. Return whether a required one does not."""
        self._texts, self._taken, self._reasons = {}, {}, {}
        left = room + self._joiner  # the first section has no joiner
        closed: dict[int, str] = {}
        begun: set[int] = set()
        waiting = {number for number, section in enumerate(self._sections) if section.floor}
        for key in self._queue:
            number, place = key
            waiting.discard(number)
            section, part, size = (
                self._sections[number],
                self._parts[number][place],
                self._sizes[number][place],
            )
            extra = self._separators[number] if number in begun else self._frames[number] + self._joiner
            own = left - extra - (0 if part.keep is None else self._floors(waiting))
            if number not in closed and section.spare >= 0 and self._counter.tokens(own) <= section.spare:
                closed[number] = f"no more than {section.spare:,} tokens were left"
            text: str | None = None
            if number not in closed:
                if size <= own:
                    text = part.text
                elif section.cut and own > 0:
                    text = trim_text(part.text, own, section.cut, self._counter.size)
                    closed[number] = "dropped to make room"
            if text is None:
                if part.keep is None and not (section.cut and number in begun):
                    return True
                tokens = self._counter.tokens(max(own, 0))
                self._reasons[key] = closed.get(number) or f"only {tokens:,} tokens were left"
                continue
            if text is not part.text:
                self._reasons[key] = f"cut to {section.cut}"
            self._texts[key] = text
            self._taken[key] = size if text is part.text else self._counter.size(text)
            left -= self._taken[key] + extra
            begun.add(number)
        return False

    def _floors(self, waiting: set[int]) -> int:
        """Return the size kept free for the sections that wait for their turn."""
        return sum(
            min(self._whole(number), self._counter.room(self._sections[number].floor)) + self._joiner
            for number in waiting
            if self._parts[number]
        )

    def _whole(self, number: int) -> int:
        sizes = self._sizes[number]
        return self._frames[number] + sum(sizes) + self._separators[number] * (len(sizes) - 1)

    def render(self) -> tuple[PromptSection, ...]:
        """Return the sections with what was chosen."""
        rendered = []
        for number, section in enumerate(self._sections):
            keys = [
                key for place in range(len(self._parts[number])) if (key := (number, place)) in self._texts
            ]
            text = section.separator.join([self._texts[key] for key in keys])
            size = sum(self._taken[key] for key in keys)
            if keys:
                text = section.prefix + text + section.suffix
                size += self._frames[number] + self._separators[number] * (len(keys) - 1)
            tokens = self._counter.tokens(size)
            rendered.append(PromptSection(section.name, section.role, text, tokens, section.stable))
        return tuple(rendered)

    def decisions(self) -> list[Decision]:
        """Return what happened to each part."""
        made = []
        tokens = self._counter.tokens
        for number, (section, parts) in enumerate(zip(self._sections, self._parts, strict=True)):
            for place, part in enumerate(parts):
                key = number, place
                before, after = tokens(self._sizes[number][place]), tokens(self._taken.get(key, 0))
                reason = self._reasons.get(key, "fits")
                if key not in self._texts:
                    made.append(Decision(section.name, part.id, "dropped", reason, before, 0))
                elif key in self._reasons:
                    made.append(Decision(section.name, part.id, "trimmed", reason, before, after))
                else:
                    made.append(Decision(section.name, part.id, "included", reason, before, after))
        return made

    def largest(self) -> tuple[str, ...]:
        """Return the names of the sections with required parts, the largest first."""
        numbers = [number for number, parts in enumerate(self._parts) if any(p.keep is None for p in parts)]
        numbers.sort(key=self._whole, reverse=True)
        return tuple(self._sections[number].name for number in numbers)

    def required(self) -> int:
        """Return the tokens of the required parts."""
        total = -self._joiner
        for number, parts in enumerate(self._parts):
            sizes = [size for part, size in zip(parts, self._sizes[number], strict=True) if part.keep is None]
            if sizes:
                between = self._separators[number] * (len(sizes) - 1)
                total += self._joiner + self._frames[number] + sum(sizes) + between
        return self._counter.tokens(max(total, 0))


def trim_text(text: str, allowance: int, keep: Keep, count: Callable[[str], int]) -> str | None:
    """Return as much of `text` as fits `allowance` tokens, with a mark at the cut. None if nothing fits.

    A text that fits is returned unchanged. The search starts from a guess and doubles it, so it measures
    little more than twice what fits, however long the text is.
    """
    if len(text) <= _EXACT_BELOW and count(text) <= allowance:
        return text
    fits, guess = 0, max(1, allowance * 2)
    while guess < len(text) and count(_cut(text, guess, keep)) <= allowance:
        fits, guess = guess, guess * 2
    if guess >= len(text) and count(text) <= allowance:
        return text
    too_many = min(guess, len(text))
    while too_many - fits > max(1, (fits - _EXACT_BELOW) // 64):
        middle = (fits + too_many) // 2
        if count(_cut(text, middle, keep)) <= allowance:
            fits = middle
        else:
            too_many = middle
    return _cut(text, fits, keep) if fits else None


def _cut(text: str, kept: int, keep: Keep) -> str:
    """Return `kept` characters of a longer text, with the mark."""
    if keep == "sentence":
        ends = [match.end() for match in _SENTENCE_END.finditer(text, int(kept * _SENTENCE_SHARE), kept)]
        if ends:
            kept = ends[-1]
    mark = f"[… {len(text) - kept:,} characters cut …]"
    if keep == "tail":
        return f"{mark}\n{text[len(text) - kept :]}"
    if keep == "middle":
        head = (kept + 1) // 2
        return f"{text[:head]}\n{mark}\n{text[len(text) - (kept - head) :]}"
    return f"{text[:kept]}\n{mark}"
