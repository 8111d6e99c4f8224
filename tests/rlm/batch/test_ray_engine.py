"""Which worker gets which job. A fake Ray has actors in this process, which die when a job tells them to."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from rlm.batch import ray as engine_module
from rlm.batch.batch import RunTask, failed_line
from rlm.batch.ray import ray_engine
from rlm.batch.tasks import BatchTask
from rlm.errors import ConfigurationError, UsageError
from rlm.settings import Limits


class Lost(Exception):
    """What Ray raises for every call of an actor whose process has gone."""


class Broken(Lost):
    """What it raises for an error that the actor raised, its cause."""

    def __init__(self, message: str, cause: Exception | None = None) -> None:
        super().__init__(message)
        self.cause = cause


class Actor:
    """A worker that takes a moment for each job, and is gone with all that it has at a job named bad."""

    def __init__(self, cluster: FakeRay) -> None:
        self.cluster = cluster
        self.number = len(cluster.actors)
        self.jobs: dict[asyncio.Future[dict[str, Any]], set[str]] = {}

        cluster.actors.append(self)
        for name in ("run", "ready", "stop"):
            setattr(self, name, SimpleNamespace(remote=getattr(self, f"_{name}")))

    async def _ready(self, version: str) -> None:
        await asyncio.sleep(0.001)
        self.cluster.ready(self.number)

    async def _stop(self) -> None: ...

    async def _run(self, task: BatchTask, run_id: str, limits: Limits) -> dict[str, Any]:
        name = str(task.id)
        self.cluster.sent.append(task)
        ending: asyncio.Future[dict[str, Any]] = asyncio.get_running_loop().create_future()
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
            return await ending if ending.done() else failed_line(task.id, run_id, "Done", name)
        finally:
            del self.jobs[ending]


class FakeRay:
    """As much of the module `ray` as the engine uses."""

    def __init__(self) -> None:
        self.actors: list[Actor] = []
        self.killed: list[Actor] = []
        self.sent: list[BatchTask] = []
        self.company: list[tuple[str, set[str]]] = []
        self.ready: Any = lambda number: None
        self.exceptions = SimpleNamespace(RayError=Lost, RayTaskError=Broken)

    def remote(self, _: type) -> Any:
        made = SimpleNamespace(remote=lambda *_: Actor(self))
        return SimpleNamespace(options=lambda **_: made)

    def kill(self, actor: Actor) -> None:
        self.killed.append(actor)


def no_key(number: int) -> None:
    raise Broken("Traceback …", ConfigurationError(f"no key on {number}"))


@asynccontextmanager
async def engine_of(ray: FakeRay, workers: int, jobs: int, **more: Any) -> AsyncIterator[RunTask]:
    async with ray_engine(ray, lambda: None, workers=workers, slots=jobs, **more) as run:  # type: ignore[arg-type, return-value]
        yield run


async def run_one(run: RunTask, name: str) -> str:
    """Return the type of error of a task."""
    task = BatchTask(name, "Who?", ({"text": "Anna."},), None, {}, "")
    line = await run(task, f"run-{name}", Limits())
    return str(line["error"]["type"])


async def ran(ray: FakeRay, names: list[str], *, workers: int, jobs: int) -> dict[str, str]:
    """Return the type of error of each task."""
    async with engine_of(ray, workers, jobs) as run:
        waiting = iter(names)
        found: dict[str, str] = {}

        async def work() -> None:
            for name in waiting:
                found[name] = await run_one(run, name)

        await asyncio.wait_for(asyncio.gather(*(work() for _ in range(workers * jobs))), 30)
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
    ray.ready = lambda number: None if number == 2 else no_key(number)
    notes: list[str] = []
    async with engine_of(ray, 4, 2, notify=notes.append) as run:
        await asyncio.gather(*(run_one(run, f"good {n}") for n in range(8)))
        await asyncio.sleep(0.01)
    assert sorted(notes) == [f"a worker is unusable: no key on {number}" for number in (0, 1, 3)]


async def test_without_a_usable_worker_the_first_error_is_raised() -> None:
    ray = FakeRay()
    ray.ready = no_key
    with pytest.raises(ConfigurationError, match="no key"):
        await ran(ray, ["good 1"], workers=3, jobs=1)


async def test_an_error_in_the_actor_is_raised_at_once() -> None:
    ray = FakeRay()

    def broken(number: int) -> None:
        raise Broken("Traceback\n  …\nImportError: no module named psycopg", ImportError())

    ray.ready = broken
    with pytest.raises(ConfigurationError, match=r"cannot be started .*no module named psycopg.*install"):
        await ran(ray, ["good 1"], workers=2, jobs=1)


async def test_when_all_workers_are_lost_the_batch_stops_with_the_remedy(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(engine_module, "_ALL_LOST_SECONDS", 0.05)
    monkeypatch.setattr(engine_module, "_PAUSE_SECONDS", 0.01)
    ray = FakeRay()
    async with engine_of(ray, 2, 1) as run:

        def gone(number: int) -> None:
            raise Lost("the actor is restarting")

        ray.ready = gone
        with pytest.raises(UsageError, match=r"have been lost for 0\.05 s: .*the same command resumes"):
            await run_one(run, "bad 1")


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


async def test_a_task_cancelled_while_it_waits_to_be_alone_frees_its_worker(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    ray = FakeRay()
    async with engine_of(ray, 1, 2) as run:
        first = asyncio.ensure_future(run_one(run, "good 1"))
        await asyncio.sleep(0)
        monkeypatch.setattr(engine_module, "_SHARED_LOSSES", 0)
        waiting = asyncio.ensure_future(run_one(run, "good 2"))
        await asyncio.sleep(0)
        waiting.cancel()
        await asyncio.gather(first, waiting, return_exceptions=True)
        assert await asyncio.wait_for(run_one(run, "good 3"), 5) == "Done"


async def test_a_task_is_sent_with_paths_that_mean_the_same_in_another_folder(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "a.txt").write_text("text")
    monkeypatch.chdir(tmp_path)
    ray = FakeRay()
    async with engine_of(ray, 1, 1) as run:
        task = BatchTask("good", "Who?", ("a.txt", "/dev/null", "*.txt", {"text": "d"}), None, {}, "")
        await run(task, "run", Limits())
    (sent,) = ray.sent
    assert sent.context == (f"{tmp_path}/a.txt", "/dev/null", f"{tmp_path}/*.txt", {"text": "d"})
    assert sent.digest == task.digest


async def test_a_task_whose_file_is_gone_here_is_not_sent(tmp_path: Path) -> None:
    ray = FakeRay()
    async with engine_of(ray, 1, 1) as run:
        line = await run(BatchTask("t", "Who?", (str(tmp_path / "gone"),), None, {}, ""), "run", Limits())
    assert line["error"]["type"] == "DocumentError"
    assert ray.sent == []
