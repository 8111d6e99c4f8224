"""Measure how much of the gold answers `extractive` cites, compared with the top five passages of plain BM25.

    python -m benchmarks.retrieval.run DATA [--sets locomo,qmsum] [--json OUT.json]

DATA holds `<set>/items.jsonl`. Both sides get the same questions in the same run. `whole` is the share of
questions with all gold words in the cited text, and `words` the mean share of gold words. Characters and
pieces are means per question.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import sys
import tempfile
import time
from collections.abc import Callable
from dataclasses import asdict, dataclass
from pathlib import Path

from benchmarks.retrieval.bm25 import top_passages
from benchmarks.retrieval.data import SETS, Item, gold_share, items
from rlm import RLM, Settings


@dataclass(frozen=True, slots=True)
class Row:
    """The results of both sides for one question."""

    set: str
    id: str
    seconds: float
    verified: bool
    extractive: float
    bm25: float
    extractive_chars: int
    bm25_chars: int
    extractive_pieces: int
    in_answer: float


async def measure(rlm: RLM, item: Item) -> Row:
    began = time.monotonic()
    result = await rlm.run(item.question, item.context)
    seconds = time.monotonic() - began
    cited = [
        item.context[citation.start : citation.end]
        for citation in result.citations
        if citation.start is not None
    ]
    passages = top_passages(item.context, item.question)
    return Row(
        item.set,
        item.id,
        round(seconds, 2),
        bool(result.citations) and all(citation.verified for citation in result.citations),
        gold_share(item, "\n".join(cited)),
        gold_share(item, "\n".join(passages)),
        sum(map(len, cited)),
        sum(map(len, passages)),
        len(cited),
        gold_share(item, str(result.answer)),
    )


_COLUMNS: tuple[tuple[str, Callable[[Row], float], str], ...] = (
    ("whole", lambda row: row.extractive >= 1, ".2f"),
    ("bm25", lambda row: row.bm25 >= 1, ".2f"),
    ("words", lambda row: row.extractive, ".2f"),
    ("bm25", lambda row: row.bm25, ".2f"),
    ("chars", lambda row: row.extractive_chars, ".0f"),
    ("bm25", lambda row: row.bm25_chars, ".0f"),
    ("pieces", lambda row: row.extractive_pieces, ".1f"),
    ("verified", lambda row: row.verified, ".2f"),
    ("answer", lambda row: row.in_answer, ".2f"),
    ("s", lambda row: row.seconds, ".2f"),
)


def table(rows: list[Row]) -> str:
    """Return means per set, and over all but ruler, whose questions are of another kind (needles)."""
    lines = [f"{'set':<14}{'n':>4}" + "".join(f"{title:>9}" for title, _, _ in _COLUMNS)]
    for name in (*dict.fromkeys(row.set for row in rows), "all but ruler"):
        own = [row for row in rows if row.set == name or (name == "all but ruler" and row.set != "ruler")]
        if own:
            means = [(sum(map(value, own)) / len(own), form) for _, value, form in _COLUMNS]
            lines.append(f"{name:<14}{len(own):>4}" + "".join(f"{mean:>9{form}}" for mean, form in means))
    return "\n".join(lines)


async def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("data", type=Path)
    parser.add_argument("--sets", default=",".join(SETS))
    parser.add_argument("--strategy", default="auto")
    parser.add_argument("--json", type=Path, help="write the figures of each question to this file")
    parser.add_argument("--each", action="store_true", help="print the figures of each question")
    options = parser.parse_args()
    if not options.data.is_dir():
        print(f"{options.data} is not a folder: give the folder of the data sets", file=sys.stderr)
        return 2
    rows = []
    with tempfile.TemporaryDirectory() as folder:
        rlm = RLM(
            "extractive",
            settings=Settings(strategy=options.strategy, sandbox=0, store=Path(folder) / "rlm.db"),
        )
        for name in options.sets.split(","):
            if not (options.data / name / "items.jsonl").is_file():
                print(f"{name}: not in {options.data}, skipped", file=sys.stderr)
                continue
            for item in items(options.data, name):
                row = await measure(rlm, item)
                rows.append(row)
                if options.each:
                    print(
                        f"{row.id:<34}{row.extractive:.2f} {row.bm25:.2f}  {row.extractive_chars:>6}"
                        f"{row.bm25_chars:>6}{row.extractive_pieces:>4}{row.seconds:>7.2f}"
                        f"  {' '.join(item.question.split())[:70]}",
                        flush=True,
                    )
        await rlm.aclose()
    print(table(rows))
    if options.json:
        options.json.write_text(json.dumps([asdict(row) for row in rows], indent=1), "utf-8")
    return 0


if __name__ == "__main__":
    raise SystemExit(asyncio.run(main()))
