"""Test `--slow` with real processes, a provider that counts what it bills, and kill -9 while calls wait."""

from __future__ import annotations

import json
import signal
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

pytestmark = pytest.mark.timeout(400)  # waits for real batches, in many processes

MODELS = {"anthropic": "anthropic:claude-haiku-5-5", "openai": "openai:gpt-5-mini"}
USAGE = (1_000, 100, 0)
CELL = """```repl
said = sub_query_batch("Which number?", [chunk for chunk in chunk(max_chars=40)])
print(sorted(set(said)))
```"""


@pytest.fixture(params=["anthropic", "openai"])
def provider(request, batch_server, environment, monkeypatch, providers) -> Any:
    """Yield a provider whose root asks a batch of children and then answers. `environment` leads to it."""

    def reply(received) -> Any:
        if "repl" not in received.system:
            return providers.Answer(f"It is {len(received.prompt)}.", usage=USAGE)
        rounds = sum(message["role"] == "assistant" for message in received.body["messages"])
        text = CELL if rounds == 0 else "```repl\nfinalize(f'{len(said)} said')\n```"
        return providers.Answer(text, usage=USAGE)

    batch_server.always = reply
    batch_server.model = MODELS[request.param]
    environment["RLM_MODEL"] = batch_server.model
    environment["ANTHROPIC_API_KEY"] = environment["OPENAI_API_KEY"] = "sk-test-0123456789"
    environment["ANTHROPIC_BASE_URL"] = batch_server.url
    environment["OPENAI_BASE_URL"] = f"{batch_server.url}/v1"
    return batch_server


@pytest.fixture
def text(tmp_path: Path) -> Path:
    path = tmp_path / "numbers.txt"
    path.write_text("".join(f"The number of row {number} is {number * 7}.\n" for number in range(20)))
    return path


def wait_for(condition: Callable[[], bool], seconds: float = 60.0) -> None:
    end = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < end, "it did not happen"
        time.sleep(0.05)


def test_a_run_killed_while_its_children_wait_collects_them(provider, rlm_process, rlm, text) -> None:
    """Killed twice: while the children wait, and while the last round waits. Each call is billed once."""
    provider.hold(after=1)
    process = rlm_process("ask", "Which numbers?", str(text), "--slow", "--strategy", "rlm")
    wait_for(lambda: len(provider.created) == 2)  # the root is answered: the children wait
    children = len(provider.created[1].entries)
    assert children > 5
    time.sleep(0.5)
    process.send_signal(signal.SIGKILL)
    process.wait()
    (run,) = rlm("runs", "--json").json
    waits = rlm("runs", "waiting", "--json").json
    assert [(one["provider_id"], one["runs"]) for one in waits] == [(provider.created[1].id, [run["run_id"]])]

    provider.hold(after=2)
    again = rlm_process("resume", run["run_id"])
    wait_for(lambda: len(provider.created) == 3)
    time.sleep(0.5)
    again.send_signal(signal.SIGKILL)
    again.wait()
    provider.release()
    ended = rlm("resume", run["run_id"], "--json")
    assert ended.code == 0, ended.stderr
    assert ended.json["answer"] == f"{children} said"
    assert [len(batch.entries) for batch in provider.created] == [1, children, 1]
    assert set(provider.billed.values()) == {1}
    (usage,) = ended.json["usage"]
    assert (usage["calls"], usage["input_tokens"]) == (children + 2, 1_000 * (children + 2))
    in_price, out_price = {"anthropic": (0.1, 0.5), "openai": (0.25, 2.0)}[provider.model.partition(":")[0]]
    full = (children + 2) * (1_000 * in_price + 100 * out_price) / 1_000_000
    assert usage["cost_usd"] == pytest.approx(full / 2)
    events = [json.loads(line) for line in rlm("export", run["run_id"]).stdout.splitlines()]
    batches = [event["data"]["batch"] for event in events if event["kind"] in ("child", "model_call")]
    assert batches == [provider.created[0].id, *[provider.created[1].id] * children, provider.created[2].id]
    assert rlm("runs", "waiting", "--json").json == []


