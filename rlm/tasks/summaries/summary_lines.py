"""The lines of a summary under the five headings, each with the messages that it cites."""

from __future__ import annotations

import math
import re
from collections import defaultdict
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

from rlm.escaping import markdown_answer, markdown_phrase
from rlm.prompts.history import HEADINGS
from rlm.retrieval.words import split_spaceless
from rlm.tasks.summaries.entries import Entry

__all__ = ["DOUBTFUL", "NONE_FOUND", "Line", "Tracer", "page", "parse_lines", "words_of"]

NONE_FOUND = "None found."
"""The text under a heading without lines."""

DOUBTFUL = "(not supported by its source)"
"""The remark on a line whose messages do not have its facts."""

_ITEM = re.compile(r"^(?:[-*+•]|\d{1,3}[.)])\s+")
_HEADING = re.compile(r"^#{1,6}\s*(.+?)\s*#*$|^\*\*(.+?):?\*\*:?$")
_REFERENCE = r"m\d{1,7}(?:\s*[-–—]\s*m?\d{1,7})?"
_NEXT = _REFERENCE.replace("m", "m?", 1)
_MARK = re.compile(rf"\s*[\[(]({_REFERENCE}(?:\s*[,;&]\s*{_NEXT})*)[\])]", re.IGNORECASE)
_RANGE = re.compile(r"m?(\d+)(?:\s*[-–—]\s*m?(\d+))?", re.IGNORECASE)
_MAX_RANGE = 20
_WORD = re.compile(r"\w[\w.'’/@:+-]*\w|\w")
_FENCE = re.compile(r"^\s*(?:```|~~~)")
_EMPTY = re.compile(
    r"^(?:none|nothing|n/a|not found|no (?:items?|tasks?|decisions?|errors?|work)|no \w+(?= \w+\.?$))"
    r"(?: (?:found|yet|known|mentioned|identified))?\.?$",
    re.IGNORECASE,
)
"""Matches texts that say that a heading has no lines. `No queue.` does not match: it is a line."""
_COMMON = 2.0
"""A word proves nothing if more than one in this number of messages contains it."""
_NEAR = 3
"""A cited message is accepted at this distance from a cited message that contains the line's words."""
_SUPPORTED = 0.45
"""The share of a line's words, weighted by rarity, that a message must contain to be its source."""


@dataclass(frozen=True, slots=True)
class Line:
    """One line (or fenced code) of a summary, without its mark. `names` are the messages that it cites. It is
    `doubtful` if they do not have its facts."""

    heading: str
    text: str
    names: tuple[str, ...] = ()
    doubtful: bool = False

    def to_markdown(self) -> str:
        """Return the line as Markdown: `- text [m3, m7]`, with a remark if it is doubtful."""
        mark = f" [{', '.join(self.names)}]" if self.names else ""
        mark += f" {DOUBTFUL}" if self.doubtful else ""
        if "```" in self.text or "~~~" in self.text:
            inside = markdown_answer(self.text).strip("\n").replace("\n", "\n  ")
            return f"-{mark}\n  {inside}"
        return f"- {markdown_phrase(self.text)}{mark}"


def page(lines: Sequence[Line]) -> str:
    """Return all five headings, each with its lines."""
    return "\n\n".join(
        "\n".join(
            [
                f"## {heading}",
                *([line.to_markdown() for line in lines if line.heading == heading] or [NONE_FOUND]),
            ]
        )
        for heading in HEADINGS
    )


def parse_lines(text: str) -> list[Line]:
    """Parse a summary that a model wrote. Lines under an unknown heading belong to the known heading before
    it; lines before any heading belong to the first."""
    by_name = {_fold(heading): heading for heading in HEADINGS}
    heading = HEADINGS[0]
    lines: list[Line] = []
    for item in _items(text):
        found = _HEADING.match(item)
        if found is not None:
            heading = by_name.get(_fold(found[1] or found[2]), heading)
            continue
        marks = [mark for match in _MARK.finditer(item) for mark in _names(match[1])]
        words = _MARK.sub("", item).strip()
        if words and not _EMPTY.match(words):
            lines.append(Line(heading, words, tuple(dict.fromkeys(marks))))
    return lines


