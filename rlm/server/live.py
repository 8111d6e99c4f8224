"""The runs of this process: they wait for a turn, run, and are watched. Their steps are in the journal."""

from __future__ import annotations

import asyncio
import logging
import os
import time
from collections import deque
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import contextmanager
from dataclasses import asdict, replace
from typing import Any, Literal

from pydantic import BaseModel, ConfigDict, Field

from rlm.documents import Source
from rlm.errors import JournalError
from rlm.events import Event
from rlm.journal import Journal, new_run_id
from rlm.journal.redaction import Redaction, secrets_of
from rlm.limits import Limits
from rlm.results import RESUMABLE, RunResult
from rlm.runs.opening import make_room
from rlm.runtime import RLM
from rlm.sandbox.host.pool import KernelPool
from rlm.server.config import ServerConfig
from rlm.server.contexts import ContextReader, Part
from rlm.server.errors import ApiError, api_error, not_there, overloaded
from rlm.server.files import FileStore
from rlm.status import RunStatus, StatusReader
from rlm.tasks import ask

__all__ = ["Channel", "LiveRun", "RequestLimits", "Runs", "State"]

_LOG = logging.getLogger("rlm.server")
_SUFFIX = "-http"
"""Ends the names of the runs that were started here. Other runs of the store are not shown."""
_MOST_EVENTS = 500
_REMEMBERED = 200
_PRUNE_SECONDS = 300.0
State = Literal["queued", "running", "finished", "failed", "cancelled", "interrupted"]


class RequestLimits(BaseModel):
    """Limits of a run, named like the options of the command line. They only lower those of the server."""

    model_config = ConfigDict(extra="forbid")

    max_cost: float | None = Field(default=None, ge=0, le=1e6)
    max_rounds: int | None = Field(default=None, ge=1, le=10_000)
    max_calls: int | None = Field(default=None, ge=0, le=1_000_000)
    max_seconds: float | None = Field(default=None, gt=0, le=1e7)
    max_depth: int | None = Field(default=None, ge=0, le=100)

    def under(self, limits: Limits) -> Limits:
        """Return `limits`, lowered."""
        asked = self.model_dump(exclude_none=True)
        return replace(limits, **{name: min(value, getattr(limits, name)) for name, value in asked.items()})


class Channel:
    """The events for one watcher. A slow watcher loses the oldest ones: they only say what a run does now,
    and its steps are in the journal."""

    def __init__(self) -> None:
        self._events: deque[Event] = deque(maxlen=_MOST_EVENTS)
        self._changed = asyncio.Event()
        self._is_closed = False

    def put(self, event: Event) -> None:
        """Add an event."""
        self._events.append(event)
        self._changed.set()

    def close(self) -> None:
        """End the iteration after the events that are there."""
        self._is_closed = True
        self._changed.set()

    async def wait(self, seconds: float) -> tuple[list[Event], bool]:
        """Return the events that came, after at most so many seconds, and whether there will be more."""
        if not self._events and not self._is_closed:
            try:
                await asyncio.wait_for(self._changed.wait(), seconds)
            except TimeoutError:
                return [], True
        self._changed.clear()
        found = list(self._events)
        self._events.clear()
        return found, not self._is_closed

    async def __aiter__(self) -> AsyncIterator[Event]:
        is_open = True
        while is_open:
            events, is_open = await self.wait(3_600.0)
            for event in events:
                yield event