def test_a_run_killed_while_its_batch_is_created_sends_it_again(provider, rlm_process, rlm, text) -> None:
    provider.stalls = True
    process = rlm_process("ask", "Which numbers?", str(text), "--slow", "--strategy", "direct")
    wait_for(lambda: len(provider.created) == 1)
    process.send_signal(signal.SIGKILL)
    process.wait()
    provider.stalls = False
    (run,) = rlm("runs", "--json").json
    assert rlm("runs", "waiting", "--json").json == []
    rlm("resume", run["run_id"], "--quiet")
    assert len(provider.created) == 2


def test_a_batch_of_tasks_killed_while_it_waits_resumes_and_pays_nothing_twice(
    provider, rlm_process, rlm, tmp_path
) -> None:
    count = 24
    tasks = tmp_path / "tasks.jsonl"
    with tasks.open("w") as file:
        for number in range(count):
            task = {
                "id": number,
                "task": f"Which number, {number}?",
                "context": [{"text": f"It is {number}."}],
            }
            file.write(json.dumps(task) + "\n")
    out = tmp_path / "out.jsonl"
    command = ("batch", str(tasks), "--out", str(out), "--slow", "--strategy", "direct", "--budget", "1")
    provider.hold()
    process = rlm_process(*command)
    wait_for(lambda: sum(len(batch.entries) for batch in provider.created) == count)
    time.sleep(0.5)
    process.send_signal(signal.SIGKILL)
    process.wait()
    assert len(provider.created) <= 3  # all tasks in few batches
    provider.release()
    ended = rlm(*command, "--json")
    assert ended.json["tasks"] == count
    lines = [json.loads(line) for line in out.read_text().splitlines()]
    assert sorted(line["id"] for line in lines) == list(range(count))
    assert {line["error"] for line in lines} == {None}
    assert provider.calls == count
    assert set(provider.billed.values()) == {1}


def test_ctrl_c_says_that_the_batch_stays_and_it_can_be_cancelled(provider, rlm_process, rlm, text) -> None:
    provider.hold()
    process = rlm_process("ask", "Which numbers?", str(text), "--slow", "--strategy", "direct")
    wait_for(lambda: len(provider.created) == 1)
    time.sleep(3)
    process.send_signal(signal.SIGINT)
    _, said = process.communicate(timeout=30)
    name = provider.created[0].id
    assert process.returncode == 130
    assert f"the batch {name} stays at the provider" in said
    assert "rlm resume" in said
    assert rlm("runs", "waiting").stdout.startswith(name)
    assert rlm("runs", "waiting", "--cancel", name).code == 0
    assert provider.created[0].state == "cancelled"
    (run,) = rlm("runs", "--json").json
    assert rlm("resume", run["run_id"]).code == 4  # the call was cancelled
    assert provider.calls == 0


@pytest.mark.parametrize("model", ["extractive", "openai:m@http://127.0.0.1:9/v1"])
def test_a_model_without_a_batch_api_is_refused_before_anything_is_read(rlm, text, model) -> None:
    ran = rlm("ask", "Which numbers?", str(text), "--slow", "--model", model)
    assert ran.code == 2
    assert "has no batch API, which --slow needs: choose anthropic:NAME, openai:NAME" in ran.one_line


def test_a_dry_run_shows_half_the_price(provider, rlm, text) -> None:
    full = rlm("ask", "Which numbers?", str(text), "--dry-run", "--json").json
    half = rlm("ask", "Which numbers?", str(text), "--dry-run", "--slow", "--json").json
    assert half["cost_usd"] == pytest.approx(full["cost_usd"] / 2, abs=1e-4)
    assert half["seconds"] > full["seconds"]
