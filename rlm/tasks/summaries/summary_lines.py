"""The lines of a summary under its headings, each with the messages that it cites."""

from __future__ import annotations

import math
import re
from collections import defaultdict
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import field, replace

from rlm.escaping import markdown_answer, markdown_phrase
from rlm.lazy_dataclass import dataclass
from rlm.prompts.history import HEADINGS
from rlm.results import NOT_SUPPORTED, SupportTest
from rlm.retrieval.words import split_spaceless
from rlm.tasks.summaries.entries import Entry

__all__ = [
    "DOUBTFUL",
    "MARK",
    "MUST",
    "NONE_FOUND",
    "NO_SOURCE",
    "Line",
    "Tracer",
    "names_in",
    "page",
    "parse_lines",
    "read_line",
    "words_of",
]

NONE_FOUND = "None found."
"""The text under a heading without lines."""

DOUBTFUL = NOT_SUPPORTED
"""The remark on a line whose messages do not have its facts."""

NO_SOURCE = "(no source found)"
"""The remark on a line that names no message, and for which none was found."""

MUST, USUAL, FIRST_TO_GO = 2, 1, 0
"""The weights of a line: a summary that has to be shorter loses the lightest first."""

_WEIGHTS = {"!": MUST, "?": FIRST_TO_GO}
_WEIGHT = re.compile(r"^[*_`]{0,2}([!?])[*_`]{0,2}\s+(?=\S)")

_ITEM = re.compile(r"^(?:[-*+•]|\d{1,3}[.)])\s+")
_HEADING = re.compile(r"^#{1,6}\s*(.+?)\s*#*$|^\*\*(.+?):?\*\*:?$")
_NUMBERS = r"\d{1,7}(?:\s*[-–—]\s*[mp]?\d{1,7})?"
MARK = re.compile(rf"(?<!\s)\s*\[([mp]{_NUMBERS}(?:\s*[,;&]\s*[mp]?{_NUMBERS})*)\](?!\()", re.IGNORECASE)
"""A mark of messages or paragraphs: `[m12]`, `[m3, m7]`, `[p12-p15]`."""
_RANGE = re.compile(r"([mp])?(\d+)(?:\s*[-–—]\s*[mp]?(\d+))?", re.IGNORECASE)
_MAX_RANGE = 500
_PARAGRAPH = 4  # sentences
_WORD = re.compile(r"\w[\w.'’/@:+-]*\w|\w")
_FENCE = re.compile(r"^\s*(?:```|~~~)")
_EMPTY = re.compile(
    r"^(?:none|nothing|n/a|not found|no (?:items?|tasks?|decisions?|errors?|work)|no \w+(?= \w+\.?$))"
    r"(?: (?:found|yet|known|mentioned|identified))?\.?$",
    re.IGNORECASE,
)
"""Matches texts that say that a heading has no lines. `No queue.` does not match: it is a line."""
_SUPPORTED = 0.45
"""The share of a line's words, weighted by rarity, that a message must contain to be its source."""


@dataclass(frozen=True, slots=True)
class Line:
    """One line (or fenced code) of a summary, without its mark. `names` are the messages that it cites. It is
    `doubtful` if they do not have its facts. `weight` is `MUST`, `USUAL` or `FIRST_TO_GO`; `is_item` is False
    for words outside the lists of a reply. `test` compared the line with its messages, if any did."""

    heading: str
    text: str
    names: tuple[str, ...] = ()
    doubtful: bool = False
    weight: int = USUAL
    is_item: bool = field(default=True, compare=False)
    test: SupportTest | None = field(default=None, compare=False)

    def to_markdown(self, *, is_prose: bool = False) -> str:
        """Return the line as Markdown: `- text [m3, m7]`, with a remark if it is doubtful. In prose it is a
        sentence of a paragraph."""
        mark = f" [{', '.join(self.names)}]" if self.names else ""
        if self.doubtful:
            mark += f" {DOUBTFUL if self.names else NO_SOURCE}"
        if "```" in self.text or "~~~" in self.text:
            inside = markdown_answer(self.text).strip("\n").replace("\n", "\n  ")
            return f"-{mark}\n  {inside}"
        return f"{markdown_phrase(self.text)}{mark}" if is_prose else f"- {markdown_phrase(self.text)}{mark}"


def page(
    lines: Sequence[Line],
    titles: Sequence[str] = HEADINGS,
    *,
    empty: Collection[str] = HEADINGS,
    prose: Collection[str] = (),
) -> str:
    """Return the headings, each with its lines. A heading without lines is shown if it is in `empty`. The
    lines under the headings `prose` are written as paragraphs."""
    parts = []
    for title in titles:
        own = [line.to_markdown(is_prose=title in prose) for line in lines if line.heading == title]
        if own and title in prose:
            own = [*_paragraphs(own)]
        if own or title in empty:
            parts.append("\n".join([f"## {title}", *(own or [NONE_FOUND])]))
    return "\n\n".join(parts)


