"""Test `rlm batch` with real processes, a provider that counts, and kill -9 in the middle."""

from __future__ import annotations

import json
import signal
import socket
import time
from collections import Counter
from collections.abc import Callable
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pytest


@pytest.fixture
def tasks(tmp_path: Path) -> Callable[..., Path]:
    """Return `tasks(12)`, which writes a file of 12 tasks, each over its own short text."""

    def write(count: int, **more: Any) -> Path:
        path = tmp_path / "tasks.jsonl"
        with path.open("w") as file:
            for number in range(count):
                task = {"id": f"t{number}", "task": f"Which number is it, in task {number}?"}
                task |= {"context": [{"text": f"The number is {number}. Nothing else is said."}], **more}
                file.write(json.dumps(task) + "\n")
        return path

    return write


@pytest.fixture
def counting(provider_server):
    """Yield a provider with a root of two rounds and a child between them. `asked` counts the requests by
    task, role and round. Each reply takes a twentieth of a second.
    """
    asked: Counter[str] = Counter()

    def reply(received) -> str:
        time.sleep(0.05)
        if "repl" not in received.system:
            number = received.prompt.split("The number is ")[1].split(".")[0]
            asked[f"child {number}"] += 1
            return f"It is {number}."
        task = received.prompt.split("in task ")[1].split("?")[0] if "in task " in received.prompt else ""
        prompt = "\n".join(str(message["content"]) for message in received.body["messages"])
        task = task or prompt.split("in task ")[1].split("?")[0]
        rounds = sum(message["role"] == "assistant" for message in received.body["messages"])
        asked[f"root {task} {rounds}"] += 1
        if rounds == 0:
            return "```repl\nsaid = str(sub_query('Which number?', (0, 30)))\nprint(said)\n```"
        return "```repl\nfinalize(said)\n```"

    provider_server.always = reply
    provider_server.asked = asked
    return provider_server


def options(provider) -> list[str]:
    return ["--model", f"openai:m@{provider.url}/v1", "--strategy", "rlm"]


def lines_of(out: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in out.read_text().splitlines()]


def test_after_a_kill_no_task_is_lost_doubled_or_paid_twice(
    rlm, rlm_process, counting, tasks, tmp_path: Path
) -> None:
    path, out = tasks(16), tmp_path / "r.jsonl"
    command = ["batch", str(path), "--out", str(out), "--jobs", "4", *options(counting)]
    for kill_at in (3, 9):
        process = rlm_process(*command)
        while process.poll() is None and (not out.exists() or out.read_bytes().count(b"\n") < kill_at):
            time.sleep(0.005)
        process.send_signal(signal.SIGKILL)
        process.wait(10)
    with out.open("ab") as file:
        file.write(b'{"id": "t15", "ans')  # as if the writer was killed in the middle of a line
    done = len(lines_of_complete(out))
    ran = rlm(*command)
    assert ran.code == 0, ran.stderr
    assert f"{done} of 16 tasks done" in ran.stderr
    lines = lines_of(out)
    assert sorted(line["id"] for line in lines) == sorted(f"t{n}" for n in range(16))
    assert all(line["answer"] == f"It is {line['id'][1:]}." for line in lines)
    # Calls in flight at a kill were sent without a reply: at most one call a job, each time.
    twice = {question: times for question, times in counting.asked.items() if times > 1}
    assert sum(times - 1 for times in twice.values()) <= 2 * 4, twice
    assert len(counting.asked) == 16 * 3
    assert len({line["run_id"] for line in lines}) == 16


def lines_of_complete(out: Path) -> list[bytes]:
    return [line for line in out.read_bytes().splitlines(keepends=True) if line.endswith(b"\n")]


def test_an_interrupt_names_the_command_that_resumes(rlm, rlm_process, counting, tasks, tmp_path) -> None:
    path, out = tasks(8), tmp_path / "r.jsonl"
    command = ["batch", str(path), "--out", str(out), "--jobs", "2", *options(counting)]
    process = rlm_process(*command)
    while process.poll() is None and (not out.exists() or out.read_bytes().count(b"\n") < 3):
        time.sleep(0.01)
    process.send_signal(signal.SIGINT)
    _, stderr = process.communicate(timeout=30)
    assert process.returncode == 130, stderr
    assert f"in {out}; the same command resumes the batch" in stderr
    assert "Traceback" not in stderr
    assert rlm(*command).code == 0
    assert len({line["id"] for line in lines_of(out)}) == 8


