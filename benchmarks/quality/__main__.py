"""Add peers to a bench of `task.py`: the same questions, texts and model, scored by the same rules.

    python -m benchmarks.quality --out bench-records --peer rlms --peer dspy --unconfined [--data PATH]

A peer runs model-written code in its own process without isolation, so `--unconfined` is required. It gets
the question and the texts alone, and of the environment the one key of the model's provider. A result that
exists is not made again, unless the peer failed without an answer. A peer that cannot be installed is skipped
by name.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from benchmarks.quality.bench import BenchFolder, Item, Row, find_suite, load_items, report_of, score
from benchmarks.quality.environments import PEERS, make_environment
from rlm.models.base import TokenUsage
from rlm.models.catalog.info import price
from rlm.models.catalog.names import parse_name
from rlm.models.registry import PROVIDERS

__all__ = ["add_peer", "key_of", "main", "order_of"]

_SECONDS = 3_600
_SPEAKING = frozenset(
    [
        "openai",
        "gemini",
        "openrouter",
        "mistral",
        "deepseek",
        "groq",
        "together",
        "ollama",
        "vllm",
        "llamacpp",
        "lmstudio",
    ]
)
"""Providers that speak Chat Completions, which is what the peers are told to speak."""


def order_of(item: Item, facts: Mapping[str, Any]) -> dict[str, Any]:
    """Return what a peer is told: nothing but the question, the texts, the model and the limits."""
    name = parse_name(facts["model"])
    url = name.base_url or PROVIDERS[name.provider].base_url
    return {
        "question": item.question,
        "texts": list(item.texts),
        "model": name.model,
        "url": url if name.base_url or name.provider != "ollama" else f"{url}/v1",
        "rounds": facts["limits"]["rounds"],
        "depth": 1,
    }


def add_peer(folder: BenchFolder, peer: str, python: Path, items: Sequence[Item], key: str) -> int:
    """Run a peer on the items of which it has no result, or a failure. Return the number of new results."""
    count = 0
    for item in items:
        before = folder.rows.get((item.id, peer, 1))
        if (before is not None and before.status != "error") or item.rule == "model":
            continue
        row = _answered(Row(item.id, peer, 1, "error"), peer, python, order_of(item, folder.facts), key)
        cost = price(folder.facts["model"], TokenUsage(row.input_tokens, row.output_tokens))
        points = score(item.rule, row.said, item.golds) if row.said else 0.0
        folder.append(replace(row, cost_usd=cost, score=points))
        count += 1
    return count


def _answered(row: Row, peer: str, python: Path, order: Mapping[str, Any], key: str) -> Row:
    began = time.monotonic()
    with tempfile.TemporaryDirectory() as scratch:
        file = Path(scratch) / "order.json"
        file.write_text(json.dumps(order), "utf-8")
        environment = {"PATH": os.environ.get("PATH", ""), "HOME": scratch, "PEER_KEY": key}
        try:
            done = subprocess.run(
                [python, PEERS[peer].program, file],
                capture_output=True,
                env=environment,
                cwd=scratch,
                timeout=_SECONDS,
                check=False,
            )
        except subprocess.TimeoutExpired:
            return replace(row, detail=f"no answer after {_SECONDS:,} s", seconds=float(_SECONDS))
    seconds = round(time.monotonic() - began, 3)
    lines = done.stdout.decode("utf-8", "replace").splitlines()
    try:
        found = json.loads(lines[-1])
        said, counts = str(found["answer"]), [int(found[f"{kind}_tokens"]) for kind in ("input", "output")]
        calls = int(found["calls"])
    except (IndexError, ValueError, KeyError, TypeError):
        last = done.stderr.decode("utf-8", "replace").strip().splitlines()[-1:] or ["no output"]
        detail = last[0].replace(key, "[key]") if key else last[0]
        return replace(row, detail=detail[:500], seconds=seconds)
    status = "answered" if said.strip() else "no answer"
    figures = {"input_tokens": counts[0], "output_tokens": counts[1], "calls": calls, "seconds": seconds}
    return replace(row, status=status, said=said.replace(key, "[key]") if key else said, **figures)


def key_of(model: str) -> str:
    """Return the key for the model's own provider, "" for any other server: no key leaves for a URL."""
    name = parse_name(model)
    if name.base_url is not None:
        return ""
    variables = PROVIDERS[name.provider].key_variables
    return next((os.environ[one] for one in variables if os.environ.get(one)), "")


def main() -> None:
    made = argparse.ArgumentParser(prog="python -m benchmarks.quality")
    made.add_argument("--out", type=Path, required=True, help="the folder of the bench")
    made.add_argument("--peer", action="append", choices=list(PEERS), required=True)
    made.add_argument("--data", type=Path, help="the data of a suite of others")
    made.add_argument("--environments", type=Path, default=Path(tempfile.gettempdir()) / "rlm-quality-peers")
    made.add_argument("--unconfined", action="store_true", help="let peers run model-written code here")
    given = made.parse_args()
    if not given.unconfined:
        made.error(
            "peers run model-written code without isolation: add --unconfined, in a machine of its own"
        )
    facts = {name: value for name, value in BenchFolder.read(given.out).facts.items() if name != "items"}
    if parse_name(facts["model"]).provider not in _SPEAKING:
        made.error(f"the peers speak Chat Completions only, not as {facts['model']} does")
    limit = len(BenchFolder.read(given.out).facts["items"])
    suite, chars = find_suite(facts["suite"]), facts["chars"] or 0
    items = load_items(suite, limit=limit, seed=facts["seed"], chars=chars, data=given.data)
    with BenchFolder.open(given.out, facts, items) as folder:
        for peer in given.peer:
            try:
                python = make_environment(peer, given.environments)
            except (subprocess.CalledProcessError, OSError) as error:
                print(f"{peer} is skipped: {PEERS[peer].requirement} cannot be installed ({error})")
                continue
            print(f"{peer}: {add_peer(folder, peer, python, items, key_of(facts['model'])):,} new results")
            for row in folder.rows.values():
                if row.arm == peer and row.status == "error":
                    print(f"{peer} failed on {row.item}, and is asked again by the next start: {row.detail}")
        report = report_of(folder)
        (folder.path / "report.json").write_text(json.dumps(report.to_json(), indent=1) + "\n", "utf-8")
        (folder.path / "report.md").write_text(report.markdown(), "utf-8")
    print(report.text())


if __name__ == "__main__":
    sys.exit(main())
