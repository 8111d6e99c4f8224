"""Test replies that the output limit cuts, and thinking over rounds: over HTTP, with a real kernel."""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from rlm import RLM, Limits, RunResult, Settings
from rlm.replay import replay

TEXT = "The crane costs 7 euros.\n" + "Nothing is said here.\n" * 400
FINAL = "```repl\ncount('crane')\nfinalize('7 euros', evidence=['The crane costs 7 euros.'])\n```"


@pytest.fixture
def ask(provider_server, tmp_path: Path, monkeypatch) -> Callable[..., Any]:
    """Return `ask(name, …)`: a run of that model at the server over TEXT, in rounds."""
    monkeypatch.setenv("RLM_OPENAI_COMPATIBLE_KEY", "sk-test-0123456789")
    monkeypatch.setenv("RLM_OPENAI_COMPATIBLE_KEY_HOST", "127.0.0.1")
    monkeypatch.setenv("ANTHROPIC_API_KEY", "sk-ant-0123456789")
    monkeypatch.setenv("ANTHROPIC_BASE_URL", provider_server.url)

    async def run(
        name: str = "qwen3:8b", *, strategy: str = "rlm", limits: Limits | None = None, **options: Any
    ) -> RunResult:
        model = name if name.startswith("claude") else f"openai:{name}@{provider_server.url}/v1"
        rlm = RLM(
            model,
            limits=limits,
            settings=Settings(strategy=strategy, store=tmp_path / "rlm.db", sandbox=0),
            **options,
        )
        try:
            return await rlm.run("What does the crane cost?", TEXT)
        finally:
            await rlm.aclose()

    return run


def events(store: Path, kind: str) -> list[dict[str, Any]]:
    database = sqlite3.connect(store)
    try:
        rows = database.execute("SELECT data FROM events WHERE kind = ? ORDER BY seq", (kind,)).fetchall()
    finally:
        database.close()
    return [json.loads(row[0]) for row in rows]


async def test_a_block_that_is_cut_is_written_on(ask, provider_server, providers, tmp_path: Path) -> None:
    """It is one round, one event and one reply, with the tokens of both calls; a replay is the same."""
    half = "```repl\ncount('crane')\nx = 3 + 4\nfinalize(f'{x} eu"
    rest = "```repl\nfinalize(f'{x} euros', evidence=['The crane costs 7 euros.'])\n```"
    provider_server.play(
        providers.Answer(half, finish="length", usage=(100, 50, 0)),
        providers.Answer(rest, usage=(160, 30, 0)),
    )
    result = await ask(options={"thinking": 0})
    assert (result.answer, result.rounds, result.stop_reason) == ("7 euros", 1, "finalized")
    (usage,) = result.usage
    assert (usage.input_tokens, usage.output_tokens) == (260, 80)
    first, second = (one.body["messages"] for one in provider_server.requests)
    assert second[: len(first)] == first
    assert second[-2] == {"role": "assistant", "content": half}
    assert "cut by the output limit" in second[-1]["content"]
    (call,) = events(tmp_path / "rlm.db", "model_call")
    assert (call["finish_reason"], call["usage"]["output_tokens"]) == ("stop", 80)
    assert "x = 3 + 4\nfinalize(f'{x} euros'" in call["reply"]
    again = await replay(result.run_id, store=tmp_path / "rlm.db", settings=Settings(sandbox=0))
    assert again.equal


async def test_a_reply_that_is_all_thinking_gets_more_room(ask, provider_server, providers) -> None:
    provider_server.play(
        providers.Answer("", finish="length", reasoning="hmm " * 50, usage=(100, 24_000, 0)),
        providers.Answer(FINAL, usage=(100, 900, 0)),
    )
    result = await ask()
    assert (result.answer, result.rounds) == ("7 euros", 1)
    first, second = (one.body for one in provider_server.requests)
    assert "reasoning_effort" not in first
    assert second["reasoning_effort"] == "low"
    assert second["messages"] == first["messages"]
    assert second["max_tokens"] > first["max_tokens"] == 24_000


async def test_thinking_in_tags_is_no_reply_and_holds_no_block(ask, provider_server, providers) -> None:
    decoy = "<think>Maybe\n```repl\nfinalize('wrong')\n```\nno.</think>\n"
    provider_server.play(providers.Answer(decoy + FINAL, usage=None))
    result = await ask()
    assert (result.answer, result.rounds) == ("7 euros", 1)
    (usage,) = result.usage
    assert 0 < usage.reasoning_tokens < usage.output_tokens
    assert result.to_json()["usage"][0]["reasoning_tokens"] == usage.reasoning_tokens


