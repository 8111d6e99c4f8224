"""Let a judge compare the product's answer with that of each other arm, blind.

    python -m benchmarks.readers.judge --data DIR --judge NAME [--url URL] [--only ID…]

The judge sees the question, the source's gold answer and two answers in random order, without marks of
citations. It should be a model that played no arm. A verdict that exists is not asked for again.
"""

from __future__ import annotations

import argparse
import asyncio
import hashlib
import json
import os
import re
import tomllib
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from benchmarks.readers.baselines import PROMPTS
from benchmarks.readers.items import ARMS, Arm, Item, choose, load, parser, selection
from benchmarks.readers.run import full_name
from rlm.errors import ModelError
from rlm.models.base import Message, Model, Request
from rlm.models.catalog.info import ModelInfo
from rlm.models.options import ModelOptions
from rlm.models.resolution import resolve

__all__ = ["bare", "judge", "main", "prompt", "verdict_in"]

_MARK = re.compile(r" ?(?:\\?\[(?:m?\d+(?:, ?)?)+\\?\]|\[[⁰¹²³⁴⁵⁶⁷⁸⁹]+\])")
_APPARATUS = re.compile(
    r"^#+ *(?:Evidence|Sources|Conflicts between sources|Not found)\b.*?(?=^#|\Z)", re.M | re.S
)
_NO_FINDING = ("None found", "Every question has")


def bare(answer: str) -> str:
    """Return an answer without marks, lists of sources and empty sections, which would name its arm."""

    def kept(section: re.Match[str]) -> str:
        title, _, text = section[0].partition("\n")
        is_list = "Evidence" in title or "Sources" in title
        return "" if is_list or text.strip().startswith(_NO_FINDING) else section[0]

    return _MARK.sub("", _APPARATUS.sub(kept, answer)).strip() or "(no answer)"


def prompt(item: Item, first: str, second: str) -> str:
    """Return what the judge is asked."""
    golds = "\n\n".join(" / or: ".join(part) if len(part) <= 2 else part[0] for part in item.golds)
    if item.scoring == "all":
        golds = ", ".join(gold for part in item.golds for gold in part)
    question = "" if item.kind == "summarize" else f"<question>\n{item.question}\n</question>\n\n"
    words = tomllib.loads(PROMPTS.read_text("utf-8"))["judge"]
    facts = {"what": words[item.kind], "question": question, "gold": golds}
    return str(words["pair"]).format(**facts, first=bare(first), second=bare(second))


def verdict_in(reply: str) -> str | None:
    """Return `1`, `2` or `equal`; None if the reply holds no verdict."""
    lines = [line.strip(" .*`_#").casefold() for line in reply.strip().splitlines() if line.strip()]
    last = lines[-1].removeprefix("answer").strip(" _:") if lines else ""
    return last if last in ("1", "2", "equal") else None


async def judge(model: Model, item: Item, arm: Arm, results: Path, seed: int) -> dict[str, Any] | None:
    """Ask for the verdict on one pair. None if there is no pair, or no verdict after two calls."""
    answers: dict[str, str] = {}
    for name in ("product", arm):
        file = results / name / f"{item.id}.json"
        record = json.loads(file.read_text("utf-8")) if file.exists() else {"status": "skipped"}
        if record["status"].startswith("skipped"):
            return None
        answers[name] = record["answer"]
    draw = hashlib.sha256(f"{seed} {item.id} {arm}".encode()).digest()[0] % 2
    order: tuple[str, str] = ("product", arm) if draw else (arm, "product")
    text = prompt(item, answers[order[0]], answers[order[1]])
    facts = {"item": item.id, "kind": item.kind, "arm": arm, "order": list(order)}
    if bare(answers["product"]).casefold() == bare(answers[arm]).casefold():
        return {**facts, "prefers": "equal", "judge": None, "reply": "the same words"}
    for _ in range(2):
        reply = await model.generate(Request("direct", (Message("user", text),), 500, item.question))
        if verdict := verdict_in(reply.text):
            return {
                **facts,
                "prefers": verdict if verdict == "equal" else order[int(verdict) - 1],
                "judge": model.name,
                "prompt_sha256": hashlib.sha256(text.encode()).hexdigest(),
                "reply": reply.text,
            }
    return None


def _arguments() -> argparse.Namespace:
    made = parser(__doc__)
    made.add_argument("--judge", required=True, help="the model that judges")
    made.add_argument("--url", help="a server that speaks OpenAI's protocol, as in http://127.0.0.1:8000/v1")
    made.add_argument("--parallel", type=int, default=2, help="pairs at a time")
    return made.parse_args()


async def _judge_all(given: argparse.Namespace, items: Sequence[Item]) -> None:
    options = ModelOptions(idle_seconds=3_000, info=ModelInfo(window=32_000, output=1_000))
    model = resolve(full_name(given.judge, given.url), os.environ, options)
    slots, seed = asyncio.Semaphore(given.parallel), selection(given.items)["seed"]

    async def run(item: Item, arm: Arm) -> None:
        file = given.results / "judge" / f"{item.id}.{arm}.json"
        if file.exists():
            return
        async with slots:
            try:
                found = await judge(model, item, arm, given.results, seed)
            except ModelError as error:
                print(f"{item.id} {arm}: {error}")
                return
        if found is not None:
            file.parent.mkdir(parents=True, exist_ok=True)
            with file.open("x", encoding="utf-8") as stream:
                json.dump(found, stream, ensure_ascii=False, indent=1)
                stream.write("\n")
            print(f"{item.id} {arm}: {found['prefers']}", flush=True)

    await asyncio.gather(*(run(item, arm) for item in items for arm in ARMS if arm != "product"))
    await model.aclose()


def main() -> None:
    given = _arguments()
    asyncio.run(_judge_all(given, choose(load(given.data, given.items), given.only)))


if __name__ == "__main__":
    main()
