"""Test that a run with a compaction is resumed from any event of its journal."""

from __future__ import annotations

import json
import shutil
import sqlite3
from collections import Counter
from pathlib import Path
from typing import Any

from rlm import RLM, RunResult, Settings
from rlm.accounting.metered_model import estimate
from rlm.events import RoundsFolded
from rlm.models.base import ModelWindow, Reply, Request, TokenUsage
from rlm.replay import replay
from rlm.settings import RootSettings
from rlm.testing import ScriptedModel

WINDOW = ModelWindow(context=12_000, output=600)
SETTINGS = Settings(strategy="rlm", root=RootSettings(output_tokens=600))
ROUNDS = 12


def usage(request: Request) -> TokenUsage:
    """Count like a provider whose tokens are smaller than estimated."""
    tokens = sum(estimate(message.content) for message in request.messages)
    return TokenUsage(input_tokens=int(tokens * 1.25), output_tokens=20)


class Provider:
    """Plays a root whose blocks contain the length of their prompt, and a summary that contains the length
    of its own. Both replies depend only on the prompt.
    """

    def __init__(self, block: Any) -> None:
        self._block = block
        self.model = ScriptedModel.of(root=self._root, summary=self._summary, window=WINDOW)

    def _root(self, request: Request) -> Reply:
        size = sum(len(message.content) for message in request.messages)
        number = request.round
        if number < ROUNDS:
            code = f"v{number} = {size}\nprint('Vendor{number} is owed {number}00 euros.', 'fill in ' * 330)"
        else:
            names = ", ".join(f"v{n}" for n in range(1, ROUNDS))
            code = f"count('one')\nfinalize([{names}, {size}])"
        return Reply(self._block(code), usage=usage(request))

    def _summary(self, request: Request) -> Reply:
        prompt = request.messages[-1].content
        notes = f"## Task Summary\n- {len(prompt)} characters [r1]\n\n## Key Decisions\n- none"
        return Reply(notes, usage=usage(request))


def journal_rows(store: Path) -> list[tuple[str, dict[str, Any]]]:
    database = sqlite3.connect(store)
    try:
        rows = database.execute("SELECT kind, data FROM events ORDER BY seq").fetchall()
    finally:
        database.close()
    return [(kind, json.loads(data)) for kind, data in rows]


def left_after(count: int, store: Path, left: Path) -> None:
    """Copy a store of one run as a kill after so many events would leave it."""
    shutil.copy(store, left)
    database = sqlite3.connect(left)
    with database:
        database.execute("DELETE FROM events WHERE seq > ?", [count])
        database.execute("UPDATE runs SET state = 'interrupted', stop_reason = NULL, finished_at = NULL")
    database.close()


def prompts_of(model: ScriptedModel) -> list[tuple[str, ...]]:
    return [(one.role, *(message.content for message in one.messages)) for one in model.requests]


async def run_undisturbed(run, block) -> tuple[RunResult, Provider]:
    provider = Provider(block)
    result = await run(provider.model, "one two three\n" * 9, settings=SETTINGS)
    assert (result.stop_reason, result.rounds) == ("finalized", ROUNDS)
    folded = [event for event in run.events if isinstance(event, RoundsFolded)]
    assert len(folded) >= 3
    assert [event.fault for event in folded] == [""] * len(folded)
    database = sqlite3.connect(run.store)
    database.execute("PRAGMA wal_checkpoint(TRUNCATE)")
    database.close()
    return result, provider


def telling(events: list[tuple[str, dict[str, Any]]]) -> list[int]:
    """Return the numbers of events after which to leave: around every summary and folding, and some
    between.
    """
    folding = {
        at
        for at, (kind, data) in enumerate(events, 1)
        if kind == "compaction" or data.get("role") == "summary"
    }
    near = {at + step for at in folding for step in (-1, 0, 1)}
    return sorted(near | set(range(1, len(events), 9)))


async def test_a_run_that_folds_its_rounds_is_resumed_from_any_event(run, block, tmp_path) -> None:
    """After a kill the prompts equal those of an undisturbed run, no journalled reply (or summary) is
    requested again, and nothing is folded twice.
    """
    result, provider = await run_undisturbed(run, block)
    events = journal_rows(run.store)
    for count in telling(events):
        left = tmp_path / f"left-{count}.db"
        left_after(count, run.store, left)
        again = Provider(block)
        rlm = RLM(again.model, settings=Settings(sandbox=run.level, store=left))
        resumed = await rlm.resume(result.run_id)
        await rlm.aclose()
        assert resumed.answer == result.answer, f"left after event {count}"
        known = sum("reply" in data for _, data in events[:count])
        assert prompts_of(again.model) == prompts_of(provider.model)[known:], f"left after event {count}"
        kinds = Counter(kind for kind, _ in journal_rows(left))
        assert kinds["compaction"] == sum(kind == "compaction" for kind, _ in events)
        assert (resumed.usage, resumed.sub_calls) == (result.usage, 0)


async def test_a_run_that_folds_its_rounds_is_replayed(run, block) -> None:
    """The result is byte-equal, and no model is called."""
    result, provider = await run_undisturbed(run, block)
    before = len(provider.model.requests)
    again = await replay(result.run_id, store=run.store, settings=Settings(sandbox=run.level))
    assert again.equal
    assert json.dumps(again.result.answer) == json.dumps(result.answer)
    assert again.result.usage == result.usage
    assert len(provider.model.requests) == before
