"""A summary under the five headings as lines, each with the messages it came from."""

from __future__ import annotations

import math
import re
from collections import defaultdict
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

from rlm.prompts.history import HEADINGS
from rlm.retrieval.words import spaced
from rlm.tasks.summaries.entries import Entry

__all__ = ["NONE_FOUND", "Line", "Tracer", "page", "parsed", "words_of"]

NONE_FOUND = "None found."
"""What stands under a heading that has no line."""

_ITEM = re.compile(r"^(?:[-*+•]|\d{1,3}[.)])\s+")
_HEADING = re.compile(r"^#{1,6}\s*(.+?)\s*#*$|^\*\*(.+?):?\*\*:?$")
_REFERENCE = r"m\d{1,7}(?:\s*[-–—]\s*m?\d{1,7})?"
_NEXT = _REFERENCE.replace("m", "m?", 1)
_MARK = re.compile(rf"\s*[\[(]({_REFERENCE}(?:\s*[,;&]\s*{_NEXT})*)[\])]", re.IGNORECASE)
_RANGE = re.compile(r"m?(\d+)(?:\s*[-–—]\s*m?(\d+))?", re.IGNORECASE)
_LONGEST_RANGE = 20
_WORD = re.compile(r"\w[\w.'’/@:+-]*\w|\w")
_FENCE = re.compile(r"^\s*(?:```|~~~)")
_EMPTY = re.compile(
    r"^(?:none|nothing|n/a|not found|no (?:items?|tasks?|decisions?|errors?|work)|no \w+(?= \w+\.?$))"
    r"(?: (?:found|yet|known|mentioned|identified))?\.?$",
    re.IGNORECASE,
)
"""What says that a heading has no line. `No queue.` is one."""
_COMMON = 2.0
"""A word that more than one message in so many says proves nothing."""
_NEAR = 3
"""Messages this close to one that holds a line's words may be named beside it."""
_SUPPORTED = 0.45
"""The share of a line's words, by how much they tell, that a message must hold to be where it came from."""


@dataclass(frozen=True, slots=True)
class Line:
    """One line (or fenced code) of a summary, without its mark; `names` are the messages it came from."""

    heading: str
    text: str
    names: tuple[str, ...] = ()

    def rendered(self) -> str:
        """`- text [m3, m7]`."""
        mark = f" [{', '.join(self.names)}]" if self.names else ""
        if "```" in self.text or "~~~" in self.text:
            inside = self.text.replace("\n", "\n  ")
            return f"-{mark}\n  {inside}"
        return f"- {self.text}{mark}"


def page(lines: Sequence[Line]) -> str:
    """The five headings, always, each with its lines."""
    return "\n\n".join(
        "\n".join(
            [
                f"## {heading}",
                *([line.rendered() for line in lines if line.heading == heading] or [NONE_FOUND]),
            ]
        )
        for heading in HEADINGS
    )


def parsed(text: str) -> list[Line]:
    """The lines of a summary that a model wrote. What stands before any heading, or under one
    that is none of the five, belongs to the one before it, or the first."""
    known = {_folded(heading): heading for heading in HEADINGS}
    heading = HEADINGS[0]
    lines: list[Line] = []
    for item in _items(text):
        found = _HEADING.match(item)
        if found is not None:
            heading = known.get(_folded(found[1] or found[2]), heading)
            continue
        marks = [mark for match in _MARK.finditer(item) for mark in _names(match[1])]
        words = _MARK.sub("", item).strip()
        if words and not _EMPTY.match(words):
            lines.append(Line(heading, words, tuple(dict.fromkeys(marks))))
    return lines


def words_of(text: str) -> set[str]:
    """Words, numbers, paths and identifiers of `text`, in small letters; of a script that does not part its
    words, every pair of characters."""
    return {word.casefold() for word in _WORD.findall(spaced(text))}


class Tracer:
    """Finds the messages that lines came from. A mark is believed when its message exists and shares words
    with the line, or stands close to one that does; else the message that holds most of the line's words is
    taken."""

    def __init__(self, entries: Sequence[Entry]) -> None:
        self._names = {entry.name: place for place, entry in enumerate(entries)}
        self._entries = entries
        self._words = [words_of(f"{entry.message.author or ''} {entry.message.content}") for entry in entries]
        self._by_word: dict[str, list[int]] = {}
        for place, words in enumerate(self._words):
            for word in words:
                self._by_word.setdefault(word, []).append(place)

    def trace(self, lines: Sequence[Line]) -> tuple[list[Line], list[Line]]:
        """The lines with the messages that hold them, and those that no message holds."""
        traced: list[Line] = []
        lost: list[Line] = []
        for line in lines:
            names = self._source(line)
            (traced if names else lost).append(replace(line, names=names))
        return traced, lost

    def _source(self, line: Line) -> tuple[str, ...]:
        weights = self._weights(line.text)
        held = [name for name in line.names if name in self._names]
        common = math.log(1 + _COMMON)
        believed = [
            self._names[name]
            for name in held
            if any(
                weight >= common and word in self._words[self._names[name]]
                for word, weight in weights.items()
            )
        ]
        if believed:
            # An answer ("yes, do that") shares no words with what it agrees to.
            return tuple(
                name for name in held if any(abs(self._names[name] - place) <= _NEAR for place in believed)
            )
        found = self._best(weights)
        return () if found is None else (self._entries[found].name,)

    def _weights(self, text: str) -> Mapping[str, float]:
        """The words of `text`, by how few messages say them; one that none says counts in full."""
        count = len(self._entries)
        return {word: math.log(1 + count / len(self._by_word.get(word, "1"))) for word in words_of(text)}

    def _best(self, weights: Mapping[str, float]) -> int | None:
        scores: defaultdict[int, float] = defaultdict(float)
        for word, weight in weights.items():
            for place in self._by_word.get(word, ()):
                scores[place] += weight
        if not scores:
            return None
        place, score = max(scores.items(), key=lambda one: (one[1], -one[0]))
        return place if score >= _SUPPORTED * sum(weights.values()) else None


def _folded(heading: str) -> str:
    return re.sub(r"\W+", " ", heading).strip().casefold()


def _items(text: str) -> Iterator[str]:
    """Headings, list items with what is indented under them, other lines; fenced code in one piece."""
    held: list[str] = []
    fenced = False
    for line in text.splitlines():
        fence = _FENCE.match(line) is not None
        if fenced or fence:
            if not fenced and not held:
                held = [""]
            held.append(line.strip() if fence else line.removeprefix("  "))
            fenced = fenced != fence
            continue
        stripped = line.strip()
        own = _ITEM.match(stripped)
        if own or not line.startswith((" ", "\t")) or _HEADING.match(stripped):
            yield from _joined(held)
            held = [_ITEM.sub("", stripped)] if stripped else []
        elif stripped:
            held.append(stripped)
    yield from _joined(held)


def _joined(held: Sequence[str]) -> Iterator[str]:
    text = "\n".join(held) if any(_FENCE.match(line) for line in held) else " ".join(held)
    if text.strip():
        yield text.strip()


def _names(references: str) -> Collection[str]:
    names: list[str] = []
    for first, last in _RANGE.findall(references):
        low, high = int(first), int(last or first)
        names += [f"m{number}" for number in range(low, min(high, low + _LONGEST_RANGE) + 1)]
    return names