def _paragraphs(sentences: Sequence[str]) -> Iterator[str]:
    """Yield the sentences as paragraphs of nearly the same number of them, with an empty line between."""
    count = math.ceil(len(sentences) / _PARAGRAPH)
    for at in range(count):
        own = sentences[at * len(sentences) // count : (at + 1) * len(sentences) // count]
        yield ("\n" if at else "") + " ".join(own)


def parse_lines(text: str, titles: Sequence[str] = HEADINGS) -> list[Line]:
    """Parse a summary that a model wrote. Lines under an unknown heading belong to the known heading before
    it; lines before any heading belong to the first."""
    by_name = {_fold(title): title for title in titles}
    heading = titles[0]
    lines: list[Line] = []
    for item, is_item in _items(text):
        found = _HEADING.match(item)
        if found is not None:
            heading = by_name.get(_fold(found[1] or found[2]), heading)
            continue
        line = read_line(item, heading)
        if line.text and not _EMPTY.match(line.text):
            lines.append(replace(line, is_item=is_item))
    return lines


def read_line(item: str, heading: str) -> Line:
    """Return the line that a list item is: its weight, its words, and the messages that it names."""
    weight = _WEIGHT.match(item)
    item = item[weight.end() :] if weight else item
    marks = [mark for match in MARK.finditer(item) for mark in names_in(match[1])]
    words = MARK.sub("", item).replace(DOUBTFUL, "").replace(NO_SOURCE, "").strip()
    return Line(heading, words, tuple(dict.fromkeys(marks)), weight=_WEIGHTS[weight[1]] if weight else USUAL)


def words_of(text: str) -> set[str]:
    """Return the words, numbers, paths and identifiers of `text` in lower case. In scripts without spaces,
    every pair of characters is a word."""
    return {word.casefold() for word in _WORD.findall(split_spaceless(text))}


class Tracer:
    """Finds the messages that a line cites. Marks of messages that do not exist are kept in `unknown`. A line
    without a mark gets the message with most of its words: whether it supports the line is judged later."""

    def __init__(self, entries: Sequence[Entry]) -> None:
        self._names = {entry.name: place for place, entry in enumerate(entries)}
        self._entries = entries
        self.unknown: dict[str, None] = {}
        self._by_word: dict[str, list[int]] = {}
        for place, entry in enumerate(entries):
            for word in words_of(f"{entry.message.author or ''} {entry.message.content}"):
                self._by_word.setdefault(word, []).append(place)

    def find_sources(self, line: Line) -> tuple[str, ...]:
        """Return the messages that the line cites, or else the one that has most of its words; () if there is
        none."""
        existing = tuple(name for name in line.names if name in self._names)
        self.unknown.update(dict.fromkeys(name for name in line.names if name not in self._names))
        if existing:
            return existing
        best = self._find_best(self._weights(line.text))
        return () if best is None else (self._entries[best].name,)

    def _weights(self, text: str) -> Mapping[str, float]:
        """Return the words of `text` with their weights. Rare words weigh more; a word that no message
        contains weighs as much as one that occurs once."""
        count = len(self._entries)
        return {word: math.log(1 + count / len(self._by_word.get(word, "1"))) for word in words_of(text)}

    def _find_best(self, weights: Mapping[str, float]) -> int | None:
        scores = self._scores(weights)
        if not scores:
            return None
        place, score = max(scores.items(), key=lambda one: (one[1], -one[0]))
        return place if score >= _SUPPORTED * sum(weights.values()) else None

    def _scores(self, weights: Mapping[str, float]) -> Mapping[int, float]:
        scores: defaultdict[int, float] = defaultdict(float)
        for word, weight in weights.items():
            for place in self._by_word.get(word, ()):
                scores[place] += weight
        return scores


def _fold(heading: str) -> str:
    return re.sub(r"\W+", " ", heading).strip().casefold()


def _items(text: str) -> Iterator[tuple[str, bool]]:
    """Yield headings, list items with the lines indented under them, and other lines; with each, whether it
    is a list item. Fenced code stays in one piece."""
    item: list[str] = []
    in_fence = was_item = False
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
            yield from ((one, was_item) for one in _join(item))
            item = [_ITEM.sub("", stripped)] if stripped else []
            was_item = is_item is not None
        elif stripped:
            item.append(stripped)
    yield from ((one, was_item) for one in _join(item))


def _join(item: Sequence[str]) -> Iterator[str]:
    text = "\n".join(item) if any(_FENCE.match(line) for line in item) else " ".join(item)
    if text.strip():
        yield text.strip()


def names_in(mark: str) -> list[str]:
    """Return the names in the text of a mark. `m120-25` ends at m125, and `m15-m12` begins at m12. Of a
    range of more than 500 these are the two ends."""
    names: list[str] = []
    letter = "m"
    for kind, first, last in _RANGE.findall(mark):
        letter = kind.lower() or letter
        whole = first[: len(first) - len(last)] + last
        low, high = sorted((int(first), int(whole)))
        numbers = range(low, high + 1) if high - low < _MAX_RANGE else (low, high)
        names += [f"{letter}{number}" for number in numbers]
    return names
