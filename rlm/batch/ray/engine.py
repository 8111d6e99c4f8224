"""The Ray engine: runs jobs on the nodes of a cluster, and resends a job whose node is lost.

A lost job loses no work: its run is in the journal and is resumed from there. Ray's own retries are off, so
that only the engine decides which worker has a job.
"""

from __future__ import annotations

import asyncio
import logging
import os
import signal
import socket
from collections.abc import Callable, Iterator
from contextlib import AsyncExitStack, contextmanager, suppress
from dataclasses import replace
from pathlib import Path
from types import TracebackType
from typing import Any, Self
from urllib.parse import parse_qs, urlsplit

from rlm.batch import BatchJob, BatchOutcome, Failure, RunModels
from rlm.batch.ray.worker import FATAL, NOT_HERE, Worker
from rlm.errors import ConfigurationError, DocumentError, UsageError
from rlm.lazy_dataclass import dataclass
from rlm.settings import Limits, Settings
from rlm.version import __version__, install_command

__all__ = ["RayEngine", "ray_engine"]

_ALL_LOST_SECONDS = 300.0
"""How long all workers may be lost before the batch stops. A cluster may be replacing its nodes."""
_READY_SECONDS = 120.0
_CONNECT_SECONDS = 10.0
_STOP_SECONDS = 10.0
_PAUSE_SECONDS = 1.0
_SHARED_LOSSES = 2
_EXCLUSIVE_LOSSES = 2
"""A job may lose this number of workers that it shares with other jobs, then this number that it has alone.
A job that loses them all is taken to be the cause."""


@dataclass(slots=True, eq=False)
class _RemoteWorker:
    """One worker: its actor, its number of jobs, and the job that it is reserved for, if any."""

    actor: Any
    jobs: int = 0
    is_ready: bool = False
    reserved_for: BatchJob | None = None


@contextmanager
def ray_engine(
    models: RunModels,
    limits: Limits,
    settings: Settings,
    *,
    address: str | None = None,
    workers: int | None = None,
    jobs: int = 8,
    notify: Callable[[str], None] = lambda _: None,
) -> Iterator[RayEngine]:
    """Give an engine on the cluster at `address`. None starts a cluster on this machine for the block.

    `workers` (None: one for each CPU of the cluster) run `jobs` jobs each at a time. With `address`,
    `settings.store` must be a postgresql:// URL that all nodes reach, without a password, because Ray would
    see it. `notify` gets a line for each worker that is unusable. Raises ConfigurationError if Ray is not
    installed, the cluster is not found or the store is unsuitable.
    """
    store = str(settings.store)
    if address is not None and not store.startswith(("postgresql", "postgres:")):
        raise ConfigurationError(
            f"the nodes of a cluster share no files, and the store is {store}: give "
            "--store postgresql://USER@HOST/NAME"
        )
    if address is not None and _has_password(store):
        raise ConfigurationError(
            "the password in --store would be sent through Ray: remove it from the URL, and set PGPASSWORD "
            "(or ~/.pgpass) here and on every node"
        )
    if "://" not in store:
        settings = replace(settings, store=Path(store).expanduser().absolute())
    if address not in (None, "auto"):
        _check_reachable(address)
    os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")
    # Workers must run the interpreter of this process, also if uv started it.
    os.environ.setdefault("RAY_ENABLE_UV_RUN_RUNTIME_ENV", "0")
    try:
        import ray
    except ModuleNotFoundError:
        raise ConfigurationError(
            f"--engine ray needs Ray: {install_command('ray')}, or use --engine local"
        ) from None
    handler = signal.getsignal(signal.SIGTERM)
    try:
        ray.init(
            address=address or "local",
            log_to_driver=False,
            include_dashboard=False,
            logging_level=logging.CRITICAL,
        )
    except (ConnectionError, RuntimeError, ValueError) as error:
        if "ersion mismatch" in str(error):
            versions = " ".join(str(error).split())
            raise ConfigurationError(
                f"the cluster at {address} has other versions: install the same Python and Ray ({versions})"
            ) from error
        reason = str(error).strip().splitlines()[0] if str(error).strip() else type(error).__name__
        raise ConfigurationError(
            f"there is no Ray cluster at {address or 'this machine'} ({reason}): check --address"
        ) from error
    # Ray replaces the handler of SIGTERM; a batch treats SIGTERM like Ctrl-C.
    with suppress(ValueError):
        signal.signal(signal.SIGTERM, handler)
    try:
        count = workers or max(1, int(ray.cluster_resources().get("CPU", 1)))
        yield RayEngine(
            ray, Worker, (models, limits, settings, jobs), workers=count, jobs=jobs, notify=notify
        )
    finally:
        ray.shutdown()