def test_a_second_interrupt_exits_at_once_with_whole_lines(
    rlm, rlm_process, counting, tasks, tmp_path
) -> None:
    path, out = tasks(8), tmp_path / "r.jsonl"
    command = ["batch", str(path), "--out", str(out), "--jobs", "4", *options(counting)]
    process = rlm_process(*command)
    while process.poll() is None and (not out.exists() or out.read_bytes().count(b"\n") < 2):
        time.sleep(0.01)
    for _ in range(2):
        process.send_signal(signal.SIGINT)
        time.sleep(0.02)
    _, stderr = process.communicate(timeout=30)
    assert process.returncode == 130, stderr
    assert "Traceback" not in stderr
    assert rlm(*command).code == 0
    assert sorted(line["id"] for line in lines_of(out)) == sorted(f"t{n}" for n in range(8))


def test_a_restart_of_postgresql_is_waited_for_and_nothing_is_paid_twice(
    rlm_process, counting, tasks, restartable_postgres, tmp_path: Path
) -> None:
    url, restart = restartable_postgres
    path, out = tasks(24), tmp_path / "r.jsonl"
    process = rlm_process(
        "batch", str(path), "--out", str(out), "--jobs", "4", "--store", url, *options(counting)
    )
    for after in (4, 12):
        while process.poll() is None and (not out.exists() or out.read_bytes().count(b"\n") < after):
            time.sleep(0.01)
        assert process.poll() is None, process.stderr.read()
        restart(0.5).result()
    _, stderr = process.communicate(timeout=60)
    assert process.returncode == 0, stderr
    assert sorted(line["id"] for line in lines_of(out)) == sorted(f"t{n}" for n in range(24))
    assert len(counting.asked) == 24 * 3
    assert set(counting.asked.values()) == {1}


def test_without_a_key_it_answers_offline_and_prints_a_table(rlm, tasks, tmp_path) -> None:
    out = tmp_path / "r.jsonl"
    ran = rlm("batch", str(tasks(6)), "--out", str(out))
    assert ran.code == 0, ran.stderr
    assert ran.stdout == ""
    table = dict(line.split(maxsplit=1) for line in ran.stderr.splitlines() if line)
    assert table["tasks"] == "6"
    assert table["answered"] == "6"
    assert table["cost"] == "$0"
    assert {line["id"] for line in lines_of(out)} == {f"t{n}" for n in range(6)}
    again = rlm("batch", str(tmp_path / "tasks.jsonl"), "--out", str(out), "--json", "--quiet")
    assert again.stderr == ""
    assert (again.json["before"], again.json["done"], again.json["answered"]) == (6, 6, 6)


def test_bad_lines_end_it_in_one_line_before_anything_is_spent(rlm, counting, tasks, tmp_path) -> None:
    path = tasks(2)
    path.write_text(
        path.read_text() + '{"id": "t1", "task": "again", "context": [{"text": "x"}]}\nnot json\n'
    )
    out = tmp_path / "r.jsonl"
    ran = rlm("batch", str(path), "--out", str(out), *options(counting))
    assert ran.code == 2
    assert "line 3 has the id of line 2" in ran.one_line
    assert "line 4 is not JSON" in ran.one_line
    assert not counting.asked
    assert not out.exists()
    skipping = rlm("batch", str(path), "--out", str(out), "--skip-bad", *options(counting))
    assert skipping.code == 1
    lines = {line["id"]: line for line in lines_of(out)}
    assert set(lines) == {"t0", "t1", "line 3", "line 4"}
    assert lines["line 4"]["error"]["type"] == "BadTask"
    assert lines["t1"]["answer"] == "It is 1."


def test_a_budget_without_known_prices_is_refused_before_anything_is_spent(rlm, tasks, tmp_path) -> None:
    remote = "openai:m@http://models.example/v1"  # a server on this machine costs nothing
    command = ["batch", str(tasks(2)), "--out", str(tmp_path / "r.jsonl"), "--model", remote]
    ran = rlm(*command, "--budget", "1")
    assert ran.code == 2
    assert f"the price of {remote}" in ran.one_line
    assert "leave --budget out" in ran.one_line
    assert not (tmp_path / "r.jsonl").exists()


