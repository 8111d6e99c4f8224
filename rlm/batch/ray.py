"""The Ray engine: runs tasks on the nodes of a cluster, and resends a task whose worker is lost.

A lost task loses no work: its run is in the journal and is resumed from there. Ray's own retries are off, so
only the engine decides which worker has a task.
"""

from __future__ import annotations

import asyncio
import logging
import os
import signal
import socket
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import AsyncExitStack, asynccontextmanager, contextmanager, suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, urlsplit

from rlm.batch.batch import FATAL, RunTask, failed_line, local_engine
from rlm.batch.tasks import BatchTask
from rlm.errors import ConfigurationError, DocumentError, UsageError
from rlm.limits import Limits
from rlm.runtime import RLM
from rlm.version import __version__, install_command

__all__ = ["cluster", "ray_engine"]

_ALL_LOST_SECONDS = 300.0
"""How long all workers may be lost before the batch stops. A cluster may be replacing its nodes."""
_READY_SECONDS = 120.0
_CONNECT_SECONDS = 10.0
_STOP_SECONDS = 10.0
_PAUSE_SECONDS = 1.0
_SHARED_LOSSES = 2
_MAX_LOSSES = 4
"""A task may lose this number of workers, the first ones next to other tasks, the last ones alone. Then it is
taken to be the cause."""


@contextmanager
def cluster(address: str | None, store: str) -> Iterator[tuple[Any, int]]:
    """Yield the module `ray`, connected to the cluster at `address`, and the number of its CPUs. Without an
    address it starts a cluster on this machine for the block.

    With `address`, `store` must be a postgresql:// URL that all nodes reach, without a password, because Ray
    would see it. Raises ConfigurationError if it is not, Ray is not installed or the cluster is not found.
    """
    if address is not None:
        _check_store(store)
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
    quiet = {"log_to_driver": False, "include_dashboard": False, "logging_level": logging.CRITICAL}
    handler = signal.getsignal(signal.SIGTERM)
    try:
        ray.init(address=address or "local", **quiet)
    except (ConnectionError, RuntimeError, ValueError) as error:
        raise ConfigurationError(
            f"there is no usable Ray cluster at {address or 'this machine'} "
            f"({' '.join(str(error).split())}): check --address, and that it has the same Python and Ray"
        ) from error
    # Ray replaces the handler of SIGTERM; a batch treats SIGTERM like Ctrl-C.
    with suppress(ValueError):
        signal.signal(signal.SIGTERM, handler)
    try:
        yield ray, max(1, int(ray.cluster_resources().get("CPU", 1)))
    finally:
        ray.shutdown()


def _check_store(store: str) -> None:
    if not store.startswith(("postgresql", "postgres:")):
        raise ConfigurationError(
            f"the nodes of a cluster share no files, and the store is {store}: give "
            "--store postgresql://USER@HOST/NAME"
        )
    parts = urlsplit(store)
    if parts.password is not None or "password" in parse_qs(parts.query):
        raise ConfigurationError(
            "the password in --store would be sent through Ray: remove it from the URL, and set PGPASSWORD "
            "(or ~/.pgpass) here and on every node"
        )


def _check_reachable(address: str) -> None:
    """Connect once, because Ray itself would retry for minutes."""
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