async def test_thinking_goes_back_with_its_round_and_is_kept_for_a_resume(
    ask, provider_server, providers, tmp_path: Path
) -> None:
    cell = "```repl\nprint(1 + 1)\n```"
    provider_server.play(
        providers.Answer(f"Let me see.\n{cell}", reasoning="two things"), providers.Status(400, "stop here")
    )
    broken = await ask("deepseek-v4-pro")
    assert broken.stop_reason == "model"
    sent = provider_server.requests[-1].body["messages"]
    assert sent[2] == {"role": "assistant", "content": cell, "reasoning_content": "two things"}
    (call,) = events(tmp_path / "rlm.db", "model_call")
    assert (call["thinking"], call["carry"]) == ("two things", [{"reasoning_content": "two things"}])
    provider_server.play(providers.Answer(FINAL))
    rlm = RLM(
        f"openai:deepseek-v4-pro@{provider_server.url}/v1",
        settings=Settings(store=tmp_path / "rlm.db", sandbox=0),
    )
    resumed = await rlm.resume(broken.run_id)
    await rlm.aclose()
    assert resumed.answer == "7 euros"
    assert provider_server.requests[-1].body["messages"][2] == sent[2]


async def test_a_child_that_is_cut_is_joined(ask, provider_server, providers, tmp_path: Path) -> None:
    cell = "```repl\nprint(sub_query('List it.', (0, 200)))\nfinalize('7 euros')\n```"
    provider_server.play(
        providers.Answer(cell),
        providers.Answer("- the crane: 7 eu", finish="length", usage=(50, 20, 0)),
        providers.Answer("ros\n- nothing else", usage=(80, 9, 0)),
    )
    await ask("llama3.1:8b", options={"output": 4_000}, sub_options={"output": 20})
    (child,) = events(tmp_path / "rlm.db", "child")
    assert child["reply"] == "- the crane: 7 euros\n- nothing else"
    assert (child["usage"]["input_tokens"], child["usage"]["output_tokens"]) == (130, 29)
    assert [one.body["max_tokens"] for one in provider_server.requests] == [4_000, 20, 20]


async def test_a_direct_answer_that_is_cut_is_joined(ask, provider_server, providers) -> None:
    provider_server.play(
        providers.Answer("The crane costs 7 euros.\n\nEvid", finish="length"),
        providers.Answer('ence:\n- "The crane costs 7 euros."'),
    )
    result = await ask("llama3.1:8b", strategy="direct")
    assert (result.answer, result.stop_reason) == ("The crane costs 7 euros.", "finalized")


@pytest.mark.parametrize(
    ("reply", "requests"),
    [("again and again, " * 400, 1), ("```repl\nx = 'one", 3)],
    ids=["runaway", "always"],
)
async def test_a_reply_without_an_end_is_given_up(ask, provider_server, providers, reply, requests) -> None:
    """A reply that repeats itself is not asked for its rest, and no reply more than twice."""
    provider_server.play(*[providers.Answer(reply, finish="length")] * requests, providers.Answer(FINAL))
    result = await ask("llama3.1:8b")
    assert (result.answer, result.rounds) == ("7 euros", 2)
    assert len(provider_server.requests) == requests + 1


async def test_what_is_there_stays_when_the_rest_fails(
    ask, provider_server, providers, tmp_path: Path
) -> None:
    provider_server.play(
        providers.Answer("```repl\nx = 1", finish="length", usage=(10, 5, 0)),
        providers.Status(400, "not so"),
        providers.Answer(FINAL, usage=(10, 5, 0)),
    )
    result = await ask("llama3.1:8b")
    assert (result.answer, result.rounds) == ("7 euros", 2)
    calls = events(tmp_path / "rlm.db", "model_call")
    assert [call["finish_reason"] for call in calls] == ["length", "stop"]


async def test_a_small_budget_leaves_less_thinking_and_loses_no_round(
    ask, provider_server, providers
) -> None:
    provider_server.play(providers.Answer(FINAL, usage=(4_000, 100, 0)))
    result = await ask("claude-sonnet-5-5", limits=Limits(max_total_tokens=60_000))
    assert (result.answer, result.rounds) == ("7 euros", 1)
    (sent,) = provider_server.requests
    assert sent.body["max_tokens"] == 8_000 + 32_000 // 4


async def test_a_claude_that_thinks_loses_no_round(ask, provider_server, providers) -> None:
    """Thinking of more tokens than a reply may have does not cut the reply."""
    provider_server.always = lambda one: (
        providers.Answer(FINAL, reasoning="so " * 9_000, usage=(4_000, 12_000, 0))
        if one.body["max_tokens"] > 12_000
        else providers.Answer("", finish="length", reasoning="so", usage=(4_000, one.body["max_tokens"], 0))
    )
    result = await ask("claude-sonnet-5-5")
    assert (result.answer, result.rounds, len(provider_server.requests)) == ("7 euros", 1, 1)
