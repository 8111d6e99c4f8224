"""Replays a run offline: its cells run in a new kernel, every reply comes from its journal."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

from rlm.documents.workspace import Workspace
from rlm.errors import UsageError
from rlm.events import Observer
from rlm.journal import Journal
from rlm.lazy_dataclass import dataclass
from rlm.results import RunResult
from rlm.runs.setup import cache_of
from rlm.runs.stored_run import StoredRun
from rlm.runtime import RLM
from rlm.sessions.previous_questions import read_earlier_runs
from rlm.settings import Limits, Settings
from rlm.tasks.attempts import resume_attempts

__all__ = ["Replayed", "read_replayable", "replay"]

_ATTEMPTS = "attempts"
"""The kind of the job."""
_ENDS = frozenset({"finished", "part_ended"})


@dataclass(frozen=True, slots=True)
class Replayed:
    """The recorded result of a run and the result of its replay. `stored` is the run as the journal holds
    it."""

    stored: StoredRun
    recorded: RunResult
    result: RunResult

    @property
    def equal(self) -> bool:
        """Whether both answers are the same, byte by byte of their JSON."""
        return _bytes(self.recorded.answer) == _bytes(self.result.answer)


async def replay(
    run: str,
    *,
    store: str | Path,
    settings: Settings | None = None,
    limits: Limits | None = None,
    observe: Observer | None = None,
) -> Replayed:
    """Replay the run whose name is or starts with `run`, without any model.

    A call that the journal holds no reply to is refused. Nothing is written to `store`. `settings` may set
    the kernel's isolation. Its kernels get no more than `settings` and the run allow, and its cells no more
    seconds than `limits` (default: 120) and the run. Raises JournalError, and UsageError when the run has not
    ended or its input is no longer available."""
    with Workspace() as workspace:
        async with Journal.open(store) as journal:
            left = await read_replayable(journal, run)
            if left.result is None:
                raise UsageError(f"run {left.run_id} has not ended. Resume it first (rlm resume)")
            root, children, summary = left.replay_only_models()
            rlm = RLM(
                root, sub_models=children, summary_model=summary, settings=settings, observe=observe or ()
            )
            rlm = rlm.as_of(left)
            # The code may be a stranger's.
            seconds = min(rlm.limits.cell_seconds, (limits or Limits()).cell_seconds)
            rlm.limits = replace(rlm.limits, cell_seconds=seconds)
            if left.facts.get("job") == _ATTEMPTS:
                result = await _replay_attempts(left, rlm, journal, workspace)
                return Replayed(left, left.result, result)
            earlier = await read_earlier_runs(journal, left)
            loaded = await left.load(journal, workspace, cache=cache_of(settings or Settings()))
        async with (
            Journal.open(workspace.folder / "replay.db") as own,
            own.run(left.run_id, left.task, left.facts) as log,
        ):
            # A kernel that dies during the replay is rebuilt from the log, so the log needs every event.
            for event in left.events[1:]:
                if event.kind != "finished":
                    await log.append(event.kind, event.data)
            result = await rlm.replay_run(left, loaded, log, workspace, earlier)
    if result.stop_reason == "model" and left.result.answer is None:
        # The rounds ended where the recording ended, but no model was there to give the reason.
        result = replace(result, stop_reason=left.result.stop_reason)
    return Replayed(left, left.result, result)


async def read_replayable(journal: Journal, run: str) -> StoredRun:
    """Read a run of one question, or a job of attempts, to replay it. Raises JournalError."""
    name = await journal.resolve(run)
    kind = (await journal.get(name)).settings.get("job")
    return await StoredRun.read(journal, name, job=kind if kind == _ATTEMPTS else None)


def _bytes(answer: Any) -> bytes:
    return json.dumps(answer, sort_keys=True).encode()


async def _replay_attempts(left: StoredRun, rlm: RLM, journal: Journal, workspace: Workspace) -> RunResult:
    """Return the result of the replay. `rlm` has models that refuse; `journal` is read only. Raises
    UsageError when the input is no longer available."""
    # The job is resumed in a journal of its own, which has all of it but the ends: so each attempt is run
    # again, takes every reply from its recording, and its result is made anew.
    loaded = await left.load(journal, workspace)
    async with Journal.open(workspace.folder / "replay.db") as own:
        async with own.run(left.run_id, left.task, left.facts, input=loaded.context.folder) as log:
            for event in left.events[1:]:
                if event.kind not in _ENDS:
                    await log.append(event.kind, event.data)
        kernels = rlm.kernels(1)
        try:
            return await resume_attempts(rlm.sharing(kernels, own, rlm.limits), left.run_id)
        finally:
            await kernels.close()
