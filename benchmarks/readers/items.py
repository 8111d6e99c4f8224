"""The questions: `items.toml`, completed from the folder of data sets."""

from __future__ import annotations

import argparse
import json
import lzma
import tomllib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

__all__ = [
    "ARMS",
    "ITEMS",
    "RESULTS",
    "Arm",
    "Item",
    "Kind",
    "choose",
    "load",
    "parser",
    "reader_of",
    "selection",
    "write_texts",
]

ITEMS = Path(__file__).with_name("items.toml")
RESULTS = Path(__file__).with_name("results")
Arm = Literal["product", "direct", "map-reduce", "bm25"]
ARMS: tuple[Arm, ...] = ("product", "direct", "map-reduce", "bm25")
Kind = Literal["ask", "summarize", "research"]


@dataclass(frozen=True, slots=True)
class Item:
    """One question with its golds. `texts` are files of the data folder; `golds` holds the gold answers of
    each part of the question (an ask has one part). Without `scoring` the answer is only judged."""

    id: str
    kind: Kind
    question: str
    golds: tuple[tuple[str, ...], ...]
    texts: tuple[str, ...]
    scoring: str | None = None
    lookup: bool = False
    record: str | None = None


def selection(file: Path = ITEMS) -> Mapping[str, Any]:
    """Return the seed, the length of a summary in tokens, and the entries of the items."""
    return tomllib.loads(file.read_text("utf-8"))


def load(data: Path, file: Path = ITEMS) -> list[Item]:
    """Return all items. Raises SystemExit with one line if the folder lacks one."""
    known = dict(_read_sets(data))
    items = []
    for entry in selection(file)["item"]:
        try:
            parts = [known[name] for name in entry.get("of", ())]
        except KeyError as error:
            raise SystemExit(
                f"{data} has no item {error}: --data names another version of the sets"
            ) from None
        questions = [part["question"] for part in parts] or [entry["question"]]
        golds = [tuple(part["answers"]) for part in parts]
        if "answers" in entry:
            golds = [tuple(entry["answers"])]
        texts = [text for part in parts for text in part["texts"]] or entry["texts"]
        items.append(
            Item(
                entry["id"],
                entry["kind"],
                "\n".join(questions),
                tuple(golds),
                tuple(dict.fromkeys(texts)),
                entry.get("scoring"),
                entry.get("lookup", False),
                entry.get("record"),
            )
        )
    return items


def choose(items: Sequence[Item], only: Sequence[str]) -> list[Item]:
    """Return the items whose ids begin with one of `only`; all if it is empty."""
    return [one for one in items if not only or one.id.startswith(tuple(only))]


def parser(description: str | None) -> argparse.ArgumentParser:
    """Return a parser with the arguments that all commands share."""
    form = argparse.RawDescriptionHelpFormatter
    made = argparse.ArgumentParser(description=description, formatter_class=form)
    made.add_argument("--data", type=Path, required=True, help="the folder of the data sets")
    made.add_argument("--items", type=Path, default=ITEMS, help="the choice of items; default: items.toml")
    made.add_argument("--results", type=Path, default=RESULTS, help="the artifacts; default: results")
    made.add_argument("--only", nargs="+", default=[], help="items, by id or the beginning of it")
    return made


def _read_sets(data: Path) -> Iterator[tuple[str, Mapping[str, Any]]]:
    files = sorted([*data.glob("*/items.jsonl"), *data.glob("*/summaries.jsonl")])
    if not files:
        raise SystemExit(f"{data} holds no data set (<set>/items.jsonl): check --data")
    for file in files:
        for line in file.read_text("utf-8").splitlines():
            entry = json.loads(line)
            texts = [f"{file.parent.name}/{entry['context_file']}"]
            yield f"{file.parent.name}/{entry['id']}", {**entry, "texts": texts}


def write_texts(item: Item, data: Path, folder: Path) -> list[Path]:
    """Write the texts of an item as plain files below `folder`, unless they are there, and return them."""
    paths = []
    for name in item.texts:
        source = Path(name.removesuffix(".xz"))
        target = folder / source.parts[0] / source.name
        if item.record is not None:
            target = target.with_name(f"{item.record}.json")
        paths.append(target)
        if target.exists():
            continue
        text = lzma.decompress((data / name).read_bytes()).decode("utf-8")
        if item.record is not None:
            rows = map(json.loads, text.splitlines())
            row = next(row for row in rows if row["id"] == item.record)
            text = json.dumps(row, ensure_ascii=False, indent=1)
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_text(text, "utf-8")
    return paths


def reader_of(items: Sequence[Item], item: Item, arm: Arm, readers: Sequence[str]) -> str:
    """Return the name of the model that plays an arm of an item.

    With as many names as arms no reader sees one text in two arms, so none can answer from memory of another
    arm. Items that share a text belong to one group; each group shifts the readers by one.
    """
    groups: dict[str, int] = {}
    for one in items:
        shared = {groups[text] for text in one.texts if text in groups}
        group = min(shared, default=max(groups.values(), default=-1) + 1)
        groups = {text: group if of in shared else of for text, of in groups.items()}
        groups |= dict.fromkeys(one.texts, group)
    return readers[(groups[item.texts[0]] + ARMS.index(arm)) % len(readers)]
