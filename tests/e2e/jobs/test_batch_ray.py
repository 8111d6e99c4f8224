"""Test `rlm batch --engine ray` on real clusters whose nodes, workers and drivers are killed."""

from __future__ import annotations

import asyncio
import json
import os
import signal
import sqlite3
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import psycopg
import pytest

from rlm.journal import Journal

ray = pytest.importorskip("ray", reason="Ray is not installed here: `make test-ray` runs these")

TASKS = int(os.environ.get("RLM_TEST_RAY_TASKS", "24"))
JOBS = 4
PARTS = 4
LATENCY = 0.1
pytestmark = [pytest.mark.ray, pytest.mark.timeout(240), pytest.mark.filterwarnings("default")]


@pytest.fixture(scope="module")
def _cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Any]:
    from ray.cluster_utils import Cluster

    home = tmp_path_factory.mktemp("home")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("RAY_USAGE_STATS_ENABLED", "0")
        patch.setenv("RAY_ENABLE_UV_RUN_RUNTIME_ENV", "0")
        patch.setenv("HOME", str(home))
        for name in ("CACHE", "STATE", "CONFIG", "DATA"):
            patch.setenv(f"XDG_{name}_HOME", str(home / name))
        patch.setenv("OPENAI_API_KEY", "sk-of-the-nodes-0123456789")
        two = Cluster(initialize_head=True, head_node_args={"num_cpus": 1, "include_dashboard": False})
        try:
            yield two
        finally:
            two.shutdown()


@pytest.fixture
def cluster(_cluster: Any) -> Any:
    """Yield two nodes of one CPU each. The tests share them and may kill the second."""
    if not _cluster.worker_nodes:
        _cluster.add_node(num_cpus=1)
    return _cluster


@dataclass
class Asked:
    """The replies of a provider, and the times at which each was requested."""

    times: dict[str, list[float]] = field(default_factory=dict)
    tokens: int = 0
    also: Callable[[int], None] = lambda _: None
    """Called with the number of every task that a root is asked for."""

    def reply(self, received: Any, answer: Any) -> Any:
        """Answer a root that asks a child for each part of its text and then finalizes their replies. Each
        reply belongs to one call alone.
        """
        prompt = "\n".join(str(message["content"]) for message in received.body["messages"])
        if "repl" not in received.system:
            text = prompt.split("the word is ")[1].split(".")[0]
        else:
            number = int(prompt.split("of note ")[1].split("?")[0])
            self.also(number)
            code = "finalize(sorted(said))"
            if sum(message["role"] == "assistant" for message in received.body["messages"]) == 0:
                size = len(part(0, 0))
                spans = [(size * one, size * (one + 1)) for one in range(PARTS)]
                code = f"said = [str(one) for one in sub_query_batch('Which word?', {spans})]\nprint(said)"
            text = f"```repl\n# for note {number}\n{code}\n```"
        self.times.setdefault(text, []).append(time.time())
        tokens = len(prompt) // 4
        self.tokens += tokens
        return answer(text, delay=LATENCY, usage=(tokens, 0, 0))

    @property
    def calls(self) -> int:
        return sum(map(len, self.times.values()))

    @property
    def again(self) -> int:
        """Return how many replies were requested more than once."""
        return sum(len(times) - 1 for times in self.times.values())

    def asked_though_kept(self, store: str) -> list[str]:
        """Return the replies that were requested although the journal had them. Prints the evidence (-rP
        shows it).
        """
        query = "SELECT at, data FROM events WHERE kind IN ('child', 'model_call')"
        connect = psycopg.connect if "://" in store else sqlite3.connect
        with connect(store) as connection:
            rows = connection.execute(query).fetchall()
        kept = Counter(json.loads(data)["reply"] for _, data in rows)
        print(f"{self.calls} calls, {len(kept)} replies kept, {self.again} asked again")
        assert kept.keys() <= self.times.keys()
        assert set(kept.values()) == {1}, "the journal has a reply twice"
        return [reply for at, data in rows if max(self.times[reply := json.loads(data)["reply"]]) > at]


def part(number: int, one: int) -> str:
    return f"Note {number:05d}, part {one}: the word is w{number:05d}{one}.\n"


@pytest.fixture
def asked(provider_server: Any, providers: Any) -> Asked:
    found = Asked()
    provider_server.always = lambda received: found.reply(received, providers.Answer)
    return found


