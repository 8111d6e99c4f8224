"""Test the environment for verifiers: rollouts over real kernels, with a policy behind a real HTTP server."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from dataclasses import replace

import pytest
from aiohttp import web

from rlm import Settings
from rlm.replay import replay
from rlm.settings import RootSettings

pytest.importorskip(
    "verifiers",
    reason="needs the extra verifiers, which the extra mcp excludes: install it in an environment",
)
pytestmark = pytest.mark.filterwarnings("default")  # the packages below have warnings of their own

import verifiers as vf  # noqa: E402
from datasets import Dataset  # noqa: E402
from openai import AsyncOpenAI  # noqa: E402
from verifiers.clients import OpenAIChatCompletionsClient  # noqa: E402

from rlm.integrations.verifiers import RLMEnv, rlm_rubric  # noqa: E402

ROWS = [
    {"question": "What is the word?", "answer": "xyzzy", "info": {"context": "One.\nThe word is xyzzy.\n"}}
]
Policy = Callable[[list[dict]], str]


@pytest.fixture
async def policy() -> AsyncIterator[tuple[OpenAIChatCompletionsClient, list]]:
    """Yield a client of a server that plays `server.reply`, and all requests that it got."""
    got: list[dict] = []
    replies: list[Policy] = []

    async def complete(request: web.Request) -> web.Response:
        body = await request.json()
        got.append(body)
        text = replies[0](body["messages"])
        choice = {"index": 0, "finish_reason": "stop", "message": {"role": "assistant", "content": text}}
        usage = {"prompt_tokens": 10, "completion_tokens": 5, "total_tokens": 15}
        return web.json_response(
            {
                "id": "1",
                "object": "chat.completion",
                "created": 1,
                "model": "p",
                "choices": [choice],
                "usage": usage,
            }
        )

    app = web.Application()
    app.router.add_post("/v1/chat/completions", complete)
    runner = web.AppRunner(app)
    await runner.setup()
    site = web.TCPSite(runner, "127.0.0.1", 0)
    await site.start()
    port = site._server.sockets[0].getsockname()[1]  # type: ignore[union-attr]
    client = AsyncOpenAI(base_url=f"http://127.0.0.1:{port}/v1", api_key="none-needed")
    wrapped = OpenAIChatCompletionsClient(client)
    wrapped.replies, wrapped.got = replies, got  # type: ignore[attr-defined]
    yield wrapped
    await client.close()
    await runner.cleanup()


async def roll(env: RLMEnv, client) -> dict:
    (row,) = env.get_dataset()
    return await env.rollout(dict(row), client, "p", {"max_tokens": 500})


def environment(settings: Settings, **options) -> RLMEnv:
    return RLMEnv(dataset=Dataset.from_list(ROWS), settings=settings, **options)


async def test_each_round_of_the_root_is_a_turn(settings: Settings, block, policy) -> None:
    """Children ask the same policy and are no turns. The answer is rewarded, and the run replays."""

    def reply(messages: list[dict]) -> str:
        if "repl" not in messages[0]["content"]:
            return "xyzzy"
        if len(messages) == 2:
            return block("w = sub_query('The word?', (0, 24))\nprint(w)")
        return block("finalize(str(w), evidence=[(5, 23)])")

    policy.replies.append(reply)
    env = environment(settings)
    state = await roll(env, policy)
    assert state.get("error") is None
    assert (state["rlm"]["answer"], state["rlm"]["sub_calls"]) == ("xyzzy", 1)
    assert len(state["trajectory"]) == 2
    assert len(policy.got) == 3
    first, second = (step["prompt"] for step in state["trajectory"])
    assert list(second[: len(first)]) == list(first)
    await env.rubric.score_rollout(state)
    assert state["reward"] == 1.0
    assert state["metrics"]["sub_call_success"] == 1.0
    assert (await replay(state["rlm"]["run_id"], store=settings.store, settings=settings)).equal
    assert env._rollouts == {}


async def test_a_trained_policy_keeps_its_dialect(settings: Settings, policy) -> None:
    policy.replies.append(lambda messages: "Look:\n```repl\nw = context[17:22]\nprint(w)\n```\nFINAL_VAR(w)")
    env = environment(replace(settings, root=RootSettings(dialect="rlms")), rubric=rlm_rubric("contains"))
    state = await roll(env, policy)
    assert state.get("error") is None
    assert "xyzzy"[:4] in state["rlm"]["answer"]


async def test_a_rollout_that_is_left_ends_its_run(settings: Settings, block, policy) -> None:
    """At the limit of turns the run is cancelled with its kernel, and the journal can resume it."""
    policy.replies.append(lambda messages: block("print(peek(0, 3))"))
    env = environment(settings, max_turns=1)
    state = await roll(env, policy)
    assert (len(state["trajectory"]), state.get("rlm")) == (1, None)
    await env.rubric.score_rollout(state)
    assert state["reward"] == 0.0
    assert env._rollouts == {}


async def test_a_policy_that_can_not_be_reached_is_an_error_of_the_rollout(settings: Settings) -> None:
    client = AsyncOpenAI(base_url="http://127.0.0.1:9/v1", api_key="none-needed", max_retries=0)
    state = await roll(environment(settings), OpenAIChatCompletionsClient(client))
    assert isinstance(state["error"], vf.Error)
    await client.close()
