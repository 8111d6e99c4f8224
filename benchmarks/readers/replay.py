"""Replay the product's runs from their artifacts, without a model.

    python -m benchmarks.readers.replay --data DIR [--only ID…]

The texts are read from the data folder, the code runs again in a new kernel, and each reply comes from the
slim journal. The answer must be that of the artifact. Baselines are replayed by their prompts: each must have
the recorded hash.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from benchmarks.readers import baselines, journal
from benchmarks.readers.items import ARMS, Arm, Item, choose, load, parser, selection, write_texts
from benchmarks.readers.product import Models, answer_of, ask_product
from rlm.models.base import ModelWindow, Reply, Request

__all__ = ["main", "replay_baseline", "replay_product"]


class _Recorded:
    """Implements Model with recorded replies, in order."""

    def __init__(self, replies: Sequence[dict[str, Any]], window: ModelWindow) -> None:
        self._replies = list(replies)
        self.name, self.window = "recorded", window

    async def generate(self, request: Request) -> Reply:
        return Reply(self._replies.pop(0)["reply"])

    async def aclose(self) -> None:
        """Do nothing: there is nothing to close."""


def _offline() -> dict[str, str]:
    """Return an environment whose models have no key and no server."""
    found = {name: value for name, value in os.environ.items() if not name.endswith(("_KEY", "_KEY_HOST"))}
    for provider in ("OPENAI", "ANTHROPIC"):
        found |= {f"{provider}_API_KEY": "replay", f"{provider}_BASE_URL": "http://127.0.0.1:9"}
    return found


async def replay_product(
    item: Item, texts: Sequence[Path], results: Path, folder: Path, summary_tokens: int
) -> str:
    """Return "same", or how the replay differs from the artifact."""
    file = results / "product" / f"{item.id}.json"
    record = json.loads(file.read_text("utf-8"))
    events = journal.read(file.with_suffix(".journal.xz"))
    store = folder / f"{item.id}.db"
    # Without its end the run looks interrupted. To resume it asks for nothing that the journal holds, and a
    # call that it does not hold fails: the models' server is not there.
    await journal.rebuild(events, store, item.question, texts, ended=False)
    models = Models(*(record[key] for key in ("root", "child", "window", "output")))
    outcome = await ask_product(
        item, texts, models, folder, summary_tokens=summary_tokens, environment=_offline()
    )
    answer = answer_of(item, outcome.result)
    if answer == record["answer"]:
        return "same"
    return f"differs (exit {outcome.code}): {(answer or outcome.error)[:200]!r}"


async def replay_baseline(arm: Arm, item: Item, texts: Sequence[Path], results: Path) -> str:
    """Return "same", or how the replay differs from the artifact."""
    record = json.loads((results / arm / f"{item.id}.json").read_text("utf-8"))
    window = ModelWindow(record["window"], record["output"])
    calls = baselines.Calls(_Recorded(record["replies"], window), window.context, window.output)
    try:
        answer = await baselines.answer(arm, item, texts, calls)
    except baselines.Skipped as reason:
        return "same" if record["status"] == f"skipped: {reason}" else f"differs: skipped, {reason}"
    hashes = [one["prompt_sha256"] for one in record["replies"]]
    if hashes != [one["prompt_sha256"] for one in calls.replies]:
        return "differs: another prompt"
    return "same" if answer == record["answer"] else "differs: another answer"


async def _replay_all(given: argparse.Namespace) -> bool:
    data, results, same = given.data, given.results, True
    tokens = selection(given.items)["summary_tokens"]
    with tempfile.TemporaryDirectory(prefix="rlm-readers-") as name:
        folder = Path(name)
        for item in choose(load(data, given.items), given.only):
            for arm in ARMS:
                if not (results / arm / f"{item.id}.json").exists():
                    continue
                texts = write_texts(item, data, folder / "texts")
                if arm == "product":
                    found = await replay_product(item, texts, results, folder / "stores", tokens)
                else:
                    found = await replay_baseline(arm, item, texts, results)
                same = same and found == "same"
                print(f"{item.id} {arm}: {found}", flush=True)
    return same


def main() -> None:
    given = parser(__doc__).parse_args()
    raise SystemExit(not asyncio.run(_replay_all(given)))


if __name__ == "__main__":
    main()