class Folder:
    """A file of tasks, and the command that runs them."""

    def __init__(self, folder: Path, environment: dict[str, str], url: str) -> None:
        self.folder = folder
        self.tasks, self.out, self.log = folder / "tasks.jsonl", folder / "r.jsonl", folder / "log"
        self.environment = {**environment, "OPENAI_API_KEY": "sk-of-the-driver-0123456789"}
        self.model = f"openai:m@{url}/v1"

    def write(self, count: int, **more: Any) -> None:
        with self.tasks.open("w") as file:
            for number in range(count):
                text = "".join(part(number, one) for one in range(PARTS))
                task = {"id": f"t{number}", "task": f"Which words are those of note {number}?"}
                file.write(json.dumps(task | {"context": [{"text": text}]} | more) + "\n")

    def start(self, *more: str, jobs: int = JOBS) -> subprocess.Popen[bytes]:
        command = [sys.executable, "-m", "rlm", "batch", str(self.tasks), "--out", str(self.out)]
        command += ["--engine", "ray", "--jobs", str(jobs), "--strategy", "rlm", "--model", self.model, *more]
        with self.log.open("a") as stream:
            return subprocess.Popen(
                ["env", "--default-signal=INT,TERM,HUP", *command],
                stdout=stream,
                stderr=stream,
                env=self.environment,
                cwd=self.folder,
            )

    def run(self, *more: str, jobs: int = JOBS) -> int:
        """Run the batch and return its exit code."""
        process = self.start(*more, jobs=jobs)
        try:
            return process.wait(150)
        finally:
            process.kill()
            process.wait()

    def wait_for(self, lines: int, process: subprocess.Popen[bytes]) -> None:
        while process.poll() is None and (
            not self.out.exists() or self.out.read_bytes().count(b"\n") < lines
        ):
            time.sleep(0.01)
        assert process.poll() is None, self.stderr

    def wait_until_printed(self, text: str) -> None:
        end = time.monotonic() + 60
        while text not in self.log.read_text():
            assert time.monotonic() < end, self.stderr
            time.sleep(0.05)

    @property
    def stderr(self) -> str:
        return self.log.read_text()[-2_000:]

    def lines(self) -> dict[str, dict[str, Any]]:
        lines = [json.loads(line) for line in self.out.read_text().splitlines()]
        found = {line["id"]: line for line in lines}
        assert len(found) == len(lines), "a task has two lines"
        return found

    def check_answers(self, count: int) -> None:
        lines = self.lines()
        assert lines.keys() == {f"t{number}" for number in range(count)}
        for number in range(count):
            expected = [f"w{number:05d}{one}" for one in range(PARTS)]
            assert lines[f"t{number}"]["answer"] == expected, lines[f"t{number}"]


@pytest.fixture
def folder(tmp_path: Path, environment: dict[str, str], provider_server: Any) -> Folder:
    return Folder(tmp_path, environment, provider_server.url)


IN_FLIGHT = JOBS * PARTS
"""Calls that a worker may have in flight when it dies: nobody can know whether they were answered."""


