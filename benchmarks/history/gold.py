"""Compare summaries without a model with human ones by ROUGE, and with simpler methods.

    python benchmarks/history/gold.py FOLDER [--ids REGEX] [--json OUT]

FOLDER holds sets of items, as `SET/items.jsonl` and `SET/summaries.jsonl`. Each line is a JSON object with
`id`, `task` (only `summarize` is used), `question`, `answers` (the summaries), and `context_file` (in SET,
plain or .xz). Each text is summarized to the length of the human summary, and to 8,000 tokens if it is
longer. The simpler methods are its first tokens, its last tokens, and the best passages by BM25 for the
question. The summary does not see the question, so select items that ask for a summary of everything
(`--ids`).
"""

from __future__ import annotations

import argparse
import asyncio
import json
import lzma
import math
import re
import sys
import tempfile
from bisect import bisect_left
from collections import Counter, defaultdict
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from rlm import RLM, Settings
from rlm.documents import TextSource
from rlm.prompts import get_counter
from rlm.tasks.summaries.summarize import summarize

sys.path.insert(0, str(Path(__file__).parents[1] / "retrieval"))
from bm25 import top_passages

COUNT = get_counter().count
LONG = 8_000
_MARK = re.compile(r" ?\[(?:m\d+(?:, )?|[⁰¹²³⁴⁵⁶⁷⁸⁹]+)+\]")
Scores = tuple[float, ...]
"""Recall and F1 of ROUGE-1, ROUGE-2 and ROUGE-L."""


def items(folder: Path) -> Iterator[tuple[str, dict[str, Any]]]:
    for name in ("items.jsonl", "summaries.jsonl"):
        for path in sorted(folder.glob(f"*/{name}")):
            for line in path.read_text(encoding="utf-8").splitlines():
                item = json.loads(line)
                if item["task"] == "summarize" and "context_file" in item:
                    data = (path.parent / item["context_file"]).read_bytes()
                    text = lzma.decompress(data) if item["context_file"].endswith(".xz") else data
                    yield path.parent.name, {**item, "text": text.decode("utf-8")}


def rouge(text: str, gold: str) -> Scores:
    produced, wanted = _words(text), _words(gold)
    scores: list[float] = []
    for size in (1, 2):
        ours, theirs = (
            Counter(zip(*(one[at:] for at in range(size)), strict=False)) for one in (produced, wanted)
        )
        scores += _recall_and_f1(sum((ours & theirs).values()), sum(theirs.values()), sum(ours.values()))
    return (*scores, *_recall_and_f1(_in_order(produced, wanted), len(wanted), len(produced)))


def _words(text: str) -> list[str]:
    return [
        word.removesuffix("s") if len(word) > 3 else word for word in re.findall(r"[a-z0-9]+", text.lower())
    ]


def _recall_and_f1(both: int, wanted: int, produced: int) -> tuple[float, float]:
    recall, precision = both / max(1, wanted), both / max(1, produced)
    return recall, 2 * recall * precision / (recall + precision) if both else 0.0


def _in_order(produced: Sequence[str], wanted: Sequence[str]) -> int:
    """Return the length of the longest common subsequence."""
    places: dict[str, list[int]] = defaultdict(list)
    for place, word in enumerate(wanted):
        places[word].append(place)
    ends: list[int] = []
    for word in produced:
        for place in reversed(places.get(word, ())):
            at = bisect_left(ends, place)
            ends[at : at + 1] = [place]
    return len(ends)


def cut(text: str, tokens: int, *, last: bool = False) -> str:
    words = re.findall(r"\S+\s*", text)
    low, high = 0, len(words)
    while low < high:
        middle = (low + high + 1) // 2
        part = words[-middle:] if last else words[:middle]
        low, high = (middle, high) if COUNT("".join(part)) <= tokens else (low, middle - 1)
    return "".join(words[len(words) - low :] if last else words[:low])


def rank_passages(text: str, question: str, tokens: int) -> str:
    lines = "\n".join(one for one in re.split(r"(?<=[.!?])\s+|\n", text) if len(one) > 20)
    return cut("\n".join(top_passages(lines, question, math.ceil(tokens / 150))), tokens)


async def summarize_text(rlm: RLM, name: str, text: str, tokens: int) -> str:
    found = await summarize(rlm, [TextSource(f"{name}.txt", text, "text")], tokens=tokens)
    assert COUNT(found.text) <= tokens
    return _MARK.sub("", found.text)


async def measure(folder: Path, ids: str, store: Path) -> dict[tuple[str, str, str], list[Scores]]:
    """Return the scores of each item, by set, length and method."""
    rows: dict[tuple[str, str, str], list[Scores]] = defaultdict(list)
    rlm = RLM("extractive", settings=Settings(store=store))
    for kind, item in items(folder):
        if not re.search(ids, item["id"]):
            continue
        text, answers = item["text"], item["answers"]
        length = max(100, sum(map(COUNT, answers)) // len(answers))
        for shown, tokens in (("people's", length), (f"{LONG:,}", LONG)):
            if tokens == LONG and COUNT(text) <= LONG * 9 // 8:
                continue
            ways = {
                "summary": await summarize_text(rlm, item["id"], text, tokens),
                "first": cut(text, tokens),
                "last": cut(text, tokens, last=True),
                "BM25": rank_passages(text, item["question"], tokens),
            }
            for way, produced in ways.items():
                best = zip(*(rouge(produced, answer) for answer in answers), strict=True)
                rows[kind, shown, way].append(tuple(map(max, best)))
    return rows


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("folder", type=Path)
    parser.add_argument("--ids", default="", help="only the items whose id this matches")
    parser.add_argument("--json", help="write the figures here")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as store:
        rows = asyncio.run(measure(options.folder, options.ids, Path(store) / "rlm.db"))
    print(f"{'set':10}{'tokens':>9} {'way':9}{'R-1':>7}{'F1':>7}{'R-2':>7}{'F1':>7}{'R-L':>7}{'F1':>7}")
    means = {key: [sum(one) / len(found) for one in zip(*found, strict=True)] for key, found in rows.items()}
    for (kind, shown, way), scores in means.items():
        print(f"{kind:10}{shown:>9} {way:9}" + "".join(f"{score:7.3f}" for score in scores))
    if options.json:
        named = {" ".join(key): scores for key, scores in means.items()}
        Path(options.json).write_text(json.dumps(named, indent=2), encoding="utf-8")


if __name__ == "__main__":
    main()
