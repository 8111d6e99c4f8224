"""Measure how fast quotes are found in the body, as for the citations of an answer."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator

from benchmarks.gigabyte.corpus import CHINESE_NEEDLE, NEEDLE, RUSSIAN_NEEDLE
from benchmarks.gigabyte.handle import best
from benchmarks.gigabyte.memory import MemoryWatch
from benchmarks.gigabyte.row import Row
from rlm.answers.citations import cite
from rlm.sandbox.text.body import Body

_QUOTES = {
    "3 verbatim": ([NEEDLE, CHINESE_NEEDLE, RUSSIAN_NEEDLE], 3),
    "3 with other white space": (
        [NEEDLE.replace(" ", "  "), RUSSIAN_NEEDLE.replace(" ", "\n"), CHINESE_NEEDLE.replace("的", "的\n")],
        3,
    ),
    "50 that are not found": ([f"{NEEDLE[:-1]} {number}" for number in range(50)], 0),
    "50 stock phrases, not found": ([f"the of and to in kernel {number}" for number in range(50)], 0),
}


def rows(body: Body) -> Iterator[Row]:
    """Measure each set of quotes."""
    for name, (quotes, there) in _QUOTES.items():
        with MemoryWatch() as watch:
            seconds, cited = best(lambda quotes=quotes: asyncio.run(cite(quotes, "", body)), 1)
        verified = sum(citation.verified for citation in cited.citations)
        assert verified == there, (name, verified)
        note = f"{watch.driver_growth:.0f} MB"
        if unsearched := cited.unverified("unsearched"):
            note += f"; {len(unsearched)} were not searched in time"
        yield Row(f"evidence: {name}", seconds, "s", None, note)
