"""Replays a run offline: its cells run in a new kernel, every reply comes from its journal."""

from __future__ import annotations

import json
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from rlm.errors import UsageError
from rlm.events import Observer
from rlm.journal import Journal
from rlm.results import RunResult
from rlm.runs.stored_run import StoredRun
from rlm.runtime import RLM
from rlm.settings import Limits, Settings
from rlm.tasks.attempts import resume_attempts

__all__ = ["Replayed", "read_replayable", "replay"]

_ATTEMPTS = "attempts"
"""The kind of the job."""


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
    settings = replace(settings or Settings(), store=store)
    async with Journal.open(store) as journal:
        left = await read_replayable(journal, run)
        if left.result is None:
            raise UsageError(f"run {left.run_id} has not ended. Resume it first (rlm resume)")
        root, children, summary = left.replay_only_models()
        rlm = RLM(root, sub_models=children, summary_model=summary, settings=settings, observe=observe or ())
        rlm = rlm.as_of(left)
        # The code may be a stranger's.
        seconds = min(rlm.limits.cell_seconds, (limits or Limits()).cell_seconds)
        rlm.limits = replace(rlm.limits, cell_seconds=seconds)
        if left.facts.get("job") == _ATTEMPTS:
            return Replayed(left, left.result, await resume_attempts(rlm, left.run_id, is_replay=True))
        result = await rlm.replay(left, journal)
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
