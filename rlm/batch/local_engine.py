"""The local engine: every task a run in this process, each in a kernel of its own from one pool."""

from __future__ import annotations

import time
from contextlib import AsyncExitStack
from types import TracebackType
from typing import Self

from rlm.batch.job import BatchJob, BatchOutcome, Failure
from rlm.errors import ConfigurationError, JournalError, RLMError
from rlm.journal import Journal
from rlm.playback.recording import Recording
from rlm.prompts import PromptError
from rlm.results import RunResult, Usage
from rlm.runs.setup import make_room, open_journal
from rlm.runtime import RLM
from rlm.sandbox.errors import SandboxError, SandboxRefused
from rlm.sandbox.host.pool import KernelPool

__all__ = ["LocalEngine"]

_ROOM_SECONDS = 300.0


class LocalEngine:
    """Runs jobs with one RLM, up to `slots` of them at a time, within `async with`. Its journal is that of
    the RLM's settings.

    No kernel serves two tasks. A job whose run is in the journal goes on from there, whoever began it: the
    caller sees to it that nobody else has the job.
    """

    def __init__(self, rlm: RLM, *, slots: int) -> None:
        self.slots = slots
        self._rlm = rlm
        self._room_at = 0.0
        self._stack = AsyncExitStack()
        self._journal: Journal
        self._kernels: KernelPool

    async def run(self, job: BatchJob) -> BatchOutcome:
        """The result, or what the task can't be run for. Raises what would fail every other task as well:
        SandboxRefused, ConfigurationError, JournalError."""
        try:
            return BatchOutcome(await self._run(job))
        except (SandboxRefused, ConfigurationError, JournalError):
            raise
        except (RLMError, PromptError, SandboxError) as error:
            return BatchOutcome(
                None, Failure(type(error).__name__, str(error), await self._usage(job.run_id))
            )

    async def _usage(self, run_id: str) -> tuple[Usage, ...]:
        """What a run that failed had taken until then."""
        if not await self._journal.holds(run_id):
            return ()
        return Recording.of(await self._journal.events(run_id)).spent.usage

    async def _run(self, job: BatchJob) -> RunResult:
        await self._make_room()
        rlm = self._rlm.sharing(self._kernels, self._journal, job.limits)
        task = job.task
        sources = task.sources()
        if await self._journal.holds(job.run_id):
            return await rlm.resume(job.run_id, context=sources, take_over=True, cost_usd=job.limits.cost_usd)
        return await rlm.run(task.task, sources, schema=task.schema, run_id=job.run_id)

    async def _make_room(self) -> None:
        """Keep the journal within its size, now and then: all of it is looked through for that."""
        if time.monotonic() >= self._room_at:
            self._room_at = time.monotonic() + _ROOM_SECONDS
            await make_room(self._journal, self._rlm.settings)

    async def __aenter__(self) -> Self:
        async with AsyncExitStack() as stack:
            stack.push_async_callback(self._rlm.aclose)
            self._journal = await stack.enter_async_context(open_journal(self._rlm.settings))
            self._kernels = self._rlm.kernels(self.slots)
            stack.push_async_callback(self._kernels.close)
            self._stack = stack.pop_all()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self._stack.aclose()
