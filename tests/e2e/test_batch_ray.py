"""`rlm batch --engine ray` on a real cluster of two nodes, of which one is killed in the middle."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import psycopg
import pytest

ray = pytest.importorskip("ray", reason="Ray is not installed here: `make test-ray` runs these")

TASKS = int(os.environ.get("RLM_TEST_RAY_TASKS", "60"))
JOBS = 4
pytestmark = [pytest.mark.ray, pytest.mark.timeout(180), pytest.mark.filterwarnings("default")]


@pytest.fixture
def cluster(monkeypatch: pytest.MonkeyPatch) -> Iterator[Any]:
    """Two nodes of one CPU each."""
    from ray.cluster_utils import Cluster

    monkeypatch.setenv("RAY_USAGE_STATS_ENABLED", "0")
    monkeypatch.setenv("RAY_ENABLE_UV_RUN_RUNTIME_ENV", "0")
    two = Cluster(initialize_head=True, head_node_args={"num_cpus": 1, "include_dashboard": False})
    two.add_node(num_cpus=1)
    yield two
    two.shutdown()


@pytest.fixture
def counting(provider_server):
    """A provider with a root of two rounds and a child between them; `asked` counts every request."""
    asked: Counter[str] = Counter()

    def reply(received) -> str:
        time.sleep(0.05)
        if "repl" not in received.system:
            number = received.prompt.split("The number is ")[1].split(".")[0]
            asked[f"child {number}"] += 1
            return f"It is {number}."
        told = "\n".join(str(message["content"]) for message in received.body["messages"])
        task = told.split("in task ")[1].split("?")[0]
        rounds = sum(message["role"] == "assistant" for message in received.body["messages"])
        asked[f"root {task} {rounds}"] += 1
        if rounds == 0:
            return "```repl\nsaid = str(sub_query('Which number?', (0, 30)))\nprint(said)\n```"
        return "```repl\nfinalize(said)\n```"

    provider_server.always = reply
    provider_server.asked = asked
    return provider_server


def test_with_a_node_killed_in_the_middle_no_task_is_lost_doubled_or_paid_twice(
    cluster, counting, postgres_url: str, environment: dict[str, str], tmp_path: Path
) -> None:
    path, out = tmp_path / "tasks.jsonl", tmp_path / "r.jsonl"
    with path.open("w") as file:
        for number in range(TASKS):
            context = [{"text": f"The number is {number}. Nothing else is said."}]
            task = {"id": f"t{number}", "task": f"Which number is it, in task {number}?", "context": context}
            file.write(json.dumps(task) + "\n")
    command = [sys.executable, "-m", "rlm.cli", "batch", str(path), "--out", str(out), "--engine", "ray"]
    command += ["--address", cluster.address, "--store", postgres_url, "--jobs", str(JOBS)]
    command += ["--model", f"openai:m@{counting.url}/v1", "--strategy", "rlm"]
    log = tmp_path / "log"
    with log.open("w") as stream:
        process = subprocess.Popen(command, stdout=stream, stderr=stream, env=environment, cwd=tmp_path)
    try:
        while process.poll() is None and (not out.exists() or out.read_bytes().count(b"\n") < TASKS // 4):
            time.sleep(0.02)
        (lost,) = cluster.worker_nodes
        cluster.remove_node(lost, allow_graceful=False)
        process.wait(120)
    finally:
        process.kill()
        process.wait()
    assert process.returncode == 0, log.read_text()[-2_000:]
    lines = [json.loads(line) for line in out.read_text().splitlines()]
    assert sorted(line["id"] for line in lines) == sorted(f"t{n}" for n in range(TASKS))
    assert all(line["answer"] == f"It is {line['id'][1:]}." for line in lines)
    # What the lost node had in flight was asked and never heard: at most one call a job.
    twice = sum(times - 1 for times in counting.asked.values())
    assert twice <= JOBS, counting.asked
    # Of every call that was answered and kept there is one, and it was paid once.
    assert sum(usage["calls"] for line in lines for usage in line["usage"]) == 3 * TASKS
    with psycopg.connect(postgres_url) as connection:
        resumed = connection.execute("SELECT count(*) FROM events WHERE kind = 'resumed'").fetchone()
    assert resumed is not None
    assert 1 <= resumed[0] <= JOBS, "the tasks of the lost node go on from the journal"


def test_without_an_address_a_cluster_of_this_machine_runs_the_tasks(rlm, tmp_path: Path) -> None:
    path, out = tmp_path / "tasks.jsonl", tmp_path / "r.jsonl"
    (tmp_path / "work" / "anna.txt").write_text("It is Anna.")
    lines = [{"id": n, "task": "Who is it?", "context": ["anna.txt"]} for n in range(6)]
    path.write_text("".join(json.dumps(line) + "\n" for line in lines))
    ran = rlm("batch", str(path), "--out", str(out), "--engine", "ray", "--workers", "1", "--store", "own.db")
    assert ran.code == 0, ran.stderr
    assert sorted(json.loads(line)["id"] for line in out.read_text().splitlines()) == list(range(6))
    assert (tmp_path / "work" / "own.db").exists(), "paths are those of the folder it was called from"


def test_a_cluster_that_is_not_there_is_named_in_one_line(rlm, tmp_path: Path) -> None:
    path = tmp_path / "tasks.jsonl"
    path.write_text('{"id": 1, "task": "Who?", "context": [{"text": "Anna."}]}\n')
    command = ["batch", str(path), "--out", str(tmp_path / "r.jsonl"), "--engine", "ray"]
    ran = rlm(*command, "--address", "127.0.0.1:1", "--store", "postgresql://127.0.0.1:1/none")
    assert ran.code == 2, ran.stderr
    assert "there is no Ray cluster at 127.0.0.1:1" in ran.stderr.splitlines()[-1]
