"""The service: it accepts runs, lets them take turns, keeps the books, and resumes what was interrupted."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import os
import shutil
import tempfile
import time
from collections.abc import AsyncIterator
from dataclasses import replace
from pathlib import Path
from typing import Any

from rlm.documents.workspace import Workspace
from rlm.errors import JournalError
from rlm.journal import Journal, new_run_id
from rlm.journal.redaction import Redaction, secrets_of
from rlm.journal.served import FileStore, KeyStore, Lease, RunStore, ServedRun
from rlm.journal.served.lease import RENEW_SECONDS
from rlm.results import RESUMABLE, RunResult
from rlm.runs.setup import make_room
from rlm.runtime import RLM
from rlm.sandbox.host.pool import KernelPool
from rlm.server.auth import Caller
from rlm.server.config import ServerConfig
from rlm.server.errors import ApiError, api_error, not_there
from rlm.server.metrics import Metrics
from rlm.server.work.live import Live
from rlm.server.work.queue import FairQueue
from rlm.server.work.request import WorkRequest
from rlm.server.work.sources import ContextReader
from rlm.server.work.tasks import perform
from rlm.viewer import RunViews

__all__ = ["Service"]

_LOG = logging.getLogger("rlm.server")
_BUDGET_SECONDS = 1.0
_PRUNE_SECONDS = 300.0
ENDED = ("finished", "failed", "cancelled", "interrupted")


class Service:
    """The runs of one server. `open_service` makes one."""

    def __init__(
        self,
        rlm: RLM,
        journal: Journal,
        kernels: KernelPool,
        config: ServerConfig,
        lease: Lease,
        workspace: Workspace,
    ) -> None:
        self.rlm = rlm
        self.journal = journal
        self.config = config
        self.keys = KeyStore(journal)
        self.files = FileStore(journal)
        self.runs = RunStore(journal)
        self.views = RunViews(journal)
        self.reader = ContextReader(config, self.files)
        self.queue = FairQueue(
            config.at_once, config.per_user, waiting=config.waiting, waiting_per_user=config.waiting_per_user
        )
        self.metrics = Metrics(lambda: self.queue.waiting, lambda: self.queue.running)
        self._redaction = Redaction()
        self._redaction.add(secrets_of(os.environ))
        self._kernels = kernels
        self._workspace = workspace
        self._lease = lease
        self._open: dict[str, Live] = {}
        self._is_stopping = False
        self._prune_at = time.monotonic() + _PRUNE_SECONDS
        self.lost = asyncio.Event()
        """Set when another process has taken the store."""

    @property
    def is_stopping(self) -> bool:
        """Whether no new runs are taken."""
        return self._is_stopping

    async def resume_open(self) -> int:
        """Resume the runs that a former process left. Return how many."""
        left = await self.runs.open_runs()
        for run in left:
            if run.face != "native" and not run.request["face"].get("background"):
                # Its client waited for the answer, and is gone. The same request resumes it.
                await self._settle(run, state="interrupted")
            else:
                self._start(run)
        return len(self._open)

    async def submit(self, caller: Caller, face: str, request: WorkRequest) -> Live:
        """Accept a run, or resume an interrupted one of the same user and request. Raises ApiError."""
        self._check_taking()
        await self._check_budget(caller)
        self.queue.check_room(caller.user)
        await self.reader.check(request.context, caller.user)
        if face != "native":
            before = await self.runs.find_interrupted(caller.user, request.digest)
            if before is not None and before.run_id not in self._open:
                return await self._reopen(before, caller, request)
        run_id = new_run_id()
        run = ServedRun(
            run_id=run_id,
            journal_id=run_id,
            user_name=caller.user,
            key_id=caller.key_id,
            face=face,
            kind=request.kind,
            state="queued",
            request=request.to_json(),
            digest=request.digest,
            outcome=None,
            created_at=time.time(),
            started_at=None,
            ended_at=None,
            reserved_usd=0.0,
            cost_usd=0.0,
        )
        await self.runs.add(run)
        return self._start(run)

    async def get(self, run_id: str, caller: Caller) -> ServedRun:
        """Return a run of the caller. Raises ApiError (404)."""
        run = await self.runs.get(run_id, caller.user)
        if run is None:
            raise not_there("run", run_id)
        return run

    def live(self, run: ServedRun) -> Live | None:
        """Return the run as it is open in this process, or None."""
        return self._open.get(run.run_id)

    async def cancel(self, run: ServedRun, *, state: str = "cancelled") -> None:
        """Cancel a run and wait for its end. One that has ended stays as it is."""
        live = self._open.get(run.run_id)
        if live is None or live.task is None or live.ended.is_set():
            return
        live.end_as = state
        live.task.cancel()
        await live.ended.wait()

    async def interrupt(self, live: Live) -> None:
        """Interrupt a run whose client has left. The same request resumes it."""
        if live.task is not None and not live.ended.is_set():
            live.end_as = "interrupted"
            live.task.cancel()
            await live.ended.wait()

    def redact(self, value: Any) -> Any:
        """Return a JSON-like value without the secrets of the environment."""
        return self._redaction.blank(value)

    @contextlib.asynccontextmanager
    async def scratch(self) -> AsyncIterator[Path]:
        """Yield a new folder for the files of a request, and remove it. Errors become ApiErrors that do not
        name folders of the server."""
        # Not a Workspace for each: entering one looks at all folders of all others.
        folder = Path(tempfile.mkdtemp(dir=self._workspace.folder))
        try:
            yield folder
        except Exception as error:
            told = api_error(error)
            told.message = self.reader.hide(told.message, folder)
            raise told from error
        finally:
            shutil.rmtree(folder, ignore_errors=True)

    async def resume(self, run: ServedRun, caller: Caller) -> Live:
        """Resume a run that was cancelled, interrupted, or whose provider failed. Raises ApiError."""
        self._check_taking()
        await self._check_budget(caller)
        self.queue.check_room(caller.user)
        stopped = (run.outcome or {}).get("stop_reason")
        if (
            run.run_id in self._open
            or (run.state not in ENDED)
            or not await self.journal.holds(run.journal_id)
        ):
            raise ApiError(409, f"run {run.run_id} can't be resumed: it is {run.state}", code="not_resumable")
        if run.state == "finished" and stopped not in RESUMABLE:
            raise ApiError(409, f"run {run.run_id} has ended ({stopped})", code="not_resumable")
        return await self._reopen(run, caller, WorkRequest.from_json(dict(run.request)))

    async def delete(self, run: ServedRun) -> None:
        """Delete what is known of a run, but for what it cost. Raises ApiError if it is open."""
        if run.run_id in self._open:
            raise ApiError(409, f"run {run.run_id} is {run.state}: cancel it first", code="not_ended")
        if await self.journal.holds(run.journal_id):
            await self.journal.remove(run.journal_id)
        await self.runs.change(run.run_id, state="deleted", request={}, outcome=None)

    async def stop(self, seconds: float) -> None:
        """Take no more runs, let the open ones finish for so many seconds, and interrupt the others. They
        resume at the next start."""
        self._is_stopping = True
        open_tasks = [live.task for live in self._open.values() if live.task is not None]
        if open_tasks and seconds > 0:
            _LOG.info("stopping; waiting up to %.0f s for %d runs", seconds, len(open_tasks))
            await asyncio.wait(open_tasks, timeout=seconds)
        for task in open_tasks:
            task.cancel()
        if open_tasks:
            await asyncio.wait(open_tasks)

    async def watch_store(self) -> None:
        """Renew the lease, and keep the store within its size."""
        while True:
            await asyncio.sleep(RENEW_SECONDS)
            try:
                if not await self._lease.renew():
                    _LOG.error("another process has taken the store; stopping")
                    self.lost.set()
                    return
                if time.monotonic() >= self._prune_at:
                    self._prune_at = time.monotonic() + _PRUNE_SECONDS
                    await make_room(self.journal, self.rlm.settings)
            except JournalError as error:
                _LOG.warning("the lease was not renewed: %s", error)

    def _check_taking(self) -> None:
        if self._is_stopping:
            raise ApiError(
                503, "the server is stopping; try again later", kind="server_error", code="stopping",
                headers={"retry-after": "10"},
            )  # fmt: skip

    async def _check_budget(self, caller: Caller) -> None:
        left = await self.runs.left(caller.user, caller.key)
        if left is not None and left <= 0:
            raise _over_budget()

    async def _reopen(self, run: ServedRun, caller: Caller, request: WorkRequest) -> Live:
        run = replace(run, state="queued", key_id=caller.key_id, request=request.to_json(), ended_at=None)
        await self.runs.change(
            run.run_id, state="queued", key_id=run.key_id, request=run.request, outcome=None, ended_at=None,
            cost_usd=0.0,
        )  # fmt: skip
        return self._start(run)

    def _start(self, run: ServedRun) -> Live:
        live = Live(run.run_id, run.user_name)
        self._open[run.run_id] = live
        self.queue.admit(run.user_name)
        live.task = asyncio.create_task(self._work(run, live), name=f"run {run.run_id}")
        return live

    async def _work(self, run: ServedRun, live: Live) -> None:
        """Take a turn, run, and keep the books. The boundary of the run: no error leaves it."""
        began: float | None = None
        try:
            try:
                async with self._turn(run) as granted:
                    began = time.monotonic()
                    live.result, outcome = await self._run(run, live, granted)
                state = "finished"
            except asyncio.CancelledError:
                state, outcome = live.end_as, None
            except Exception as error:
                live.error = api_error(error)
                state, outcome = "failed", live.error.to_json()
            await self._settle(run, state=state, outcome=outcome, result=live.result)
            seconds = None if began is None else time.monotonic() - began
            self.metrics.on_run(run.face, run.kind, state, seconds)
            if live.result is not None:
                self.metrics.on_usage(live.result)
        except Exception as error:
            live.error = api_error(error)
        finally:
            self.queue.leave(run.user_name)
            self._open.pop(run.run_id, None)
            live.end()

    @contextlib.asynccontextmanager
    async def _turn(self, run: ServedRun) -> AsyncIterator[float]:
        """Wait for a turn and for a part of the budget. Yield what the run may cost."""
        request = WorkRequest.from_json(dict(run.request))
        wanted = request.limits.under(self.rlm.limits).max_cost
        while True:
            async with self.queue.turn(run.user_name):
                key = await self.keys.get(run.key_id) if run.key_id else None
                granted = await self.runs.reserve(run.run_id, key, run.user_name, wanted)
                if granted > 0 or wanted == 0:
                    await self.runs.change(run.run_id, state="running", started_at=time.time())
                    yield granted
                    return
                # What other runs have reserved may come back, so only what is spent decides.
                left = await self.runs.left(run.user_name, key)
                if left is not None and left <= 0:
                    raise _over_budget()
            # Other runs of the user have reserved what is left, and may not need it all.
            await asyncio.sleep(_BUDGET_SECONDS)

    async def _run(self, run: ServedRun, live: Live, granted: float) -> tuple[RunResult, dict[str, Any]]:
        request = WorkRequest.from_json(dict(run.request))
        journal_id = run.journal_id
        if run.kind == "summary" and await self.journal.holds(journal_id):
            # A summary is not resumed but made again, with the replies of the former one.
            await self.journal.release(journal_id)
            request = replace(request, face={**request.face, "since": journal_id})
            journal_id = new_run_id()
            await self.runs.change(run.run_id, journal_id=journal_id)
        limits = replace(request.limits.under(self.rlm.limits), max_cost=granted)
        rlm = self.rlm.sharing(self._kernels, self.journal, limits, run_id=journal_id, observe=[live.tell])
        async with self.scratch() as folder:
            sources = await self.reader.sources(request.context, run.user_name, folder)
            return await perform(rlm, self.journal, request, sources, journal_id)

    async def _settle(
        self,
        run: ServedRun,
        *,
        state: str,
        outcome: dict[str, Any] | None = None,
        result: RunResult | None = None,
    ) -> None:
        """Record how a run ended, and what it cost."""
        if state == "queued":
            await self.runs.change(run.run_id, state=state, reserved_usd=0.0)
            return
        present = await self.runs.get(run.run_id, run.user_name)
        journal_id = run.journal_id if present is None else present.journal_id
        cost = 0.0
        if result is not None:
            cost = sum(usage.cost_usd or 0.0 for usage in result.usage)
        elif await self.journal.holds(journal_id):
            cost = (await self.journal.get(journal_id)).totals.cost_usd or 0.0
        request = WorkRequest.from_json(dict(run.request))
        await self.runs.change(
            run.run_id,
            state=state,
            outcome=outcome,
            ended_at=time.time(),
            reserved_usd=0.0,
            cost_usd=cost,
            # What may be resumed needs its texts.
            **(
                {"request": request.without_texts()}
                if state in ("finished", "failed") and not request.face.get("keeps_texts")
                else {}
            ),
        )


def _over_budget() -> ApiError:
    return ApiError(
        429,
        "the budget of this API key is spent; wait until the next day or month, or ask the operator",
        kind="insufficient_quota",
        code="insufficient_quota",
        headers={"x-should-retry": "false"},
    )
