"""The Ray engine: jobs on the nodes of a cluster. A job whose node is lost is sent to another one.

Nothing of a lost job is lost with it: its run is in the journal, and goes on from there. Ray itself retries
nothing here: one place decides who has a job.
"""

from __future__ import annotations

import asyncio
import logging
import os
import signal
import socket
from collections.abc import Callable, Iterator
from contextlib import AsyncExitStack, contextmanager, suppress
from dataclasses import dataclass, replace
from pathlib import Path
from types import TracebackType
from typing import Any, Self
from urllib.parse import parse_qs, urlsplit

from rlm.batch import BatchJob, BatchOutcome, Failure, RunModels
from rlm.batch.ray.worker import FATAL, NOT_HERE, Worker
from rlm.errors import ConfigurationError, DocumentError, UsageError
from rlm.settings import Limits, Settings
from rlm.version import __version__

__all__ = ["RayEngine", "ray_engine"]

_ALL_LOST_SECONDS = 300.0
"""How long every worker may be gone before the batch gives up: a cluster may be replacing its nodes."""
_READY_SECONDS = 120.0
_CONNECT_SECONDS = 10.0
_STOP_SECONDS = 10.0
_PAUSE_SECONDS = 1.0
_TOGETHER = 2
_ALONE = 2
"""How many workers a job may lose that other jobs were on, too, and then how many that it has for itself: who
has lost all of them is what ends them."""


@dataclass(slots=True, eq=False)
class _Place:
    """One worker: its actor, how many jobs it has, whether it is known to be there, and the job that it is
    kept for, if it is for one alone."""

    actor: Any
    jobs: int = 0
    there: bool = False
    kept: BatchJob | None = None


@contextmanager
def ray_engine(
    models: RunModels,
    limits: Limits,
    settings: Settings,
    *,
    address: str | None = None,
    workers: int | None = None,
    jobs: int = 8,
    told: Callable[[str], None] = lambda _: None,
) -> Iterator[RayEngine]:
    """An engine on the cluster at `address`; None starts one on this machine for as long as it lasts.

    `workers` (None: one for each CPU of the cluster) run `jobs` jobs each at a time. A cluster of several
    machines needs a journal that all of them reach: `settings.store` is a postgresql:// URL then, without a
    password, which Ray would see. `told` is told of workers that can't be used. Raises ConfigurationError
    when Ray is not installed, there is no cluster or the store will not do.
    """
    store = str(settings.store)
    if address is not None and not store.startswith(("postgresql", "postgres:")):
        raise ConfigurationError(
            f"the nodes of a cluster share no file: give --store postgresql://USER@HOST/NAME (it is {store})"
        )
    if address is not None and _holds_password(store):
        raise ConfigurationError(
            "the store's password would be sent through Ray: leave it out of the URL, and set PGPASSWORD (or "
            "~/.pgpass) here and on every node"
        )
    if "://" not in store:
        settings = replace(settings, store=Path(store).expanduser().absolute())
    if address not in (None, "auto"):
        _check_reachable(address)
    os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")
    # Workers run the interpreter of this process, whatever started it.
    os.environ.setdefault("RAY_ENABLE_UV_RUN_RUNTIME_ENV", "0")
    try:
        import ray
    except ModuleNotFoundError:
        raise ConfigurationError(
            "--engine ray needs Ray: install rlm-kernel[ray], or use --engine local"
        ) from None
    terminating = signal.getsignal(signal.SIGTERM)
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
                f"the cluster at {address} runs other versions: install the same Python and Ray ({versions})"
            ) from error
        reason = str(error).strip().splitlines()[0] if str(error).strip() else type(error).__name__
        raise ConfigurationError(
            f"there is no Ray cluster at {address or 'this machine'} ({reason}): check --address"
        ) from error
    # Ray takes SIGTERM for itself; here it interrupts the batch like Ctrl-C.
    with suppress(ValueError):
        signal.signal(signal.SIGTERM, terminating)
    try:
        count = workers or max(1, int(ray.cluster_resources().get("CPU", 1)))
        yield RayEngine(ray, Worker, (models, limits, settings, jobs), workers=count, jobs=jobs, told=told)
    finally:
        ray.shutdown()


def _holds_password(store: str) -> bool:
    parts = urlsplit(store)
    return parts.password is not None or "password" in parse_qs(parts.query)


def _check_reachable(address: str) -> None:
    """Ray itself would try for minutes. Raises ConfigurationError."""
    host, _, port = address.rpartition(":")
    if not host or not port.isdigit():
        raise ConfigurationError(f"--address {address} is no address of a cluster: give HOST:PORT, or auto")
    try:
        socket.create_connection((host.strip("[]"), int(port)), _CONNECT_SECONDS).close()
    except OSError as error:
        raise ConfigurationError(
            f"there is no Ray cluster at {address} ({error.strerror or error}): check --address, and "
            "that its head node runs"
        ) from None


