"""Questions with gold answers from a folder of data sets (`<set>/items.jsonl`, contexts as .xz)."""

from __future__ import annotations

import json
import lzma
import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

__all__ = ["SETS", "Item", "gold_share", "items"]

SETS = ("ruler", "locomo", "longbench_v2", "qmsum", "squality", "crd3")
_WORD = re.compile(r"\w+")
_CHOICE = re.compile(r"^- ([A-D]): (.*)$", re.MULTILINE)
_ABSENT = ("not mentioned", "no information available")
_COMMON_WORDS = """
    a an the and or of to in on at for from by with as is are was were be been being it its this that
    these those he she they them his her their him i you we our your not no but if then than so too very
    can could will would should may might do does did has have had who whom whose which what when where
    how
"""
_COMMON = frozenset(_COMMON_WORDS.split())


@dataclass(frozen=True, slots=True)
class Item:
    """One question. Each text of `golds` is a correct answer, or all together if `all_needed`."""

    set: str
    id: str
    question: str
    context: str
    golds: tuple[str, ...]
    all_needed: bool


def items(folder: Path, name: str) -> Iterator[Item]:
    """Yield the questions of one set, without those that the text does not answer."""
    for line in (folder / name / "items.jsonl").read_text("utf-8").splitlines():
        data = json.loads(line)
        golds = tuple(data["answers"])
        choices = dict(_CHOICE.findall(data["question"]))
        if data["scoring"] == "exact" and choices:
            golds = tuple(choices[gold] for gold in golds if gold in choices)
        if any(gold in _ABSENT for gold in golds) or not golds:
            continue
        context = data.get("context") or lzma.decompress(
            (folder / name / data["context_file"]).read_bytes()
        ).decode("utf-8")
        yield Item(
            name, data["id"], data["question"], context, golds, bool(data.get("all_answers_needed", False))
        )


def gold_share(item: Item, cited: str) -> float:
    """Return the share of the gold's content words in the cited text: of the best gold, or of all."""
    words = set(_WORD.findall(cited.casefold()))
    shares = []
    for gold in item.golds:
        wanted = {word for word in _WORD.findall(gold.casefold()) if word not in _COMMON}
        wanted = wanted or set(_WORD.findall(gold.casefold()))
        shares.append(len(wanted & words) / max(1, len(wanted)))
    return sum(shares) / len(shares) if item.all_needed else max(shares, default=0.0)
