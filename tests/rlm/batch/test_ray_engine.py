"""Which worker gets which job. A fake Ray has actors in this process, which die when a job tells them to."""

from __future__ import annotations

import asyncio
import sys
from types import SimpleNamespace
from typing import Any

import pytest

from rlm.batch import BatchJob, BatchOutcome, BatchTask, Failure
from rlm.batch.ray import RayEngine
from rlm.batch.ray.worker import Worker
from rlm.errors import ConfigurationError, UsageError
from rlm.settings import Limits

engine_module = sys.modules[RayEngine.__module__]


class Lost(Exception):
    """What Ray raises for every call of an actor whose process has gone."""


class Broken(Lost):
    """What it raises for an error of the actor's own code."""


class Actor:
    """A worker that takes a moment for each job, and is gone with all that it has at a job named bad."""

    def __init__(self, cluster: FakeRay) -> None:
        self.cluster = cluster
        self.number = len(cluster.actors)
        self.jobs: dict[asyncio.Future[BatchOutcome], set[str]] = {}

        cluster.actors.append(self)
        for name in ("run", "ready", "stop"):
            setattr(self, name, SimpleNamespace(remote=getattr(self, f"_{name}")))

    async def _ready(self, version: str) -> Failure | None:
        await asyncio.sleep(0.001)
        return self.cluster.ready(self.number)

    async def _stop(self) -> None: ...

    async def _run(self, job: BatchJob) -> BatchOutcome:
        name = str(job.task.id)
        ending: asyncio.Future[BatchOutcome] = asyncio.get_running_loop().create_future()
        self.jobs[ending] = {name}.union(*self.jobs.values())
        for names in self.jobs.values():
            names.add(name)
        self.cluster.company.append((name, self.jobs[ending]))
        try:
            _, pending = await asyncio.wait([ending], timeout=0.002)
            if pending and name.startswith("bad"):
                for other in list(self.jobs):
                    if not other.done():
                        other.set_exception(Lost("the actor died"))
            return await ending if ending.done() else BatchOutcome(None, Failure("Done", name))
        finally:
            del self.jobs[ending]


class FakeRay:
    """As much of the module `ray` as the engine uses."""

    def __init__(self) -> None:
        self.actors: list[Actor] = []
        self.killed: list[Actor] = []
        self.company: list[tuple[str, set[str]]] = []
        self.ready: Any = lambda number: None
        self.exceptions = SimpleNamespace(RayError=Lost, RayTaskError=Broken)

    def remote(self, _: type) -> Any:
        made = SimpleNamespace(remote=lambda *_: Actor(self))
        return SimpleNamespace(options=lambda **_: made)

    def kill(self, actor: Actor) -> None:
        self.killed.append(actor)


def job(name: str) -> BatchJob:
    task = BatchTask(id=name, task="Who?", context=({"text": "Anna."},))
    return BatchJob(task, f"run-{name}", Limits())


async def ran(ray: FakeRay, names: list[str], *, workers: int, jobs: int) -> dict[str, str]:
    """Return the type of failure of each job."""
    async with RayEngine(ray, Worker, (), workers=workers, jobs=jobs) as engine:
        waiting = iter(names)
        found: dict[str, str] = {}

        async def work() -> None:
            for name in waiting:
                outcome = await engine.run(job(name))
                assert outcome.failure is not None
                found[name] = outcome.failure.type

        await asyncio.wait_for(asyncio.gather(*(work() for _ in range(engine.slots))), 30)
    return found


@pytest.mark.parametrize("bad", [1, 3])
@pytest.mark.parametrize("workers", [1, 3])
async def test_a_job_that_kills_its_workers_is_found_and_the_others_end(
    workers: int, bad: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(engine_module, "_PAUSE_SECONDS", 0.001)
    ray = FakeRay()
    names = [f"good {n}" for n in range(40)]
    for n in range(bad):
        names.insert(5 * n + 2, f"bad {n}")
    found = await ran(ray, names, workers=workers, jobs=4)
    assert {name for name, end in found.items() if end == "WorkerLost"} == {f"bad {n}" for n in range(bad)}
    assert {end for name, end in found.items() if name.startswith("good")} == {"Done"}
    for n in range(bad):
        company = [others for name, others in ray.company if name == f"bad {n}"]
        assert len(company) == 4
        assert company[2] == company[3] == {f"bad {n}"}, "another job ran on its worker"
    assert any(len(others) > 1 for name, others in ray.company if name.startswith("good"))


async def test_unusable_workers_are_reported_and_one_usable_is_enough() -> None:
    ray = FakeRay()
    ray.ready = lambda number: None if number == 2 else Failure("ConfigurationError", f"no key on {number}")
    notes: list[str] = []
    async with RayEngine(ray, Worker, (), workers=4, jobs=2, notify=notes.append) as engine:
        await asyncio.gather(*(engine.run(job(f"good {n}")) for n in range(8)))
        await asyncio.sleep(0.01)
    assert sorted(notes) == [f"a worker is unusable: no key on {number}" for number in (0, 1, 3)]


async def test_without_a_usable_worker_the_first_error_is_raised() -> None:
    ray = FakeRay()
    ray.ready = lambda number: Failure("ConfigurationError", "no key")
    with pytest.raises(ConfigurationError, match="no key"):
        await ran(ray, ["good 1"], workers=3, jobs=1)


async def test_an_error_in_the_actor_is_raised_at_once() -> None:
    ray = FakeRay()

    def broken(number: int) -> None:
        raise Broken("Traceback\n  …\nImportError: no module named psycopg")

    ray.ready = broken
    with pytest.raises(ConfigurationError, match=r"cannot be started .*no module named psycopg.*install"):
        await ran(ray, ["good 1"], workers=2, jobs=1)


async def test_when_all_workers_are_lost_the_batch_stops_with_the_remedy(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(engine_module, "_ALL_LOST_SECONDS", 0.05)
    monkeypatch.setattr(engine_module, "_PAUSE_SECONDS", 0.01)
    ray = FakeRay()
    async with RayEngine(ray, Worker, (), workers=2, jobs=1) as engine:

        def gone(number: int) -> None:
            raise Lost("the actor is restarting")

        ray.ready = gone
        with pytest.raises(UsageError, match=r"have been lost for 0\.05 s: .*the same command resumes"):
            await engine.run(job("bad 1"))


async def test_when_no_worker_is_ready_in_time_the_error_names_causes(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(engine_module, "_READY_SECONDS", 0.05)
    monkeypatch.setattr(engine_module, "_PAUSE_SECONDS", 0.01)
    ray = FakeRay()

    def waiting(number: int) -> None:
        raise Lost("the actor has no node yet")

    ray.ready = waiting
    with pytest.raises(ConfigurationError, match=r"no worker was ready within 0\.05 s: .*no free CPU"):
        await ran(ray, ["good 1"], workers=2, jobs=1)
    assert len(ray.killed) == 2


async def test_a_job_cancelled_while_it_waits_to_be_alone_frees_its_worker(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    ray = FakeRay()
    async with RayEngine(ray, Worker, (), workers=1, jobs=2) as engine:
        first = asyncio.ensure_future(engine.run(job("good 1")))
        await asyncio.sleep(0)
        monkeypatch.setattr(engine_module, "_SHARED_LOSSES", 0)
        waiting = asyncio.ensure_future(engine.run(job("good 2")))
        await asyncio.sleep(0)
        waiting.cancel()
        await asyncio.gather(first, waiting, return_exceptions=True)
        outcome = await asyncio.wait_for(engine.run(job("good 3")), 5)
    assert outcome == BatchOutcome(None, Failure("Done", "good 3"))
