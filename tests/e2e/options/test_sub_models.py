"""Several models of children on the command line, over a real server."""

from __future__ import annotations

import json

import pytest

QUESTION = "What was paid?"
LINES = [f"Invoice {n}: paid {n * 3} euros by firm number {n}.\n" for n in range(12)]
CELL = (
    "found = sub_query_batch('What was paid?', [(line.start, line.end) for line in read_lines()])\n"
    "finalize(list(found) + [str(sub_query('Again?', (0, 9), model='strong'))])"
)


class Provider:
    """Plays a root, a cheap model that reads the lines, and a strong one."""

    def __init__(self) -> None:
        self.asked: list[str] = []

    def __call__(self, received) -> str:
        if received.system.startswith("You are the root"):
            return f"```repl\n{CELL}\n```"
        self.asked.append(received.body["model"])
        if received.body["model"] == "big":
            return "strong"
        number = next(n for n in range(12) if f"Invoice {n}:" in received.prompt)
        return f"paid {number * 3}"


@pytest.fixture
def invoices(tmp_path):
    file = tmp_path / "invoices.txt"
    file.write_text("".join(LINES))
    return file


def models(url: str) -> list[str]:
    return ["--model", f"openai:root@{url}/v1", "--strategy", "rlm"]


def test_sub_models_over_a_real_server(rlm, invoices, provider_server) -> None:
    """Each model has its own usage, and the run is replayed with both."""
    played = provider_server.always = Provider()
    url = provider_server.url
    named = ["--sub-model", f"cheap=openai:small@{url}/v1", "--sub-model", f"strong=openai:big@{url}/v1"]
    ran = rlm("ask", QUESTION, str(invoices), "--json", *models(url), *named)
    assert ran.code == 0
    assert ran.json["answer"] == [f"paid {n * 3}" for n in range(12)] + ["strong"]
    assert (played.asked.count("small"), played.asked.count("big")) == (12, 1)
    assert {one["model"]: one["calls"] for one in ran.json["usage"]} == {
        f"openai:root@{url}/v1": 1,
        f"openai:small@{url}/v1": 12,
        f"openai:big@{url}/v1": 1,
    }
    replayed = rlm("replay", ran.json["run_id"])
    assert (replayed.code, json.loads(replayed.stdout)) == (0, ran.json["answer"])


def test_a_settings_file_names_models_in_a_table(rlm, invoices, provider_server, tmp_path) -> None:
    played = provider_server.always = Provider()
    url = provider_server.url
    config = tmp_path / "own.toml"
    config.write_text(
        f'[sub_model]\ncheap = "openai:small@{url}/v1"\nstrong = "openai:big@{url}/v1"\n', encoding="utf-8"
    )
    ran = rlm("ask", QUESTION, str(invoices), "--json", "--config", str(config), *models(url))
    assert ran.code == 0
    assert (played.asked.count("small"), played.asked.count("big")) == (12, 1)


def test_a_run_without_that_name_says_which_there_are(rlm, invoices, provider_server) -> None:
    provider_server.always = Provider()
    ran = rlm("ask", QUESTION, str(invoices), "--json", "--max-rounds", "2", *models(provider_server.url))
    assert ran.code == 1
    told = provider_server.requests[-1].prompt
    assert (
        f"there is no sub-model 'strong'. Those of this run are: openai:root@{provider_server.url}/v1" in told
    )