class Worker:
    """The class of the actors on the nodes: runs all tasks it gets at the same time with the local engine.
    Keys come from the environment of the node; none is sent."""

    def __init__(self, make_rlm: Callable[[], RLM], slots: int) -> None:
        self._make_rlm = make_rlm
        self._slots = slots
        self._stack = AsyncExitStack()
        self._engine: RunTask | None = None
        self._entering = asyncio.Lock()
        self._running: set[asyncio.Task[dict[str, Any]]] = set()
        logging.getLogger("rlm").addHandler(logging.NullHandler())

    async def ready(self, version: str) -> None:
        """Open the journal and create the models. Raises FATAL errors, also if this is not the driver's
        `version`, which may write tasks and journals differently."""
        try:
            if version != __version__:
                raise ConfigurationError(
                    f"its rlm-kernel is {__version__}, not {version}: install the same version on every node"
                )
            await self._open()
        except FATAL as error:
            raise type(error)(f"{error} (on node {socket.gethostname()})") from None

    async def run(self, task: BatchTask, run_id: str, limits: Limits) -> dict[str, Any]:
        """Run a task, whose files the driver has. Raises FATAL errors."""
        engine = await self._open()
        try:
            task.sources()
        except DocumentError as error:
            raise ConfigurationError(
                f"{error} (on node {socket.gethostname()}): paths must name the same files on every node; "
                "share their folder, or put the texts into the tasks"
            ) from None
        running = asyncio.ensure_future(engine(task, run_id, limits))
        self._running.add(running)
        running.add_done_callback(self._running.discard)
        return await running

    async def stop(self) -> None:
        """Interrupt the running tasks, which can then be resumed, and release everything."""
        for running in self._running:
            running.cancel()
        await asyncio.gather(*self._running, return_exceptions=True)
        await self._stack.aclose()

    async def _open(self) -> RunTask:
        async with self._entering:
            if self._engine is None:
                engine = local_engine(self._make_rlm(), self._slots)
                self._engine = await self._stack.enter_async_context(engine)
            return self._engine


@dataclass(slots=True, eq=False)
class _Remote:
    """A worker as the driver sees it. `tasks` counts what runs there. `is_reserved`: it takes no more tasks.
    `fault`: why its node cannot be used."""

    actor: Any
    tasks: int = 0
    is_ready: bool = False
    is_reserved: bool = False
    fault: Exception | None = None

    def takes(self, most: int) -> bool:
        """Return whether it takes one more task, having at most `most`."""
        return self.is_ready and not self.is_reserved and self.tasks <= most


@asynccontextmanager
async def ray_engine(
    ray: Any,
    make_rlm: Callable[[], RLM],
    *,
    workers: int,
    slots: int,
    notify: Callable[[str], None] = lambda _: None,
) -> AsyncIterator[RunTask]:
    """Run up to `slots` tasks at a time on each of `workers` actors. `notify` gets a line for each unusable
    worker. Raises ConfigurationError if none is ready."""
    # Two calls more than the tasks, for ready() and stop().
    options = {"num_cpus": 1, "max_restarts": -1, "max_task_retries": 0, "max_concurrency": slots + 2}
    actors = ray.remote(Worker).options(scheduling_strategy="SPREAD", **options)
    engine = _Engine(ray, [_Remote(actors.remote(make_rlm, slots)) for _ in range(workers)], slots, notify)
    try:
        await engine.open()
        yield engine.run
    finally:
        await engine.close()