def _has_password(store: str) -> bool:
    parts = urlsplit(store)
    return parts.password is not None or "password" in parse_qs(parts.query)


def _check_reachable(address: str) -> None:
    """Connect once, because Ray itself would retry for minutes. Raises ConfigurationError."""
    host, _, port = address.rpartition(":")
    if not host or not port.isdigit():
        raise ConfigurationError(f"--address {address} is not an address: give HOST:PORT, or auto")
    try:
        socket.create_connection((host.strip("[]"), int(port)), _CONNECT_SECONDS).close()
    except OSError as error:
        raise ConfigurationError(
            f"there is no Ray cluster at {address} ({error.strerror or error}): check --address, and "
            "that the head node is running"
        ) from None


class RayEngine:
    """Runs up to `jobs` jobs at a time on each of `workers` actors, within `async with`."""

    def __init__(
        self,
        ray: Any,
        worker_class: type[Worker],
        arguments: tuple[Any, ...],
        *,
        workers: int,
        jobs: int,
        notify: Callable[[str], None] = lambda _: None,
    ) -> None:
        self.slots = workers * jobs
        self._ray = ray
        self._worker_class = worker_class
        self._arguments = arguments
        self._count = workers
        self._folder = Path.cwd()
        self._jobs = jobs
        self._notify = notify
        self._workers: list[_RemoteWorker] = []
        self._changed = asyncio.Condition()
        self._opening: set[asyncio.Task[None]] = set()

    async def run(self, job: BatchJob) -> BatchOutcome:
        """Run a job on a node. A job that loses every worker it gets has a failure as its outcome.

        Raises errors that would fail every other job too, and UsageError if no worker is left.
        """
        job = replace(job, task=job.task.with_absolute_paths(self._folder))
        for losses in range(_SHARED_LOSSES + _EXCLUSIVE_LOSSES):
            alone = losses >= _SHARED_LOSSES
            worker = await self._acquire(job, alone=alone)
            try:
                outcome: BatchOutcome = await worker.actor.run.remote(job)
            except self._ray.exceptions.RayTaskError:
                raise  # an error in our own code: another node would meet it too
            except self._ray.exceptions.RayError:
                self._reopen(worker)
                continue
            finally:
                await self._release(worker, alone=alone)
            return self._raise_if_general(outcome, job)
        why = (
            f"all {losses + 1} workers that ran it were lost, {_EXCLUSIVE_LOSSES} of them with no other task"
        )
        return BatchOutcome(None, Failure("WorkerLost", f"{why}: it may take more memory than a node has"))

    @staticmethod
    def _raise_if_general(outcome: BatchOutcome, job: BatchJob) -> BatchOutcome:
        """Return the outcome if it concerns this job only. Raise it if it concerns all jobs."""
        failure = outcome.failure
        if failure is None:
            return outcome
        if failure.type == NOT_HERE:
            try:
                job.task.sources()
            except DocumentError as error:
                return BatchOutcome(None, Failure("DocumentError", str(error)))
            raise ConfigurationError(
                f"{failure.message}: paths must name the same files on every node; share their folder, or "
                "put the texts into the tasks"
            )
        if failure.type in FATAL:
            raise FATAL[failure.type](failure.message)
        return outcome

    async def _acquire(self, job: BatchJob, *, alone: bool) -> _RemoteWorker:
        """Wait for the worker with the fewest jobs; if `alone`, for one without any other job."""
        worker: _RemoteWorker | None = None
        is_acquired = False
        try:
            async with self._changed:
                while True:
                    if worker is None or not worker.is_ready or worker.reserved_for is not job:
                        worker = self._choose(job, alone=alone)
                    if worker is not None and (worker.jobs == 0 or not alone):
                        worker.jobs += 1
                        is_acquired = True
                        return worker
                    all_lost = not any(one.is_ready for one in self._workers)
                    await asyncio.wait_for(self._changed.wait(), _ALL_LOST_SECONDS if all_lost else None)
        except TimeoutError:
            raise UsageError(
                f"all workers of the cluster have been lost for {_ALL_LOST_SECONDS:g} s: check its nodes, "
                "then the same command resumes the batch"
            ) from None
        finally:
            if not is_acquired and worker is not None and worker.reserved_for is job:
                worker.reserved_for = None

    def _choose(self, job: BatchJob, *, alone: bool) -> _RemoteWorker | None:
        """Choose a worker for one more job. If `alone`, reserve it; it may still have jobs to wait for."""
        free = [one for one in self._workers if one.is_ready and one.reserved_for is None]
        if not alone:
            free = [one for one in free if one.jobs < self._jobs]
        worker = min(free, key=lambda one: one.jobs, default=None)
        if worker is not None and alone:
            worker.reserved_for = job
        return worker

    async def _release(self, worker: _RemoteWorker, *, alone: bool) -> None:
        async with self._changed:
            worker.jobs -= 1
            if alone:
                worker.reserved_for = None
            self._changed.notify_all()

    def _reopen(self, worker: _RemoteWorker) -> None:
        """Stop using a lost worker until Ray has restarted it."""
        if not worker.is_ready:
            return
        worker.is_ready = False
        worker.reserved_for = None
        self._watch(asyncio.ensure_future(self._open(worker)))

    def _watch(self, opening: asyncio.Task[None]) -> None:
        """Report a worker that is unusable. The others go on working."""

        def on_done(opening: asyncio.Task[None]) -> None:
            self._opening.discard(opening)
            error = None if opening.cancelled() else opening.exception()
            if error is not None:
                self._notify(f"a worker is unusable: {error}")

        self._opening.add(opening)
        opening.add_done_callback(on_done)

    async def __aenter__(self) -> Self:
        actors = self._ray.remote(self._worker_class).options(
            num_cpus=1,
            max_restarts=-1,
            max_task_retries=0,
            # Two more than the jobs, for the calls of ready() and stop().
            max_concurrency=self._jobs + 2,
            scheduling_strategy="SPREAD",
        )
        self._workers = [_RemoteWorker(actors.remote(*self._arguments)) for _ in range(self._count)]
        opening = [asyncio.ensure_future(self._open(worker)) for worker in self._workers]
        async with AsyncExitStack() as undo:
            undo.push_async_callback(self._end, opening)
            try:
                await asyncio.wait_for(self._first(opening), _READY_SECONDS)
            except TimeoutError:
                raise ConfigurationError(
                    f"no worker was ready within {_READY_SECONDS:g} s: the cluster has no free CPU, or "
                    "rlm-kernel is not installed on its nodes"
                ) from None
            undo.pop_all()
        for task in opening:
            self._watch(task)
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self._end(list(self._opening))

    async def _open(self, worker: _RemoteWorker) -> None:
        """Wait until a worker is ready, however often Ray restarts it. Raises what is wrong with its node."""
        while True:
            try:
                failure = await worker.actor.ready.remote(__version__)
                break
            except self._ray.exceptions.RayError as error:
                if isinstance(error, self._ray.exceptions.RayTaskError) or "creation task" in str(error):
                    reason = str(error).strip().splitlines()[-1]
                    raise ConfigurationError(
                        f"it cannot be started ({reason}): {install_command('ray')} on every node"
                    ) from error
            await asyncio.sleep(_PAUSE_SECONDS)
        if failure is not None:
            raise FATAL[failure.type](failure.message)
        async with self._changed:
            worker.is_ready = True
            self._changed.notify_all()

    @staticmethod
    async def _first(opening: list[asyncio.Task[None]]) -> None:
        """Wait until one worker is ready; the others may be waiting for a free CPU.

        Raises the error of the first one if all fail.
        """
        failed: list[Exception] = []
        for done in asyncio.as_completed(opening):
            try:
                await done
                return
            except tuple(FATAL.values()) as error:
                failed.append(error)
        raise failed[0]

    async def _end(self, tasks: list[asyncio.Task[None]]) -> None:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        stopping = [self._stop(worker) for worker in self._workers if worker.is_ready]
        with suppress(TimeoutError):
            await asyncio.wait_for(asyncio.gather(*stopping), _STOP_SECONDS)
        for worker in self._workers:
            self._ray.kill(worker.actor)

    async def _stop(self, worker: _RemoteWorker) -> None:
        with suppress(self._ray.exceptions.RayError):
            await worker.actor.stop.remote()
