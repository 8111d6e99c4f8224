"""Run arms on items against a model, and write one artifact for each.

    python -m benchmarks.readers.run --data DIR --root NAME… [--child NAME] [--url URL] [--only ID…]

An artifact that exists is not made again and never overwritten. An interrupted run of the product is resumed.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import signal
import tempfile
import time
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import rlm
from benchmarks.readers import baselines, journal
from benchmarks.readers.items import ARMS, Arm, Item, choose, load, parser, reader_of, selection, write_texts
from benchmarks.readers.product import Models, Outcome, answer_of, ask_product, read_events
from rlm.errors import ModelError
from rlm.models.catalog.info import ModelInfo
from rlm.models.options import ModelOptions
from rlm.models.resolution import resolve
from rlm.results import RESUMABLE

__all__ = ["Setup", "full_name", "main", "run_arm"]


@dataclass(frozen=True, slots=True)
class Setup:
    """Where the arms read and write, and which models they ask. `work` holds texts and stores for the time
    of the runs."""

    data: Path
    items: Path
    results: Path
    work: Path
    roots: tuple[str, ...]
    child: str
    window: int
    output: int

    def models(self, items: Sequence[Item], item: Item, arm: Arm) -> Models:
        """Return the models that play this arm of this item."""
        root = reader_of(items, item, arm, self.roots)
        return Models(root, (self.child or root) if arm == "product" else root, self.window, self.output)


async def run_arm(setup: Setup, items: Sequence[Item], item: Item, arm: Arm) -> str:
    """Run one arm on one item, write its artifact, and return one line about it."""
    file = setup.results / arm / f"{item.id}.json"
    if file.exists():
        return "done before"
    texts = await asyncio.to_thread(write_texts, item, setup.data, setup.work / "texts")
    models = setup.models(items, item, arm)
    facts = {"item": item.id, "arm": arm, "rlm": rlm.__version__, **asdict(models)}
    began = time.monotonic()
    if arm == "product":
        made = await _product(setup, item, texts, models)
    else:
        made = await _baseline(arm, item, texts, models)
    if made is None:
        return "failed: nothing was written, so the next run tries it again"
    record, events = made
    record = {**facts, **record, "seconds": round(time.monotonic() - began, 1)}
    file.parent.mkdir(parents=True, exist_ok=True)
    if events:
        journal.write(events, file.with_suffix(".journal.xz"))
    with file.open("x", encoding="utf-8") as stream:
        json.dump(record, stream, ensure_ascii=False, indent=1)
        stream.write("\n")
    return str(record["status"])


_Made = tuple[dict[str, Any], list[dict[str, Any]]] | None


async def _baseline(arm: Arm, item: Item, texts: Sequence[Path], models: Models) -> _Made:
    facts = ModelInfo(window=models.window, output=models.output)
    model = resolve(models.root, os.environ, ModelOptions(idle_seconds=3_000, info=facts))
    calls = baselines.Calls(model, models.window, models.output)
    record: dict[str, Any]
    try:
        text = await baselines.answer(arm, item, texts, calls)
        record = {"status": "answered" if text else "no answer", "answer": text}
    except baselines.Skipped as reason:
        record = {"status": f"skipped: {reason}", "answer": ""}
    except ModelError as error:
        print(f"{item.id} {arm}: {error}")
        return None
    finally:
        await model.aclose()
    counts = {
        "calls": len(calls.replies),
        "rounds": 0,
        "input_tokens": sum(int(str(one["input_tokens"])) for one in calls.replies),
        "output_tokens": sum(int(str(one["output_tokens"])) for one in calls.replies),
    }
    return {**record, **counts, "replies": calls.replies}, []


async def _product(setup: Setup, item: Item, texts: Sequence[Path], models: Models) -> _Made:
    stores, tokens = setup.work / "stores", selection(setup.items)["summary_tokens"]
    outcome = await ask_product(item, texts, models, stores, summary_tokens=tokens)
    if not outcome.result or outcome.result.get("stop_reason") in RESUMABLE:
        print(f"{item.id} product: exit {outcome.code}, {outcome.error or outcome.result.get('stop_reason')}")
        return None
    events = journal.slim(await read_events(stores / f"{item.id}.db"))
    return _record(item, outcome, events), events


def _record(item: Item, outcome: Outcome, events: list[dict[str, Any]]) -> dict[str, Any]:
    """Return what is kept of the product's result: no quote and no other text of the input."""
    result = outcome.result
    text = answer_of(item, result)
    usage = result.get("usage") or ()
    citations = result.get("citations") or ()
    support = result.get("support") or {}
    counts = {key: support[key] for key in ("supported", "unsupported", "unchecked") if key in support}
    if not counts and result.get("lines"):  # a summary counts its lines
        counts = {"supported": result["supported"], "unsupported": result["lines"] - result["supported"]}
    return {
        "status": "answered" if text else "no answer",
        "answer": text,
        "exit_code": outcome.code,
        "found": result.get("found", True),
        "stop_reason": result.get("stop_reason"),
        "strategy": result.get("strategy"),
        "confidence": result.get("confidence"),
        "calls": sum(one["calls"] for one in usage),
        "rounds": result.get("rounds", 0),
        "input_tokens": sum(one["input_tokens"] for one in usage),
        "output_tokens": sum(one["output_tokens"] for one in usage),
        "citations": len(citations),
        "verified": sum(bool(one["verified"]) for one in citations),
        "support": counts,
        "warnings": [one for one in result.get("warnings") or () if "window of" not in one],
        "run_id": result.get("run_id"),
    }


def full_name(name: str, url: str | None) -> str:
    """Return `openai:NAME@URL` for a server's model, and a name with a provider unchanged."""
    return f"openai:{name}@{url}" if url and ":" not in name else name


def _arguments() -> argparse.Namespace:
    made = parser(__doc__)
    made.add_argument("--url", help="a server that speaks OpenAI's protocol, as in http://127.0.0.1:8000/v1")
    made.add_argument("--root", nargs="+", required=True, help="models; with four, no one sees a text twice")
    made.add_argument("--child", help="the model of the product's children; default: the root")
    made.add_argument("--arm", nargs="+", choices=ARMS, default=list(ARMS))
    made.add_argument("--window", type=int, default=24_000, help="tokens of prompt and reply together")
    made.add_argument("--output", type=int, default=3_000, help="tokens of a reply")
    made.add_argument("--parallel", type=int, default=4, help="items at a time")
    made.add_argument("--work", type=Path, default=Path(tempfile.gettempdir()) / "rlm-readers")
    return made.parse_args()


async def _run_all(setup: Setup, arms: Sequence[Arm], only: Sequence[str], parallel: int) -> None:
    items = load(setup.data, setup.items)
    slots = asyncio.Semaphore(parallel)
    task = asyncio.current_task()
    assert task is not None
    asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, task.cancel)

    async def run(item: Item, arm: Arm) -> None:
        async with slots:
            print(f"{item.id} {arm}: {await run_arm(setup, items, item, arm)}", flush=True)

    await asyncio.gather(*(run(item, arm) for item in choose(items, only) for arm in arms))


def main() -> None:
    given = _arguments()
    roots = tuple(full_name(name, given.url) for name in given.root)
    child = full_name(given.child, given.url) if given.child else ""
    setup = Setup(
        *(given.data, given.items, given.results, given.work), roots, child, given.window, given.output
    )
    try:
        asyncio.run(_run_all(setup, given.arm, given.only, given.parallel))
    except (KeyboardInterrupt, asyncio.CancelledError):
        raise SystemExit("stopped: the same command resumes it") from None


if __name__ == "__main__":
    main()