class _Engine:
    def __init__(self, ray: Any, workers: list[_Remote], slots: int, notify: Callable[[str], None]) -> None:
        self._ray = ray
        self._errors = ray.exceptions
        self._workers = workers
        self._slots = slots
        self._notify = notify
        self._folder = Path.cwd()
        self._changed = asyncio.Condition()
        self._opening: set[asyncio.Task[None]] = set()

    async def open(self) -> None:
        """Wait until a worker is ready; others may be waiting for a free CPU. Raises the first one's fault if
        none can be used."""
        for worker in self._workers:
            self._reopen(worker)
        try:
            async with asyncio.timeout(_READY_SECONDS), self._changed:
                while not self._is_any_ready and not all(worker.fault for worker in self._workers):
                    await self._changed.wait()
        except TimeoutError:
            raise ConfigurationError(
                f"no worker was ready within {_READY_SECONDS:g} s: the cluster has no free CPU, or "
                "rlm-kernel is not installed on its nodes"
            ) from None
        if not self._is_any_ready:
            raise next(worker.fault for worker in self._workers if worker.fault)

    async def close(self) -> None:
        """Stop all workers."""
        for task in self._opening:
            task.cancel()
        stopping = [worker.actor.stop.remote() for worker in self._workers if worker.is_ready]
        with suppress(TimeoutError):
            await asyncio.wait_for(asyncio.gather(*stopping, return_exceptions=True), _STOP_SECONDS)
        for worker in self._workers:
            self._ray.kill(worker.actor)

    async def run(self, task: BatchTask, run_id: str, limits: Limits) -> dict[str, Any]:
        """Run a task on a node. A task that loses every worker it gets has a line that says so. Raises errors
        that would fail every other task, and UsageError if no worker is left."""
        try:
            task.sources()
        except DocumentError as error:
            return failed_line(task.id, run_id, type(error).__name__, str(error))
        sent, losses = _with_absolute_paths(task, self._folder), 0
        while losses < _MAX_LOSSES:
            async with self._lease(alone=losses >= _SHARED_LOSSES) as worker:
                if not worker.is_ready:
                    continue  # another task has lost it
                try:
                    line: dict[str, Any] = await worker.actor.run.remote(sent, run_id, limits)
                    return line
                except self._errors.RayTaskError as error:
                    # An error in our own code would meet the task on other nodes, too.
                    raise (error.cause if isinstance(error.cause, FATAL) else error) from None
                except self._errors.RayError:
                    losses += 1
                    if worker.is_ready:
                        worker.is_ready = False
                        self._reopen(worker)
        why = f"all {losses} workers that ran it were lost, the last ones with no other task"
        return failed_line(task.id, run_id, "WorkerLost", f"{why}: it may take more memory than a node has")

    @asynccontextmanager
    async def _lease(self, *, alone: bool) -> AsyncIterator[_Remote]:
        """Wait for the worker with the fewest tasks, and with `alone` until it has no other."""
        most = self._slots if alone else self._slots - 1
        async with self._changed:
            while not (free := [one for one in self._workers if one.takes(most)]):
                await self._wait()
            worker = min(free, key=lambda one: one.tasks)
            worker.tasks += 1
            worker.is_reserved = alone
        try:
            async with self._changed:
                while alone and worker.is_ready and worker.tasks > 1:
                    await self._wait()
            yield worker
        finally:
            async with self._changed:
                worker.tasks -= 1
                if alone:
                    worker.is_reserved = False
                self._changed.notify_all()

    async def _wait(self) -> None:
        """Wait for a change. Raises UsageError if all workers are lost for too long."""
        try:
            await asyncio.wait_for(self._changed.wait(), None if self._is_any_ready else _ALL_LOST_SECONDS)
        except TimeoutError:
            raise UsageError(
                f"all workers of the cluster have been lost for {_ALL_LOST_SECONDS:g} s: check its nodes, "
                "then the same command resumes the batch"
            ) from None

    @property
    def _is_any_ready(self) -> bool:
        return any(worker.is_ready for worker in self._workers)

    def _reopen(self, worker: _Remote) -> None:
        opening = asyncio.ensure_future(self._wait_until_ready(worker))
        self._opening.add(opening)
        opening.add_done_callback(self._opening.discard)

    async def _wait_until_ready(self, worker: _Remote) -> None:
        """Wait until a worker is ready, however often Ray restarts it, or its node is found unusable."""
        while not worker.is_ready and worker.fault is None:
            try:
                await worker.actor.ready.remote(__version__)
                worker.is_ready = True
            except self._errors.RayError as error:
                cause = getattr(error, "cause", None)
                if isinstance(cause, FATAL):
                    worker.fault = cause
                elif isinstance(error, self._errors.RayTaskError) or "creation task" in str(error):
                    reason = str(error).strip().splitlines()[-1]
                    worker.fault = ConfigurationError(
                        f"it cannot be started ({reason}): {install_command('ray')} on every node"
                    )
                else:
                    await asyncio.sleep(_PAUSE_SECONDS)
        if worker.fault is not None:
            self._notify(f"a worker is unusable: {worker.fault}")
        async with self._changed:
            self._changed.notify_all()


def _with_absolute_paths(task: BatchTask, folder: Path) -> BatchTask:
    """Return the task for a process that works in another folder."""
    context = tuple(
        str(folder / part) if isinstance(part, str) and part[0] != "~" and "://" not in part else part
        for part in task.context
    )
    return replace(task, context=context)