def test_a_dry_run_estimates_without_a_call(rlm, counting, tasks, tmp_path) -> None:
    out = tmp_path / "r.jsonl"
    ran = rlm("batch", str(tasks(3)), "--out", str(out), "--dry-run", "--json", *options(counting))
    assert ran.code == 0, ran.stderr
    assert ran.json["tasks"] == 3
    assert ran.json["calls"] > 3
    assert not counting.asked
    assert not out.exists()


def test_a_dry_run_plans_tasks_about_the_same_documents_once(rlm, tmp_path) -> None:
    (tmp_path / "a.txt").write_text("One. Two. Three.\n" * 50)
    shared = [{"id": n, "task": f"Question {n}?", "context": [str(tmp_path / "a.txt")]} for n in range(300)]
    other = [{"id": "x", "task": "What?", "context": [{"text": "another text"}]}]
    (tmp_path / "t.jsonl").write_text("\n".join(map(json.dumps, [*shared, *other])))
    one = rlm("ask", "What?", str(tmp_path / "a.txt"), "--dry-run", "--json").json
    ran = rlm("batch", str(tmp_path / "t.jsonl"), "--out", str(tmp_path / "r"), "--dry-run", "--json")
    assert ran.code == 0, ran.stderr
    assert ran.json["tasks"] == 301
    assert ran.json["chars"] == 300 * one["chars"] + len("another text")
    assert 300 * one["tokens"] < ran.json["tokens"] < 302 * one["tokens"]


@pytest.mark.parametrize("option", [("--address", "auto"), ("--workers", "2")])
def test_a_cluster_without_its_engine_is_a_usage_error(rlm, tasks, tmp_path, option) -> None:
    ran = rlm("batch", str(tasks(1)), "--out", str(tmp_path / "r.jsonl"), *option)
    assert ran.code == 2
    assert ran.one_line.startswith(f"rlm: {option[0]} needs a Ray cluster: add --engine ray")


def test_nodes_of_a_cluster_need_a_store_that_all_of_them_reach(rlm, tasks, tmp_path) -> None:
    command = ["batch", str(tasks(1)), "--out", str(tmp_path / "r.jsonl"), "--engine", "ray"]
    ran = rlm(*command, "--address", "auto")
    assert ran.code == 2
    assert "--store postgresql://" in ran.one_line


@pytest.mark.skipif(find_spec("ray") is not None, reason="Ray is installed: nothing is missing")
def test_without_ray_installed_it_says_what_to_install(rlm, tasks, tmp_path) -> None:
    command = ["batch", str(tasks(1)), "--out", str(tmp_path / "r.jsonl"), "--engine", "ray"]
    ran = rlm(*command)
    assert ran.code == 2
    assert "pip install -e '.[ray]'" in ran.one_line


def test_a_cluster_with_other_versions_is_named_with_both(run_process, tasks, tmp_path) -> None:
    """The test uses a stand-in for a Ray that refuses as the real one does."""
    (tmp_path / "ray").mkdir()
    (tmp_path / "ray" / "__init__.py").write_text(
        "def init(**_):\n"
        "    raise RuntimeError('Version mismatch: The cluster was started with:\\n    Ray: 2.1\\n"
        "This process on 10.0.0.1 was started with:\\n    Ray: 2.60\\n')\n"
    )
    with socket.create_server(("127.0.0.1", 0)) as head:
        command = ["batch", str(tasks(1)), "--out", str(tmp_path / "r.jsonl"), "--engine", "ray"]
        command += [
            "--address",
            f"127.0.0.1:{head.getsockname()[1]}",
            "--store",
            "postgresql://127.0.0.1:1/x",
        ]
        ran = run_process(*command, env={"PYTHONPATH": str(tmp_path)})
    assert ran.code == 2
    assert "check --address, and that it has the same Python and Ray" in ran.one_line
    assert "Ray: 2.1 " in ran.one_line
    assert "Ray: 2.60" in ran.one_line
