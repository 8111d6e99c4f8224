"""Replays a job of attempts: every attempt runs again from its own recording, and one is chosen again."""

from __future__ import annotations

from rlm.documents.workspace import Workspace
from rlm.journal import Journal
from rlm.results import RunResult
from rlm.runs.stored_run import StoredRun
from rlm.runtime import RLM
from rlm.tasks.attempts import resume_attempts

__all__ = ["ATTEMPTS", "replay_attempts"]

ATTEMPTS = "attempts"
"""The kind of the job."""
_ENDS = frozenset({"finished", "part_ended"})


async def replay_attempts(left: StoredRun, rlm: RLM, journal: Journal, workspace: Workspace) -> RunResult:
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