class LiveRun:
    """A run of this process. `result` or `error` is there once it has `ended`; an interrupted one has
    neither."""

    def __init__(self, run_id: str, task: str, size: int) -> None:
        self.run_id = run_id
        self.task = task
        self.size = size
        self.state: State = "queued"
        self.end_as: State = "interrupted"
        """The state of the run if its work is cancelled."""
        self.created_at = time.time()
        self.status = RunStatus(run_id)
        self.result: RunResult | None = None
        self.error: ApiError | None = None
        self.ended = asyncio.Event()
        self.work: asyncio.Task[None] | None = None
        self._channels: set[Channel] = set()

    def publish(self, event: Event) -> None:
        """Pass an event to those who watch. An observer."""
        self.status.on_event(event)
        for channel in self._channels:
            channel.put(event)

    def end(self) -> None:
        """Mark the run as ended."""
        self.ended.set()
        for channel in self._channels:
            channel.close()

    @contextmanager
    def watch(self) -> Iterator[Channel]:
        """Return the events from now on."""
        channel = Channel()
        self._channels.add(channel)
        if self.ended.is_set():
            channel.close()
        try:
            yield channel
        finally:
            self._channels.discard(channel)

    async def outcome(self) -> RunResult:
        """Wait for the end and return the result. Raises ApiError."""
        await self.ended.wait()
        if self.error is not None:
            raise self.error
        if self.result is None:
            raise ApiError(
                503, f"run {self.run_id} was {self.state}: POST /v1/runs/{self.run_id}/resume continues it",
                kind="server_error", code="interrupted", headers={"x-should-retry": "false"},
            )  # fmt: skip
        return self.result


