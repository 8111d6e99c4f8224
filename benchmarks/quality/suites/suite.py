"""The suites by name, and their items."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import Protocol

from benchmarks.quality.item import Item
from benchmarks.quality.suites.data.documents import browsecomp_plus, longbench_v2
from benchmarks.quality.suites.data.oolong import oolong_pairs, oolong_real, oolong_synth
from benchmarks.quality.suites.data.rows import Row, rows_of
from benchmarks.quality.suites.generated.boards import boards
from benchmarks.quality.suites.generated.chats import chats
from benchmarks.quality.suites.generated.labels import labels, pairs
from benchmarks.quality.suites.generated.needles import multi_key, needle
from benchmarks.quality.suites.generated.records import records
from rlm.errors import UsageError

__all__ = ["SUITES", "Suite", "find_suite", "load_items"]


class _Generate(Protocol):
    def __call__(self, number: int, *, seed: int, chars: int) -> Item: ...


@dataclass(frozen=True, slots=True)
class Suite:
    """A suite. It has either `generate` or `read` (the items of a row). `source` says where the data of
    others come from."""

    name: str
    title: str
    generate: _Generate | None = None
    read: Callable[[str, Row], Iterator[Item]] | None = None
    source: str = ""


_OOLONG = "huggingface.co/datasets/oolongbench/"
SUITES: Mapping[str, Suite] = {
    suite.name: suite
    for suite in (
        Suite("records", "counts, sums and extremes over a table of orders", records),
        Suite("labels", "counts of subjects that no label names, as in OOLONG", labels),
        Suite("pairs", "pairs of users by the subjects of their messages, as in OOLONG-Pairs", pairs),
        Suite("needle", "one fact in filler (S-NIAH)", needle),
        Suite("multi-key", "one or three facts among 48 that are alike", multi_key),
        Suite("chats", "plans that change in a long chat", chats),
        Suite("boards", "issues that are closed and reopened on a board", boards),
        Suite("oolong-synth", "OOLONG, synthetic", read=oolong_synth, source=f"{_OOLONG}oolong-synth"),
        Suite("oolong-real", "OOLONG, transcripts", read=oolong_real, source=f"{_OOLONG}oolong-real"),
        Suite(
            "oolong-pairs",
            "pairs of users of OOLONG, golds from its labels",
            read=oolong_pairs,
            source=f"{_OOLONG}oolong-synth",
        ),
        Suite(
            "longbench-v2",
            "LongBench v2, choices",
            read=longbench_v2,
            source="huggingface.co/datasets/THUDM/LongBench-v2",
        ),
        Suite(
            "browsecomp-plus",
            "BrowseComp-Plus, judged by a model",
            read=browsecomp_plus,
            source="github.com/texttron/BrowseComp-Plus, decrypted with its script",
        ),
    )
}


def find_suite(name: str) -> Suite:
    """Return a suite by its name. Raises UsageError, which lists the names."""
    if name not in SUITES:
        raise UsageError(f"there is no suite {name!r}: the suites are {', '.join(SUITES)}")
    return SUITES[name]


def load_items(suite: Suite, *, limit: int, seed: int, chars: int, data: Path | None) -> Sequence[Item]:
    """Return the first `limit` items of a suite. A larger limit keeps them and adds others.

    Generated items depend on suite, seed and `chars` alone. Items of files are drawn in an order that depends
    on the seed. Raises UsageError if data are missing or of another form."""
    if suite.generate is not None:
        if data is not None:
            raise UsageError(f"the suite {suite.name} is generated: leave --data out")
        return [suite.generate(number, seed=seed, chars=chars) for number in range(limit)]
    assert suite.read is not None
    if data is None:
        raise UsageError(
            f"the suite {suite.name} needs its data, which are not part of rlm: get them from "
            f"{suite.source}, and give --data PATH (JSON Lines, JSON or Parquet)"
        )
    read = suite.read
    # Shuffled by number before anything is kept, so that texts of items that are not drawn take no memory.
    count = sum(1 for place, row in rows_of(data) for _ in read(place, row))
    order = list(range(count))
    random.Random(seed).shuffle(order)
    wanted = {number: rank for rank, number in enumerate(order[:limit])}
    every = (item for place, row in rows_of(data) for item in read(place, row))
    drawn = {wanted[number]: item for number, item in enumerate(every) if number in wanted}
    return _unique([drawn[rank] for rank in sorted(islice(drawn, limit))])


def _unique(items: Sequence[Item]) -> Sequence[Item]:
    """Return the items without those that the data set holds twice."""
    return list({item.id: item for item in items}.values())
