"""Score the artifacts with the golds of the data folder, and write `scores.json`.

    python -m benchmarks.readers.score --data DIR

Golds are read from the data folder and not kept. `report` needs only what is written here.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from typing import Any

from benchmarks.quality.scoring import denies
from benchmarks.readers import journal
from benchmarks.readers.items import ARMS, Item, load, parser, selection

__all__ = ["is_right", "main", "score"]

_LEADING = re.compile(r"\W*([A-D])(?=\W|$)(?! [a-z])")
_NAMED = re.compile(r"\b(?i:answer|choice|option)\b\W*(?:is\W*)?([A-D])\b")
_ALONE = re.compile(r"(?<![\w'])([A-D])(?![\w'])(?! [a-z])")
_ABSENT = re.compile(
    r"\b(?:not|no|nothing|never|none|nowhere|doesn.t|isn.t)\b[^.]{0,80}\b(?:mention|nam|say|stat|found|contain|"
    r"ask|hold|inform|document|text|story|chat|sister|card|giv|receiv|sign|appear|refer|exist|tell|told)",
    re.IGNORECASE,
)
_BEGINNING = 300
"""Characters within which an answer must say that the text does not hold it."""
_FENCE = re.compile(r"```[^\n]*\n(.*?)\n?```", re.DOTALL)


def is_right(item: Item, answer: str, *, found: bool = True) -> bool:
    """Return whether the answer is right. `found` is False if the product says that the text holds none. An
    answer that denies what the text holds is wrong, whatever it names after that."""
    if item.scoring != "absent" and (not found or denies(answer)):
        return False
    golds = [gold for part in item.golds for gold in part]
    match item.scoring:
        case "choice":
            return _choice(answer) == golds[0]
        case "all":
            return all(_occurs(gold, answer) for gold in golds)
        case "any":
            return any(_occurs(gold, answer) for gold in golds)
        case "absent":
            return not found or _ABSENT.search(answer[:_BEGINNING]) is not None
        case "file":
            fenced = _FENCE.search(answer)
            return _file(fenced[1] if fenced else answer) == _file(golds[0])
        case _:
            raise ValueError(f"{item.id} has no exact scoring")


def _choice(answer: str) -> str | None:
    for pattern in (_LEADING.match, _NAMED.search, _ALONE.search):
        if found := pattern(answer.lstrip("*_ \n")):
            return found[1].upper()
    return None


def _occurs(gold: str, answer: str) -> bool:
    """Return whether the gold occurs in whole words. Thousands may be separated in numbers of the answer."""
    text = re.sub(r"(?<=\d)[,\u202f\u00a0](?=\d{3})", "", " ".join(answer.casefold().split()))
    return re.search(rf"(?<!\w){re.escape(' '.join(gold.casefold().split()))}(?!\w)", text) is not None


def _file(text: str) -> list[str]:
    return [line.rstrip() for line in text.strip().splitlines()]


def score(item: Item, record: Mapping[str, Any], events: list[dict[str, Any]], limit: int) -> dict[str, Any]:
    """Return the figures of one artifact. `right` is None for an answer that is only judged. `limit` is the
    length of a summary in tokens."""
    skipped = record["status"].startswith("skipped")
    right = None
    if item.scoring is not None and not skipped:
        right = is_right(item, record["answer"], found=record.get("found", True))
    figures = {
        "kind": item.kind,
        "lookup": item.lookup,
        "status": record["status"],
        "right": right,
        **{key: record[key] for key in ("calls", "rounds", "input_tokens", "output_tokens", "seconds")},
    }
    if record["arm"] == "product":
        figures |= {key: record[key] for key in ("citations", "verified", "support")}
        figures["discarded"] = journal.discarded(events, item.kind, record["answer"])
        figures["declined"] = journal.declined(events)
        figures["first_try"] = figures["as_written"] = None
        if item.kind == "summarize":
            figures["first_try"] = journal.first_try(events, limit)
            figures["as_written"] = journal.as_written(events, record["answer"])
    return figures


def main() -> None:
    given = parser(__doc__).parse_args()
    limit = selection(given.items)["summary_tokens"]
    scores: dict[str, dict[str, Any]] = {}
    for item in load(given.data, given.items):
        for arm in ARMS:
            file = given.results / arm / f"{item.id}.json"
            if file.exists():
                events = file.with_suffix(".journal.xz")
                found = journal.read(events) if events.exists() else []
                record = json.loads(file.read_text("utf-8"))
                scores.setdefault(item.id, {})[arm] = score(item, record, found, limit)
    target = given.results / "scores.json"
    target.write_text(json.dumps(scores, indent=1) + "\n", "utf-8")
    print(f"wrote {target}: {sum(map(len, scores.values()))} artifacts of {len(scores)} items")


if __name__ == "__main__":
    main()