class Runs:
    """The runs of one server. `serving.open_runs` makes one."""

    def __init__(self, rlm: RLM, journal: Journal, kernels: KernelPool, config: ServerConfig) -> None:
        self.journal = journal
        self.config = config
        self.files = FileStore(config.files, config.files_mb << 20)
        self.statuses = StatusReader(journal)
        self._rlm = rlm
        self._reader = ContextReader(config, self.files)
        self._kernels = kernels
        self._turns = asyncio.Semaphore(config.at_once)
        self.redaction = Redaction()
        self.redaction.add(secrets_of(os.environ))
        self._runs: dict[str, LiveRun] = {}
        """The runs that have not ended, and the newest ones that have."""
        self._open = 0
        self._held = 0
        """The characters of the texts of all open runs."""
        self.is_stopping = False

    @property
    def open(self) -> int:
        """The runs that run or wait."""
        return self._open

    async def submit(
        self,
        task: str,
        context: tuple[Part, ...] | None,
        schema: Any = None,
        limits: RequestLimits | None = None,
    ) -> LiveRun:
        """Accept a question. Raises ApiError."""
        size = sum(len(part.get("text") or part.get("data") or "") for part in context or ())
        run = self._accept(f"{new_run_id()}{_SUFFIX}", task, size)
        try:
            sources = await self._reader.sources(context)
            self._check_open()  # it may have been stopped meanwhile
        except BaseException:
            self._forget(run)
            raise
        lowered = (limits or RequestLimits()).under(self._rlm.limits)
        return self._start(run, lambda rlm: _ask(rlm, task, sources, schema), lowered)

    async def resume(self, run_id: str) -> LiveRun:
        """Resume a run that was cancelled or interrupted, or whose provider failed. Raises ApiError."""
        before = self._runs.get(run_id)
        if not self._is_ours(run_id) or not await self.journal.holds(run_id):
            if before is None:
                raise not_there("run", run_id[:80])
            raise ApiError(409, f"run {run_id} cannot be resumed: it is {before.state}", code="not_resumable")
        summary = await self.journal.get(run_id)
        # Another request may have resumed it while the journal was read.
        live = self._runs.get(run_id)
        if (live is not None and not live.ended.is_set()) or summary.state == "running":
            raise ApiError(409, f"run {run_id} is running", code="not_resumable")
        if summary.state == "finished" and summary.stop_reason not in RESUMABLE:
            raise ApiError(409, f"run {run_id} has ended ({summary.stop_reason})", code="not_resumable")
        run = self._accept(run_id, summary.task, 0)
        return self._start(run, lambda rlm: rlm.resume(run_id), self._rlm.limits)

    def live(self, run_id: str) -> LiveRun | None:
        """Return a run of this process, if it is known: one that has ended may be forgotten."""
        return self._runs.get(run_id)

    async def holds(self, run_id: str) -> bool:
        """Return whether the journal holds a run that was started here, by this process or an earlier one."""
        return self._is_ours(run_id) and await self.journal.holds(run_id)

    async def stop_run(self, run: LiveRun, state: State) -> None:
        """End a run as cancelled or interrupted. One that has ended stays as it is."""
        if run.work is None or run.ended.is_set():
            return
        run.end_as = state
        run.work.cancel()
        await run.ended.wait()

    async def stop(self, seconds: float) -> None:
        """Take no more runs, let the open ones finish for so many seconds, and interrupt the others."""
        self.is_stopping = True
        work = [run.work for run in self._runs.values() if run.work is not None and not run.ended.is_set()]
        if work and seconds > 0:
            await asyncio.wait(work, timeout=seconds)
        for task in work:
            task.cancel()
        if work:
            await asyncio.wait(work)

    async def keep_store_small(self) -> None:
        """Keep the store within its size, as long as the server runs."""
        while True:
            await asyncio.sleep(_PRUNE_SECONDS)
            try:
                await make_room(self.journal, self._rlm.settings)
            except JournalError as error:
                _LOG.warning("the store was not made smaller: %s", error)

    def as_progress(self, event: Event) -> dict[str, Any]:
        """Return an event as `--trace` writes it, without the secrets of the environment."""
        described: dict[str, Any] = self.redaction.blank({"event": type(event).__name__, **asdict(event)})
        return described

    def _check_open(self) -> None:
        if self.is_stopping:
            raise ApiError(
                503, "the server is stopping; try again later", kind="server_error", code="stopping",
                headers={"retry-after": "10"},
            )  # fmt: skip

    def _accept(self, run_id: str, task: str, size: int) -> LiveRun:
        """Count a run, so that requests that come meanwhile see it. Raises ApiError."""
        self._check_open()
        if self._open >= self.config.at_once + self.config.waiting:
            raise overloaded(f"{self.config.waiting:,} runs wait for their turn: try again later")
        if self._held + size > self.config.held_mb << 20:
            raise overloaded("the runs that wait hold too much text: try again, or upload it (/v1/files)")
        self._open += 1
        self._held += size
        run = LiveRun(run_id, task, size)
        self._runs.pop(run_id, None)
        self._runs[run_id] = run
        return run

    def _forget(self, run: LiveRun) -> None:
        self._open -= 1
        self._held -= run.size
        del self._runs[run.run_id]

    def _start(self, run: LiveRun, work: Callable[[RLM], Awaitable[RunResult]], limits: Limits) -> LiveRun:
        run.work = asyncio.create_task(self._work(run, work, limits), name=f"run {run.run_id}")
        # Not at the end of the task: one that is cancelled before it begins never gets there.
        run.work.add_done_callback(lambda _: self._end(run))
        return run

    async def _work(self, run: LiveRun, work: Callable[[RLM], Awaitable[RunResult]], limits: Limits) -> None:
        """Wait for a turn and run. The boundary of the run: no error leaves it."""
        try:
            async with self._turns:
                run.state = "running"
                rlm = self._rlm.sharing(
                    self._kernels, self.journal, limits, run_id=run.run_id, observe=[run.publish]
                )
                run.result = await work(rlm)
            run.state = "finished"
        except Exception as error:
            run.error = api_error(error)
            run.error.message = self._reader.hide(run.error.message)
            run.state = "failed"

    def _end(self, run: LiveRun) -> None:
        if run.state in ("queued", "running"):
            run.state = run.end_as
        self._open -= 1
        self._held -= run.size
        run.end()
        ended = [name for name, one in self._runs.items() if one.ended.is_set()]
        for name in ended[:-_REMEMBERED]:
            del self._runs[name]

    @staticmethod
    def _is_ours(run_id: str) -> bool:
        return run_id.endswith(_SUFFIX)


async def _ask(rlm: RLM, task: str, sources: list[Source] | None, schema: Any) -> RunResult:
    return (await ask(rlm, task, sources, schema=schema)).result
