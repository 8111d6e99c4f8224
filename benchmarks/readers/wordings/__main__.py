"""Ask the questions with each wording of the root's prompt, and compare them.

    python -m benchmarks.readers.wordings run --url URL --root NAME NAME --child NAME --results DIR
    python -m benchmarks.readers.wordings report --results DIR

The two roots take turns, so that none answers one question in both wordings. A result that exists is not made
again, and an interrupted run is resumed.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import tempfile
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import mean, median
from typing import Any, get_args

import rlm
from benchmarks.readers.product import read_events
from benchmarks.readers.report import share, table
from benchmarks.readers.run import full_name
from benchmarks.readers.wordings.items import Question, is_right, load
from benchmarks.readers.wordings.texts import write_texts
from rlm import RLM, Limits, RunResult, Settings
from rlm.journal import Journal, JournalEvent
from rlm.models.base import ModelWindow
from rlm.models.options import ModelOptions
from rlm.prompts.recipes.root import Wording
from rlm.results import RESUMABLE
from rlm.settings import RootSettings

__all__ = ["Trial", "main"]

WORDINGS: tuple[Wording, ...] = get_args(Wording)
_SECONDS = 20_000
"""A reader may take minutes for a reply, so time is no limit."""


@dataclass(frozen=True, slots=True)
class Trial:
    """The models of a trial, its repetitions, and where it writes. `roots` holds one name, or two that take
    turns."""

    roots: tuple[str, ...]
    child: str
    results: Path
    work: Path
    window: ModelWindow

    def root_of(self, number: int, wording: Wording) -> str:
        """Return the model that plays the root of the question with that number."""
        return self.roots[(number + WORDINGS.index(wording)) % len(self.roots)]

    async def ask(self, number: int, question: Question, wording: Wording, repetition: int) -> str:
        """Answer a question, write its result, and return one line about it."""
        name = f"{question.id}-{wording}-{repetition}"
        file, store = self.results / f"{name}.json", self.work / f"{name}.db"
        if file.exists():
            return f"{name}: done before"
        root = self.root_of(number + repetition, wording)
        runtime = RLM(
            root,
            sub_model=self.child,
            limits=Limits(max_seconds=_SECONDS),
            settings=Settings(
                strategy="rlm",
                store=store,
                check_support=False,
                root=RootSettings(prompt=wording),
                models=ModelOptions(idle_seconds=_SECONDS, window=self.window),
            ),
        )
        texts = await asyncio.to_thread(write_texts, question.text, self.work / "texts" / name)
        began = time.monotonic()
        try:
            result = await _result(runtime, question, texts, store)
        finally:
            await runtime.aclose()
        if result.stop_reason in RESUMABLE:
            return f"{name}: {result.stop_reason}, so the same command tries it again"
        record = {
            **{"item": question.id, "wording": wording, "repetition": repetition, "root": root},
            **{"rlm": rlm.__version__, "seconds": round(time.monotonic() - began, 1)},
            **_figures(question, result, await read_events(store)),
        }
        file.parent.mkdir(parents=True, exist_ok=True)
        with file.open("x", encoding="utf-8") as stream:
            json.dump(record, stream, ensure_ascii=False, indent=1)
            stream.write("\n")
        return f"{name}: {'right' if record['right'] else 'wrong'} in {result.rounds} rounds"


async def _result(runtime: RLM, question: Question, texts: Sequence[Path], store: Path) -> RunResult:
    if await asyncio.to_thread(store.exists):
        async with Journal.open(store) as journal:
            runs = await journal.runs(limit=1)
        if runs:
            return await runtime.resume(runs[0].run_id)
    return await runtime.run(question.question, list(texts))


def _figures(question: Question, result: RunResult, events: Sequence[JournalEvent]) -> dict[str, Any]:
    """Return what a run came to. The root's tokens are apart from those of children."""
    calls = [one.data for one in events if one.kind in {"model_call", "child"} and "reply" in one.data]
    own = [one for one in calls if one["role"] == "root"]
    cells = [one.data for one in events if one.kind == "cell"]
    return {
        "answer": result.text,
        "right": is_right(question, result.text, found=result.found),
        "stop_reason": result.stop_reason,
        "rounds": result.rounds,
        "root_input_tokens": sum(one["usage"]["input_tokens"] for one in own),
        "root_output_tokens": sum(one["usage"]["output_tokens"] for one in own),
        "child_calls": len(calls) - len(own),
        "child_tokens": sum(
            one["usage"]["input_tokens"] + one["usage"]["output_tokens"]
            for one in calls
            if one["role"] != "root"
        ),
        "help_calls": sum(one["code"].count("help(") for one in cells),
        "failed_blocks": sum(one["result"]["status"] != "ok" for one in cells),
        "violations": sum(one.kind == "limit" and "violation" in one.data for one in events),
        "citations": len(result.citations),
        "verified": sum(one.verified for one in result.citations),
        "run_id": result.run_id,
    }


