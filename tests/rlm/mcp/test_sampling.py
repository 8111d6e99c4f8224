"""Test the client's model as the model of a run: no key is needed."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

import pytest
from mcp.shared.exceptions import MCPError
from mcp.types import CreateMessageResult, ErrorData, TextContent
from mcp_clients import MODES, Connect, Place, text_of

pytestmark = pytest.mark.timeout(240)

BLOCK = """```repl
answers = sub_query_batch("What costs it?", [(n, 40) for n in range(4)])
finalize("It costs 90,000 euros.", evidence=["for 90,000 euros"])
```"""


def playing(reply: Callable[[str], str], seen: list[Any]) -> Callable[..., Any]:
    """Return a client's callback that plays the model with `reply`, a function of the whole prompt."""

    async def sample(_: Any, params: Any) -> CreateMessageResult:
        seen.append(params)
        await asyncio.sleep(0.01)
        prompt = "\n".join([params.system_prompt or "", *(one.content.text for one in params.messages)])
        content = TextContent(type="text", text=reply(prompt))
        return CreateMessageResult(role="assistant", content=content, model="played", stop_reason="endTurn")

    return sample


@pytest.mark.parametrize("mode", MODES)
async def test_the_client_answers_for_root_and_children(connect: Connect, mode: str) -> None:
    seen: list[Any] = []
    sample = playing(lambda prompt: BLOCK if "```repl" in prompt else "90,000 euros", seen)
    async with connect(
        "--model", "sampling", "--strategy", "rlm", mode=mode, sampling_callback=sample
    ) as client:
        result = await client.call_tool("ask", {"question": "What does the crane cost?", "paths": ["."]})
    shown = result.structured_content
    assert shown is not None, text_of(result)
    assert shown["answer"].startswith("It costs 90,000 euros.")
    assert shown["citations"][0]["verified"]
    assert shown["sub_calls"] == 4
    assert len(seen) == 5
    assert shown["tokens"] > 500
    assert shown["cost_usd"] is None
    assert all(one.max_tokens > 0 for one in seen)


async def test_the_budget_counts_the_tokens_of_the_client(connect: Connect) -> None:
    seen: list[Any] = []
    sample = playing(lambda _: "```repl\nprint(peek(0, 5))\n```", seen)
    arguments = ("--model", "sampling", "--strategy", "rlm", "--max-total-tokens", "9000")
    async with connect(*arguments, mode="legacy", sampling_callback=sample) as client:
        result = await client.call_tool("ask", {"question": "What?", "paths": ["."]})
    shown = result.structured_content
    assert shown is not None, text_of(result)
    assert shown["stop_reason"] == "tokens"
    assert shown["answer"] is None
    assert shown["tokens"] <= 9_000


@pytest.mark.parametrize("mode", MODES)
async def test_a_refusal_of_the_user_ends_the_run_with_its_words(connect: Connect, mode: str) -> None:
    async def refuse(*_: Any) -> ErrorData:
        return ErrorData(code=-1, message="the user said no")

    async with connect("--model", "sampling", mode=mode, sampling_callback=refuse) as client:
        calling = client.call_tool("ask", {"question": "What?", "paths": ["."]})
        if mode == "auto":
            # From 2026-07-28 on, the client itself ends the call.
            with pytest.raises(MCPError, match="the user said no"):
                await calling
            return
        result = await calling
    shown = result.structured_content
    assert shown is not None, text_of(result)
    assert shown["stop_reason"] == "model"
    assert shown["resumable"]
    assert any("the user said no" in one for one in shown["warnings"]) or "said no" in text_of(result)


async def test_a_client_without_sampling_gets_one_line(connect: Connect) -> None:
    async with connect("--model", "sampling") as client:
        result = await client.call_tool("ask", {"question": "What?", "paths": ["."]})
        free = await client.call_tool("search", {"query": "crane", "paths": ["."]})
    assert result.is_error
    assert "this client offers none" in text_of(result)
    assert not free.is_error


async def test_a_run_of_many_turns_pauses_and_resumes_without_asking_again(
    connect: Connect, place: Place
) -> None:
    """From 2026-07-28 on a client answers a call ten times, then it gives up: the call ends before that, and
    the run is resumed."""
    seen: list[Any] = []
    wanted = 13

    def reply(_: str) -> str:
        if len(seen) < wanted:
            return f"```repl\nprint(peek({len(seen)}, 20))\n```"
        return '```repl\nfinalize("It costs 90,000 euros.", evidence=["for 90,000 euros"])\n```'

    arguments = ("--model", "sampling", "--strategy", "rlm")
    async with connect(*arguments, sampling_callback=playing(reply, seen)) as client:
        paused = await client.call_tool("ask", {"question": "What does the crane cost?", "paths": ["."]})
        shown = paused.structured_content
        assert shown is not None, text_of(paused)
        assert shown["resumable"]
        assert shown["answer"] is None
        assert len(seen) < wanted
        assert f"resume(run={shown['run_id']!r})" in text_of(paused)
        ended = await client.call_tool("resume", {"run": shown["run_id"]})
    assert ended.structured_content is not None, text_of(ended)
    assert ended.structured_content["answer"].startswith("It costs 90,000 euros.")
    assert len(seen) == wanted
