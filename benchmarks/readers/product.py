"""The arm `product`: the command line, as its user runs it, with one store for each item."""

from __future__ import annotations

import asyncio
import json
import signal
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from benchmarks.readers.items import Item
from rlm.journal import Journal, JournalEvent
from rlm.results import RunResult

__all__ = ["Models", "Outcome", "answer_of", "ask_product", "read_events"]

_SECONDS = 20_000
"""A reader may take minutes for a reply, so the time limit of a run is no part of the comparison."""


@dataclass(frozen=True, slots=True)
class Models:
    """The models of one run, by their full names, and their window and output in tokens."""

    root: str
    child: str
    window: int
    output: int

    def write_config(self, file: Path) -> None:
        """Write the settings file that gives both models their windows."""
        tables = [
            f"[models.{json.dumps(name)}]\nwindow = {self.window}\noutput = {self.output}\n"
            f"input_price = 0.0\noutput_price = 0.0\n"
            for name in dict.fromkeys((self.root, self.child))
        ]
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text("\n".join(tables), "utf-8")


@dataclass(frozen=True, slots=True)
class Outcome:
    """What the command printed: its exit code, its JSON ({} if none) and the last line of stderr."""

    code: int
    result: Mapping[str, Any]
    error: str


async def ask_product(
    item: Item,
    texts: Sequence[Path],
    models: Models,
    folder: Path,
    *,
    summary_tokens: int,
    environment: Mapping[str, str] | None = None,
) -> Outcome:
    """Run the command for an item. A run of it that was interrupted is resumed, and pays for no reply twice.

    The journal is kept in `folder`. Raises no exception for a command that fails."""
    store, config = folder / f"{item.id}.db", folder / f"{item.id}.toml"
    models.write_config(config)
    started = await _last_run(store)
    options = ["--json", "--quiet", "--store", str(store)]
    given = [
        *(
            f"--model={models.root}",
            f"--sub-model={models.child}",
            "--no-document-cache",
            f"--config={config}",
        ),
        f"--max-seconds={_SECONDS}",
    ]
    paths = list(map(str, texts))
    if item.kind == "summarize":
        since = [] if started is None else ["--since", started]
        command = ["summarize", *paths, f"--tokens={summary_tokens}", *since, *given]
    elif started is not None:
        command = ["resume", started]
    else:
        command = [item.kind, *given, "--", item.question, *paths]
        command[1:1] = options
        options = []
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, "-m", "rlm", *command, *options),
        env=environment,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.PIPE,
    )
    try:
        out, err = await process.communicate()
    except asyncio.CancelledError:
        # Its store keeps what was paid, so the next run resumes it.
        process.send_signal(signal.SIGINT)
        await process.wait()
        raise
    try:
        result = json.loads(out)
    except ValueError:
        result = {}
    lines = err.decode("utf-8", "replace").strip().splitlines()
    return Outcome(process.returncode or 0, result, lines[-1] if lines else "")


def answer_of(item: Item, result: Mapping[str, Any]) -> str:
    """Return the answer as its reader sees it, "" for none."""
    if item.kind == "ask":
        return RunResult.from_json(result).text if result else ""
    return str(result.get("summary" if item.kind == "summarize" else "report") or "")


async def _last_run(store: Path) -> str | None:
    """Return the newest run in the store; None if there is none."""
    if not await asyncio.to_thread(store.exists):
        return None
    async with Journal.open(store) as journal:
        runs = await journal.runs(limit=1)
    return runs[0].run_id if runs else None


async def read_events(store: Path) -> tuple[JournalEvent, ...]:
    """Return the events of the newest run in the store, as `rlm export` writes them."""
    async with Journal.open(store) as journal:
        runs = await journal.runs(limit=1)
        return await journal.events(runs[0].run_id) if runs else ()
