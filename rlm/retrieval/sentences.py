"""Split a text into verbatim sentences and lines. Wrapped lines are joined."""

from __future__ import annotations

import re
from collections import Counter

__all__ = ["LONGEST", "are_records", "sentences"]

LONGEST = 560
"""Characters of a sentence; a longer one is split at a blank. A citation shows 600."""

_BREAK = re.compile(r"(?<=[.!?…])([\"'”’»)\]]*)\s+|(?<=[。！？])([”』」）]*)|\s*\n\s*")
_ABBREVIATED = re.compile(
    r"(?:^|[\s(\[\"“])(?:[A-Z]|Mr|Mrs|Ms|Dr|Prof|St|Jr|Sr|vs|cf|No|Nos|Fig|Eq|Sec|Art|pp?|e\.g|i\.e|al|ca|approx)\.$"
)
_MARKED = re.compile(r"[ \t]*(?:[-*•|>#\[{(=]|\d+[.):]|\w[\w .'-]{0,30}:\s)")
_WRAPPED_LINES = 3
_RECORDS = 0.6
"""The share of lines that begin or are divided alike, if each line is a record (a log, a table)."""
_LOOKED_AT = 200
_SEPARATORS = tuple(map(re.compile, (r",(?! )", r";(?! )", r"\t", r"\|")))
"""Commas of prose have a blank after them."""
_STOPS = ".!?…:;"
_NARROW, _WIDE = 40, 140
_FULL = 0.75
"""The share of the width that most wrapped lines fill."""


def sentences(text: str) -> list[tuple[int, int]]:
    """Return the places (start, end) of all sentences in order, without surrounding white space. Sentences
    without letters and digits are skipped. If each line is a record, the lines are the sentences."""
    found: list[tuple[int, int]] = []
    if are_records(text):
        at = 0
        for line in text.split("\n"):
            _add(text, at, at + len(line), found)
            at += len(line) + 1
        return found
    width = _find_wrap_width(text)
    start = 0
    for edge in _BREAK.finditer(text):
        if _ends_sentence(text, edge, width):
            _add(text, start, edge.start() + len(edge[1] or edge[2] or ""), found)
            start = edge.end()
    _add(text, start, len(text), found)
    return found


def are_records(text: str) -> bool:
    """Return whether each line of `text` is a record: most lines begin with the same form of number or
    bracket (`2026-01-06`, `[17:03]`, `{`), or have the same number of separators."""
    lines = [line.strip() for line in text.split("\n", _LOOKED_AT)[:_LOOKED_AT] if line.strip()]
    if len(lines) < _WRAPPED_LINES:
        return False
    least = _RECORDS * len(lines)
    heads = Counter(re.sub(r"\d+", "9", line.split(None, 1)[0][:24]) for line in lines)
    # A bullet or a number of a list is no record: a sentence follows it.
    numbered = (total for head, total in heads.items() if re.search(r"9.*9|^[{\[<].", head) or head == "{")
    if max(numbered, default=0) >= least:
        return True
    for separator in _SEPARATORS:
        counts = Counter(len(separator.findall(line)) for line in lines)
        count, total = counts.most_common(1)[0]
        if count > 1 and total >= least:
            return True
    return False


def _ends_sentence(text: str, edge: re.Match[str], width: int | None) -> bool:
    """Return whether a sentence ends at `edge`."""
    between = edge[0]
    if between.count("\n") > 1 or edge[2] is not None:
        return True
    ended = edge[1] is not None and not _ABBREVIATED.search(text, max(0, edge.start() - 12), edge.start())
    if ended or "\n" not in between:
        return ended
    return width is None or not _is_wrap(text, edge.start(), edge.end(), width)


def _is_wrap(text: str, end: int, following: int, width: int) -> bool:
    """Return whether the line that ends at `end` continues in the next one. It does if the next word did not
    fit on it, or if the line is nearly full and does not end in a stop."""
    line = text[text.rfind("\n", 0, end) + 1 : end]
    if _MARKED.match(text, following):
        return False
    rest = text[following : following + width]
    word = len(rest.split(None, 1)[0]) if rest.strip() else 0
    if len(line) >= _FULL * width and (text[following : following + 1].islower() or line[-1:] not in _STOPS):
        return True
    return len(line) + 1 + word > width and len(line) > _NARROW // 2


def _find_wrap_width(text: str) -> int | None:
    """Return the width at which the lines of `text` were wrapped; None if they were not."""
    lengths = sorted(len(line.rstrip()) for line in text.split("\n") if line.strip())
    if len(lengths) < _WRAPPED_LINES:
        return None
    width = lengths[int(0.95 * (len(lengths) - 1))]
    full = sum(_FULL * width <= length <= 1.05 * width for length in lengths)
    return width if _NARROW <= width <= _WIDE and full >= 0.4 * len(lengths) else None


def _add(text: str, start: int, end: int, found: list[tuple[int, int]]) -> None:
    while end - start > LONGEST:
        start += len(text[start:end]) - len(text[start:end].lstrip())
        cut = max(text.rfind(" ", start + LONGEST // 2, start + LONGEST), start + LONGEST // 2)
        if end - start > LONGEST:
            _add(text, start, cut, found)
            start = cut
    piece = text[start:end]
    start += len(piece) - len(piece.lstrip())
    if any(map(str.isalnum, piece)):
        found.append((start, start + len(piece.strip())))