def report(results: Path) -> str:
    """Return two Markdown tables: of the wordings, and of the questions."""
    records = [json.loads(file.read_text("utf-8")) for file in sorted(results.glob("*.json"))]
    if not records:
        return f"No results in {results}.\n"
    by = {wording: [one for one in records if one["wording"] == wording] for wording in WORDINGS}
    rows = [(wording, *_row(own)) for wording, own in by.items() if own]
    head = (
        *(
            "wording",
            "right (95 %)",
            "rounds (mean)",
            "root input tokens (median)",
            "root output tokens (median)",
        ),
        *(
            "child calls (mean)",
            "help calls",
            "failed blocks",
            "violations",
            "citations found",
            "seconds (median)",
        ),
    )
    items = dict.fromkeys(one["item"] for one in records)
    each = [
        (item, *(_cell([one for one in by[wording] if one["item"] == item]) for wording in WORDINGS))
        for item in items
    ]
    return f"{table(head, rows)}\n{table(('right, rounds, root tokens', *WORDINGS), each)}"


def _row(own: Sequence[Mapping[str, Any]]) -> tuple[str, ...]:
    return (
        share(sum(one["right"] for one in own), len(own)),
        f"{mean(one['rounds'] for one in own):.1f}",
        f"{median(one['root_input_tokens'] for one in own):,.0f}",
        f"{median(one['root_output_tokens'] for one in own):,.0f}",
        f"{mean(one['child_calls'] for one in own):.1f}",
        *(str(sum(one[name] for one in own)) for name in ("help_calls", "failed_blocks", "violations")),
        f"{sum(one['verified'] for one in own)} of {sum(one['citations'] for one in own)}",
        f"{median(one['seconds'] for one in own):,.0f}",
    )


def _cell(own: Sequence[Mapping[str, Any]]) -> str:
    if not own:
        return "–"
    right, rounds = sum(one["right"] for one in own), mean(one["rounds"] for one in own)
    tokens = median(one["root_input_tokens"] + one["root_output_tokens"] for one in own)
    return f"{right} of {len(own)}, {rounds:.1f}, {tokens:,.0f}"


async def _run_all(trial: Trial, given: argparse.Namespace) -> None:
    slots = asyncio.Semaphore(given.parallel)

    async def run(number: int, question: Question, wording: Wording, repetition: int) -> None:
        async with slots:
            print(await trial.ask(number, question, wording, repetition), flush=True)

    numbers = {question.id: number for number, question in enumerate(load())}
    await asyncio.gather(
        *(
            run(numbers[question.id], question, wording, repetition)
            for repetition in range(given.repetitions)
            for question in load(given.only)
            for wording in given.wording
        )
    )


def _arguments() -> argparse.Namespace:
    form = argparse.RawDescriptionHelpFormatter
    made = argparse.ArgumentParser(description=__doc__, formatter_class=form)
    verbs = made.add_subparsers(dest="verb", required=True)
    run = verbs.add_parser("run", help="ask the questions")
    run.add_argument("--url", help="a server that speaks OpenAI's protocol, as in http://127.0.0.1:8000/v1")
    run.add_argument("--root", nargs="+", required=True, help="the model of the root, or two that take turns")
    run.add_argument("--child", required=True, help="the model of the children")
    run.add_argument("--wording", nargs="+", choices=WORDINGS, default=list(WORDINGS))
    run.add_argument("--only", nargs="+", default=[], help="questions by their ids")
    run.add_argument("--repetitions", type=int, default=1)
    run.add_argument("--parallel", type=int, default=4, help="questions at a time")
    run.add_argument("--window", type=int, default=64_000, help="tokens of prompt and reply together")
    run.add_argument("--output", type=int, default=4_000, help="tokens of a reply")
    run.add_argument("--work", type=Path, default=Path(tempfile.gettempdir()) / "rlm-wordings")
    verbs.add_parser("report", help="print the tables")
    for one in verbs.choices.values():
        one.add_argument("--results", type=Path, required=True, help="one file for each run")
    return made.parse_args()


def main() -> None:
    given = _arguments()
    if given.verb == "report":
        print(report(given.results), end="")
        return
    trial = Trial(
        tuple(full_name(name, given.url) for name in given.root),
        full_name(given.child, given.url),
        given.results,
        given.work,
        ModelWindow(given.window, given.output),
    )
    given.work.mkdir(parents=True, exist_ok=True)
    try:
        asyncio.run(_run_all(trial, given))
    except (KeyboardInterrupt, asyncio.CancelledError):
        raise SystemExit("stopped: the same command resumes it") from None


if __name__ == "__main__":
    main()
