"""Cut a summary to its tokens by whole lines, where the lines under a heading are in the order of weight."""

from __future__ import annotations

import re
from itertools import pairwise

from rlm.prompts.tokens.counters import Counter

__all__ = ["cut_lines"]

_HEADING = re.compile(r"^#{1,6}\s|^\*\*[^*]+\*\*:?$")
_BEGINNING = re.compile(r"^\S")


def cut_lines(text: str, allowance: int, counter: Counter) -> str:
    """Return `text` without its last items, each time one of the heading with most of them, in at most
    `allowance` tokens. Headings stay. "" if not one item fits."""
    rows = text.splitlines()
    starts = [at for at, row in enumerate(rows) if _BEGINNING.match(row) and row.strip()]
    items = [(start, end) for start, end in pairwise([*starts, len(rows)])]
    sections: list[list[tuple[int, int]]] = [[]]
    for start, end in items:
        if _HEADING.match(rows[start]):
            sections.append([])
        else:
            sections[-1].append((start, end))
    kept = list(rows)
    while counter.count(_joined(kept)) > allowance:
        longest = max(sections, key=len)
        if not longest:
            return ""
        start, end = longest.pop()
        kept[start:end] = [""] * (end - start)
    return _joined(kept) if any(sections) else ""


def _joined(rows: list[str]) -> str:
    return re.sub(r"\n{3,}", "\n\n", "\n".join(rows)).strip()
