"""A run gone through again, offline: its cells in a new kernel, every reply from its journal."""

from __future__ import annotations

import json
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from rlm.documents.workspace import Workspace
from rlm.errors import UsageError
from rlm.events import Observer
from rlm.results import RunResult
from rlm.runs.stored_run import StoredRun
from rlm.runtime import RLM
from rlm.sessions.previous_questions import before
from rlm.settings import Settings

__all__ = ["Replayed", "replay"]


@dataclass(frozen=True, slots=True)
class Replayed:
    """What a run came to, then and now. `equal`: its answer is the same, byte by byte of its JSON."""

    recorded: RunResult
    result: RunResult

    @property
    def equal(self) -> bool:
        return _bytes(self.recorded.answer) == _bytes(self.result.answer)


async def replay(
    run: str,
    *,
    store: str | Path,
    settings: Settings | None = None,
    observe: Observer | None = None,
) -> Replayed:
    """Go through the run that is named so, or whose name starts so, without any model: what it asks and the
    journal has no reply to is refused. Nothing is written to `store`. `settings` may say how the kernel is
    held. Raises JournalError, and UsageError when the run has not ended or its input is not to be had."""
    from rlm.journal import Journal

    with Workspace() as workspace:
        async with Journal.open(store) as journal:
            left = await StoredRun.read(journal, run)
            if left.result is None:
                raise UsageError(f"run {left.run_id} has not ended: go on with it first (rlm resume)")
            earlier = await before(journal, left)
            loaded = await left.load(journal, workspace)
        root, child, summary = left.replay_only_models()
        rlm = RLM(root, sub_model=child, summary_model=summary, settings=settings, observe=observe or ())
        rlm = rlm.as_of(left)
        async with (
            Journal.open(workspace.folder / "replay.db") as own,
            own.run(left.run_id, left.task, left.facts) as log,
        ):
            # The kernel may die on the way: what is gone through again is read from the log.
            for event in left.events[1:]:
                if event.kind != "finished":
                    await log.append(event.kind, event.data)
            result = await rlm.replay_run(left, loaded, log, workspace, own, earlier)
    if result.stop_reason == "model" and left.result.answer is None:
        # The rounds ended where they had ended; there was nobody to say why.
        result = replace(result, stop_reason=left.result.stop_reason)
    return Replayed(left.result, result)


def _bytes(answer: Any) -> bytes:
    return json.dumps(answer, sort_keys=True).encode()
