"""Measure how often `extractive` answers unanswerable questions, and denies answerable ones.

    python -m benchmarks.abstention DATA [--sets locomo,qmsum] [--wrong 6] [--json OUT.json]

DATA holds `<set>/items.jsonl`. Each document is asked its own questions, and questions of other documents.
The answer to the latter must be "not in the documents". Half of them come from the same set, whose documents
have similar topics. Questions for a summary of the whole are skipped, because any document answers them.

Items with choices are asked again with their choices. Items with short answers are asked again with choices
too: their own answer, and the answers of three others.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import random
import re
import sys
import tempfile
from collections import Counter
from dataclasses import asdict, dataclass
from pathlib import Path

from benchmarks.retrieval.data import Item, items
from rlm import RLM, Settings
from rlm.documents import TextSource
from rlm.models.offline.extractive.words import is_overview
from rlm.tasks.question import ask
from rlm.tasks.reports.questions import Plan, Question
from rlm.tasks.reports.research import research

_SETS = "locomo,qmsum,squality,longbench_v2"
_CHOICE = re.compile(r"^- [A-Z]: (.*)$", re.MULTILINE)
_SEED = 7
_CHOICES = 4
_SHORT = 100
"""Maximum characters of an answer that serves as a choice."""


@dataclass(frozen=True, slots=True)
class Asked:
    """One question to one document. `kind`: `own`, `same set` or `other set`, by where it comes from."""

    set: str
    kind: str
    question: str
    answered: bool


def stem(item: Item) -> str:
    """Return the question without its choices, as a line of a plan."""
    return " ".join(item.question.partition("\n\nChoices:")[0].split())[:1_000]


async def ask_document(
    rlm: RLM, own: list[Item], others: list[Item], wrong: int, chance: random.Random
) -> list[Asked]:
    """Ask one document all its questions as one research, so that it is loaded and indexed once."""
    alike = [one for one in others if one.set == own[0].set]
    unlike = [one for one in others if one.set != own[0].set]
    asked = [("own", one) for one in own if not is_overview(stem(one))]
    for kind, pool in (("same set", alike), ("other set", unlike)):
        asked += [(kind, one) for one in chance.sample(pool, min(wrong // 2, len(pool)))]
    plan = Plan("?", tuple(Question(str(n), stem(one)) for n, (_, one) in enumerate(asked, 1)))
    found = await research(rlm, "?", [TextSource("document.txt", own[0].context)], plan=plan)
    absent = {question.number for question, _ in found.gaps}
    return [
        Asked(own[0].set, kind, stem(one), str(number) not in absent)
        for number, (kind, one) in enumerate(asked, 1)
    ]


def choices_of(item: Item, everything: list[Item], chance: random.Random) -> list[str]:
    """Return the choices of a question. If it has none and a short answer, add three of others."""
    given = _CHOICE.findall(item.question)
    if given or len(item.golds[0]) > _SHORT:
        return given
    pool = [one.golds[0] for one in everything if one.set == item.set and one.golds[0] not in item.golds]
    offered = [item.golds[0], *chance.sample(pool, min(3, len(pool)))]
    chance.shuffle(offered)
    return offered if len(set(offered)) == _CHOICES else []


async def chooses_right(rlm: RLM, item: Item, offered: list[str]) -> bool | None:
    """Return whether the right choice was made, None if none was made."""
    found = await ask(rlm, stem(item), [TextSource("document.txt", item.context)], choices=offered)
    return None if found.choice is None else str(found.result.answer).partition(": ")[2] in item.golds


def table(rows: list[Asked]) -> str:
    counts = Counter((row.set, row.kind, row.answered) for row in rows)
    lines = [f"{'set':<14}{'questions':<12}{'answered':>9}{'denied':>8}"]
    for name in dict.fromkeys(row.set for row in rows):
        for kind in ("own", "same set", "other set"):
            yes, no = counts[name, kind, True], counts[name, kind, False]
            lines.append(f"{name:<14}{kind:<12}{yes:>9}{no:>8}")
    return "\n".join(lines)


async def main(data: Path, sets: list[str], wrong: int) -> list[Asked]:
    """Ask all questions and print the table."""
    chance = random.Random(_SEED)
    everything = [item for name in sets for item in items(data, name)]
    rows: list[Asked] = []
    choices: Counter[tuple[str, bool | None]] = Counter()
    with tempfile.TemporaryDirectory() as folder:
        rlm = RLM("extractive", settings=Settings(store=Path(folder) / "rlm.db"))
        for context in dict.fromkeys(item.context for item in everything):
            own = [item for item in everything if item.context == context]
            others = [one for one in everything if one.context != context and not is_overview(stem(one))]
            rows += await ask_document(rlm, own, others, wrong, chance)
            for item in own:
                offered = choices_of(item, everything, chance)
                if offered:
                    choices[item.set, await chooses_right(rlm, item, offered)] += 1
            print(f"{len(rows)} questions asked", file=sys.stderr, flush=True)
    print(table(rows))
    for name in dict.fromkeys(name for name, _ in choices):
        right, wrong_ones, none = (choices[name, came] for came in (True, False, None))
        print(f"{name}: choices {right} right, {wrong_ones} wrong, {none} not made")
    return rows


if __name__ == "__main__":
    parser = argparse.ArgumentParser(prog="python -m benchmarks.abstention", description=__doc__)
    parser.add_argument("data", type=Path)
    parser.add_argument("--sets", default=_SETS)
    parser.add_argument("--wrong", type=int, default=6)
    parser.add_argument("--json", type=Path)
    given = parser.parse_args()
    found = asyncio.run(main(given.data, given.sets.split(","), given.wrong))
    if given.json is not None:
        given.json.write_text(json.dumps([asdict(row) for row in found], indent=2))