def words_of(text: str) -> set[str]:
    """Return the words, numbers, paths and identifiers of `text` in lower case. In scripts without spaces,
    every pair of characters is a word."""
    return {word.casefold() for word in _WORD.findall(split_spaceless(text))}


class Tracer:
    """Finds the messages that support the lines of a summary.

    A mark is accepted if its message exists and shares a rare word with the line, or is near a cited message
    that does. If no mark is accepted, the message with most of the line's words is used instead.
    """

    def __init__(self, entries: Sequence[Entry]) -> None:
        self._names = {entry.name: place for place, entry in enumerate(entries)}
        self._entries = entries
        self._words = [words_of(f"{entry.message.author or ''} {entry.message.content}") for entry in entries]
        self._by_word: dict[str, list[int]] = {}
        for place, words in enumerate(self._words):
            for word in words:
                self._by_word.setdefault(word, []).append(place)

    def trace(self, lines: Sequence[Line]) -> tuple[list[Line], list[Line]]:
        """Return the lines with the messages that support them, and the lines that no message supports."""
        supported: list[Line] = []
        unsupported: list[Line] = []
        for line in lines:
            names = self._find_sources(line)
            (supported if names else unsupported).append(replace(line, names=names))
        return supported, unsupported

    def _find_sources(self, line: Line) -> tuple[str, ...]:
        weights = self._weights(line.text)
        existing = [name for name in line.names if name in self._names]
        common = math.log(1 + _COMMON)
        confirmed = [
            self._names[name]
            for name in existing
            if any(
                weight >= common and word in self._words[self._names[name]]
                for word, weight in weights.items()
            )
        ]
        if confirmed:
            # An answer ("yes, do that") shares no words with the message that it agrees to.
            return tuple(
                name
                for name in existing
                if any(abs(self._names[name] - place) <= _NEAR for place in confirmed)
            )
        best = self._find_best(weights)
        return () if best is None else (self._entries[best].name,)

    def _weights(self, text: str) -> Mapping[str, float]:
        """Return the words of `text` with their weights. Rare words weigh more; a word that no message
        contains weighs as much as one that occurs once."""
        count = len(self._entries)
        return {word: math.log(1 + count / len(self._by_word.get(word, "1"))) for word in words_of(text)}

    def _find_best(self, weights: Mapping[str, float]) -> int | None:
        scores: defaultdict[int, float] = defaultdict(float)
        for word, weight in weights.items():
            for place in self._by_word.get(word, ()):
                scores[place] += weight
        if not scores:
            return None
        place, score = max(scores.items(), key=lambda one: (one[1], -one[0]))
        return place if score >= _SUPPORTED * sum(weights.values()) else None


def _fold(heading: str) -> str:
    return re.sub(r"\W+", " ", heading).strip().casefold()


def _items(text: str) -> Iterator[str]:
    """Yield headings, list items with the lines indented under them, and other lines. Fenced code stays in
    one piece."""
    item: list[str] = []
    in_fence = False
    for line in text.splitlines():
        is_fence = _FENCE.match(line) is not None
        if in_fence or is_fence:
            if not in_fence and not item:
                item = [""]
            item.append(line.strip() if is_fence else line.removeprefix("  "))
            in_fence = in_fence != is_fence
            continue
        stripped = line.strip()
        is_item = _ITEM.match(stripped)
        if is_item or not line.startswith((" ", "\t")) or _HEADING.match(stripped):
            yield from _join(item)
            item = [_ITEM.sub("", stripped)] if stripped else []
        elif stripped:
            item.append(stripped)
    yield from _join(item)


def _join(item: Sequence[str]) -> Iterator[str]:
    text = "\n".join(item) if any(_FENCE.match(line) for line in item) else " ".join(item)
    if text.strip():
        yield text.strip()


def _names(references: str) -> Collection[str]:
    names: list[str] = []
    for first, last in _RANGE.findall(references):
        low, high = int(first), int(last or first)
        names += [f"m{number}" for number in range(low, min(high, low + _MAX_RANGE) + 1)]
    return names