def test_after_the_loss_of_a_node_no_task_is_lost_doubled_or_paid_twice(
    cluster: Any, asked: Asked, folder: Folder, postgres_url: str
) -> None:
    folder.write(TASKS)
    (lost,) = cluster.worker_nodes
    (raylet,) = lost.all_processes["raylet"]

    def wait(_: int) -> None:
        """Nothing is answered before the node has a task. Otherwise the other node might do them all."""
        end = time.monotonic() + 120
        while not runners(postgres_url) & set(workers_under(raylet.process.pid)):
            assert time.monotonic() < end
            time.sleep(0.05)
        asked.also = lambda _: None

    asked.also = wait
    process = folder.start("--address", cluster.address, "--store", postgres_url)
    try:
        folder.wait_for(TASKS // 4, process)
        cluster.remove_node(lost, allow_graceful=False)
        assert process.wait(150) == 0, folder.stderr
    finally:
        process.kill()
        process.wait()
    folder.check_answers(TASKS)
    assert asked.asked_though_kept(postgres_url) == []
    assert asked.again <= IN_FLIGHT
    # Each call that was answered and kept was made once, and paid once.
    calls = sum(usage["calls"] for line in folder.lines().values() for usage in line["usage"])
    assert calls == (2 + PARTS) * TASKS
    with psycopg.connect(postgres_url) as connection:
        resumed = connection.execute("SELECT count(*) FROM events WHERE kind = 'resumed'").fetchone()
    assert resumed is not None
    assert 1 <= resumed[0] <= JOBS, "the tasks of the lost node resume from the journal"


def test_after_a_kill_of_the_driver_nothing_is_lost_doubled_or_paid_twice(
    cluster: Any, asked: Asked, folder: Folder, postgres_url: str
) -> None:
    folder.write(TASKS)
    command = ["--address", cluster.address, "--store", postgres_url]
    for lines in (TASKS // 4, TASKS // 2):
        process = folder.start(*command)
        folder.wait_for(lines, process)
        process.send_signal(signal.SIGKILL)
        process.wait()
    assert folder.run(*command) == 0, folder.stderr
    folder.check_answers(TASKS)
    assert asked.asked_though_kept(postgres_url) == []
    assert asked.again <= 2 * 2 * IN_FLIGHT


def test_after_the_loss_of_a_worker_over_sqlite_nothing_is_lost_doubled_or_paid_twice(
    asked: Asked, folder: Folder
) -> None:
    folder.write(TASKS)
    store = str(folder.folder / "rlm.db")
    process = folder.start("--workers", "2", "--store", store)
    try:
        folder.wait_for(TASKS // 4, process)
        os.kill(min(workers_under(process.pid)), signal.SIGKILL)
        assert process.wait(150) == 0, folder.stderr
    finally:
        process.kill()
        process.wait()
    folder.check_answers(TASKS)
    assert asked.asked_though_kept(store) == []
    assert asked.again <= IN_FLIGHT


def test_an_interrupt_leaves_runs_that_can_be_resumed(asked: Asked, folder: Folder) -> None:
    folder.write(TASKS)
    store = str(folder.folder / "rlm.db")
    process = folder.start("--workers", "1", "--store", store)
    try:
        folder.wait_for(4, process)
        process.send_signal(signal.SIGINT)
        assert process.wait(60) == 130, folder.stderr
    finally:
        process.kill()
        process.wait()
    assert "the same command resumes the batch" in folder.stderr

    async def states() -> set[str]:
        async with Journal.open(store) as journal:
            return {run.state for run in await journal.runs(None)}

    # The signal may come between two tasks: then none was interrupted. One whose worker was ended counts as
    # interrupted, too.
    assert asyncio.run(states()) <= {"finished", "interrupted"}
    assert folder.run("--workers", "1", "--store", store) == 0, folder.stderr
    folder.check_answers(TASKS)
    assert asked.asked_though_kept(store) == []


def runners(store: str) -> set[int]:
    """Return the processes that have started runs."""
    with psycopg.connect(store) as connection:
        rows = connection.execute("SELECT process FROM runs WHERE process IS NOT NULL").fetchall()
    return {json.loads(process)["pid"] for (process,) in rows}


def workers_under(pid: int) -> list[int]:
    """Return our Ray workers among the descendants of a process."""
    parents: dict[int, int] = {}
    found: list[int] = []
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            try:
                parents[int(entry.name)] = int((entry / "stat").read_text().rsplit(")", 1)[1].split()[1])
                if (entry / "cmdline").read_bytes().startswith(b"ray::Worker"):
                    found.append(int(entry.name))
            except OSError:
                pass

    def below(one: int) -> bool:
        while one in parents:
            one = parents[one]
            if one == pid:
                return True
        return False

    return [one for one in found if below(one)]


def test_a_task_that_kills_every_worker_fails_and_the_other_tasks_get_answers(
    cluster: Any, asked: Asked, folder: Folder, postgres_url: str
) -> None:
    """The worker is killed whenever its root is asked, like a task that takes all memory."""
    folder.write(12)
    killed: list[int] = []

    def kill(number: int) -> None:
        if number == 5:
            with psycopg.connect(postgres_url) as connection:
                query = "SELECT process FROM runs WHERE task LIKE '%%of note 5?%%'"
                (process,) = connection.execute(query).fetchone() or ()
            killed.append(json.loads(process)["pid"])
            os.kill(killed[-1], signal.SIGKILL)

    asked.also = kill
    assert folder.run("--address", cluster.address, "--store", postgres_url) == 1, folder.stderr
    lines = folder.lines()
    assert lines["t5"]["error"]["type"] == "WorkerLost"
    assert "all 4 workers that ran it were lost" in lines["t5"]["error"]["message"]
    assert {id_ for id_, line in lines.items() if line["answer"] is None} == {"t5"}
    assert len(killed) == 4
    assert len(lines) == 12


def test_no_key_is_in_the_tasks_that_ray_is_given_nor_in_what_it_writes(
    cluster: Any, asked: Asked, folder: Folder, postgres_url: str
) -> None:
    folder.write(4)
    assert folder.run("--address", cluster.address, "--store", postgres_url) == 0, folder.stderr
    session = Path(cluster.head_node.get_session_dir_path())
    written = [path for path in session.rglob("*") if path.is_file()]
    assert len(written) > 10
    for key in (b"sk-of-the-nodes-0123456789", b"sk-of-the-driver-0123456789"):
        assert [path.name for path in written if key in path.read_bytes()] == []


def test_a_password_in_the_stores_url_is_refused_because_ray_would_see_it(
    cluster: Any, folder: Folder
) -> None:
    folder.write(1)
    store = "postgresql://rlm:secret-of-the-store@127.0.0.1:1/none"
    assert folder.run("--address", cluster.address, "--store", store) == 2
    assert "set PGPASSWORD (or ~/.pgpass) here and on every node" in folder.stderr
    assert "secret-of-the-store" not in folder.stderr


def test_a_file_that_a_node_lacks_stops_the_batch_early(
    cluster: Any, asked: Asked, folder: Folder, postgres_url: str
) -> None:
    """The nodes and the driver have different homes, like machines without a shared folder."""
    (Path(folder.environment["HOME"]) / "notes.txt").write_text(part(0, 0) * PARTS)
    folder.write(30, context=["~/notes.txt"])
    assert folder.run("--address", cluster.address, "--store", postgres_url) == 2
    last = folder.stderr.splitlines()[-1]
    assert "notes.txt" in last
    assert "on node " in last
    assert "paths must name the same files on every node" in last
    assert folder.out.read_bytes() == b""
    assert asked.calls == 0


def test_nodes_with_another_rlm_or_none_are_named_and_the_others_work(
    cluster: Any, asked: Asked, folder: Folder, postgres_url: str
) -> None:
    import rlm

    older = folder.folder / "older" / "rlm"
    older.mkdir(parents=True)
    for entry in Path(rlm.__file__).parent.iterdir():
        (older / entry.name).symlink_to(entry)
    source = (older / "version.py").read_text()
    (older / "version.py").unlink()
    (older / "version.py").write_text(source + '\n__version__ = "0.0.1"\n')
    broken = folder.folder / "broken" / "rlm"
    broken.mkdir(parents=True)
    (broken / "__init__.py").write_text("raise ModuleNotFoundError('no rlm on this node')\n")
    paths = [str(other.parent) for other in (older, broken)]
    added = [cluster.add_node(num_cpus=1, env_vars={"PYTHONPATH": path}) for path in paths]

    def wait(_: int) -> None:
        folder.wait_until_printed("its rlm-kernel is 0.0.1, not ")
        folder.wait_until_printed("it cannot be started (ModuleNotFoundError: no rlm")

    asked.also = wait
    try:
        folder.write(8)
        assert folder.run("--address", cluster.address, "--store", postgres_url, "--workers", "4") == 0
        folder.check_answers(8)
    finally:
        for node in added:
            cluster.remove_node(node, allow_graceful=False)


def test_two_workers_together_spend_no_more_than_the_budget_and_one_call(
    cluster: Any, asked: Asked, folder: Folder, postgres_url: str
) -> None:
    """The budget is enough for about half of the tasks. At the second start no new task starts."""
    price = 5.0
    (folder.folder / "rlm.toml").write_text(
        f'[models."{folder.model}"]\ninput_price = {price}\noutput_price = 0.0\n'
    )
    folder.write(24)
    command = ["--address", cluster.address, "--store", postgres_url, "--config", "rlm.toml"]
    assert folder.run(*command, "--budget", "0.5") == 1, folder.stderr
    lines = folder.lines()
    assert len(lines) == 24
    spent = sum(usage["cost_usd"] for line in lines.values() for usage in line["usage"])
    assert spent == pytest.approx(asked.tokens * price / 1e6)
    assert 0.25 < spent <= 0.5 + 2 * 4_000 * price / 1e6
    assert {line["error"]["type"] for line in lines.values() if line["error"]} == {"BudgetExhausted"}


def test_without_an_address_a_cluster_of_this_machine_runs_the_tasks(rlm: Any, tmp_path: Path) -> None:
    path, out = tmp_path / "tasks.jsonl", tmp_path / "r.jsonl"
    (tmp_path / "work" / "anna.txt").write_text("It is Anna.")
    lines = [{"id": n, "task": "Who is it?", "context": ["anna.txt"]} for n in range(6)]
    path.write_text("".join(json.dumps(line) + "\n" for line in lines))
    ran = rlm("batch", str(path), "--out", str(out), "--engine", "ray", "--workers", "1", "--store", "own.db")
    assert ran.code == 0, ran.stderr
    assert sorted(json.loads(line)["id"] for line in out.read_text().splitlines()) == list(range(6))
    assert (tmp_path / "work" / "own.db").exists(), "paths are those of the folder it was called from"


def test_a_cluster_that_is_not_there_is_named_in_one_line(rlm: Any, tmp_path: Path) -> None:
    path = tmp_path / "tasks.jsonl"
    path.write_text('{"id": 1, "task": "Who?", "context": [{"text": "Anna."}]}\n')
    command = ["batch", str(path), "--out", str(tmp_path / "r.jsonl"), "--engine", "ray"]
    ran = rlm(*command, "--address", "127.0.0.1:1", "--store", "postgresql://127.0.0.1:1/none")
    assert ran.code == 2, ran.stderr
    assert "there is no Ray cluster at 127.0.0.1:1" in ran.stderr.splitlines()[-1]