class RayEngine:
    """`workers` actors, of which each has up to `jobs` jobs at a time, within `async with`."""

    def __init__(
        self,
        ray: Any,
        worker: type[Worker],
        given: tuple[Any, ...],
        *,
        workers: int,
        jobs: int,
        told: Callable[[str], None] = lambda _: None,
    ) -> None:
        self.slots = workers * jobs
        self._ray = ray
        self._worker = worker
        self._given = given
        self._count = workers
        self._folder = Path.cwd()
        self._jobs = jobs
        self._told = told
        self._places: list[_Place] = []
        self._changed = asyncio.Condition()
        self._opening: set[asyncio.Task[None]] = set()

    async def run(self, job: BatchJob) -> BatchOutcome:
        """What came of it, on whichever node. A job that ends every worker it has, at last one of its own, is
        given up. Raises what would fail every other job as well, and UsageError when no worker is left."""
        job = replace(job, task=job.task.seen_from(self._folder))
        for losses in range(_TOGETHER + _ALONE):
            alone = losses >= _TOGETHER
            place = await self._take(job, alone=alone)
            try:
                outcome: BatchOutcome = await place.actor.run.remote(job)
            except self._ray.exceptions.RayTaskError:
                raise  # an error in our own code: another node would meet it too
            except self._ray.exceptions.RayError:
                self._lost(place)
                continue
            finally:
                await self._give_back(place, alone=alone)
            return self._judged(outcome, job)
        why = (
            f"each of the {losses + 1} workers that it was given to was lost, {_ALONE} of them with it alone"
        )
        return BatchOutcome(None, Failure("WorkerLost", f"{why}: it may take more memory than a node has"))

    @staticmethod
    def _judged(outcome: BatchOutcome, job: BatchJob) -> BatchOutcome:
        """The outcome, if it says something of this job alone. Raises what it says of all others."""
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
                "put texts into the tasks"
            )
        if failure.type in FATAL:
            raise FATAL[failure.type](failure.message)
        return outcome

    async def _take(self, job: BatchJob, *, alone: bool) -> _Place:
        """The worker with the fewest jobs of those that have room for one; or one that has none, and gets no
        other."""
        place: _Place | None = None
        taken = False
        try:
            async with self._changed:
                while True:
                    if place is None or not place.there or place.kept is not job:
                        place = self._choose(job, alone=alone)
                    if place is not None and (place.jobs == 0 or not alone):
                        place.jobs += 1
                        taken = True
                        return place
                    gone = not any(place.there for place in self._places)
                    await asyncio.wait_for(self._changed.wait(), _ALL_LOST_SECONDS if gone else None)
        except TimeoutError:
            raise UsageError(
                f"every worker of the cluster has been gone for {_ALL_LOST_SECONDS:g} s: look after its "
                "nodes; the same command goes on"
            ) from None
        finally:
            if not taken and place is not None and place.kept is job:
                place.kept = None

    def _choose(self, job: BatchJob, *, alone: bool) -> _Place | None:
        """A worker for one more job; to be waited for, and kept from others, if the job is to be alone."""
        free = [place for place in self._places if place.there and place.kept is None]
        if not alone:
            free = [place for place in free if place.jobs < self._jobs]
        place = min(free, key=lambda one: one.jobs, default=None)
        if place is not None and alone:
            place.kept = job
        return place

    async def _give_back(self, place: _Place, *, alone: bool) -> None:
        async with self._changed:
            place.jobs -= 1
            if alone:
                place.kept = None
            self._changed.notify_all()

    def _lost(self, place: _Place) -> None:
        """Its jobs go elsewhere; it is used again when Ray has started it anew."""
        if not place.there:
            return
        place.there = False
        place.kept = None
        self._watch(asyncio.ensure_future(self._open(place)))

    def _watch(self, opening: asyncio.Task[None]) -> None:
        """One that can't be used does not keep the others from working."""

        def opened(opening: asyncio.Task[None]) -> None:
            self._opening.discard(opening)
            error = None if opening.cancelled() else opening.exception()
            if error is not None:
                self._told(f"a worker can't be used: {error}")

        self._opening.add(opening)
        opening.add_done_callback(opened)

    async def __aenter__(self) -> Self:
        actors = self._ray.remote(self._worker).options(
            num_cpus=1,
            max_restarts=-1,
            max_task_retries=0,
            # Beside the jobs, room to be asked whether it is ready and to be told to stop.
            max_concurrency=self._jobs + 2,
            scheduling_strategy="SPREAD",
        )
        self._places = [_Place(actors.remote(*self._given)) for _ in range(self._count)]
        opening = [asyncio.ensure_future(self._open(place)) for place in self._places]
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

    async def _open(self, place: _Place) -> None:
        """Until it is ready, however often Ray has to start it. Raises what is wrong with its node."""
        while True:
            try:
                failure = await place.actor.ready.remote(__version__)
                break
            except self._ray.exceptions.RayError as error:
                if isinstance(error, self._ray.exceptions.RayTaskError) or "creation task" in str(error):
                    raise ConfigurationError(
                        "it can't be started: is rlm-kernel[ray] installed on every node? "
                        f"({str(error).strip().splitlines()[-1]})"
                    ) from error
            await asyncio.sleep(_PAUSE_SECONDS)
        if failure is not None:
            raise FATAL[failure.type](failure.message)
        async with self._changed:
            place.there = True
            self._changed.notify_all()

    @staticmethod
    async def _first(opening: list[asyncio.Task[None]]) -> None:
        """Until one worker is ready: the others may wait for room. Raises what is wrong with the first when
        something is with every one."""
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
        stopping = [self._stop(place) for place in self._places if place.there]
        with suppress(TimeoutError):
            await asyncio.wait_for(asyncio.gather(*stopping), _STOP_SECONDS)
        for place in self._places:
            self._ray.kill(place.actor)

    async def _stop(self, place: _Place) -> None:
        with suppress(self._ray.exceptions.RayError):
            await place.actor.stop.remote()
