"""Chat completions, with the official client."""

from __future__ import annotations

import asyncio

import openai
import pytest

from rlm.errors import ModelRejected
from rlm.models.offline.scripted import ScriptedModel

NOTES = "Northern yard.\n\nThe crane costs 12,400 euros. The lift costs 800 euros.\n"
ASKED = [
    {"role": "system", "content": "Answer in one sentence."},
    {"role": "user", "content": NOTES},
    {"role": "assistant", "content": "I have read it."},
    {"role": "user", "content": "What does the crane cost?"},
]


async def test_an_answer_has_its_citations_as_annotations(server) -> None:
    async with server() as served:
        client = served.openai()
        done = await client.chat.completions.create(model="rlm", messages=ASKED)
        message = done.choices[0].message
        assert message.content == "The crane costs 12,400 euros. [¹]"
        assert done.choices[0].finish_reason == "stop"
        (note,) = message.annotations
        cited = note.url_citation
        assert message.content[cited.start_index : cited.end_index] == "[¹]"
        assert cited.verified is True
        assert done.usage.total_tokens == done.usage.prompt_tokens + done.usage.completion_tokens
        async with served.http() as http, http.get(cited.url.removeprefix(served.url)) as reply:
            (citation,) = (await reply.json())["result"]["citations"]
            assert citation["quote"] == "The crane costs 12,400 euros"


async def test_a_stream_tells_its_progress_as_reasoning_and_its_usage_last(server) -> None:
    async with server() as served:
        client = served.openai()
        stream = await client.chat.completions.create(
            model="rlm", messages=ASKED, stream=True, stream_options={"include_usage": True}
        )
        chunks = [chunk async for chunk in stream]
        deltas = [chunk.choices[0].delta for chunk in chunks if chunk.choices]
        assert "".join(delta.content or "" for delta in deltas) == "The crane costs 12,400 euros. [¹]"
        reasoning = "".join(getattr(delta, "reasoning_content", None) or "" for delta in deltas)
        assert "loaded 1 document" in reasoning
        assert chunks[-1].usage is not None
        assert chunks[-1].choices == []
        assert [chunk.choices[0].finish_reason for chunk in chunks if chunk.choices][-1] == "stop"


async def test_faults_have_the_shape_of_the_official_api(server) -> None:
    async with server() as served:
        client = served.openai()
        with pytest.raises(openai.NotFoundError) as unknown:
            await client.chat.completions.create(model="gpt-5", messages=ASKED)
        assert unknown.value.code == "model_not_found"
        with pytest.raises(openai.BadRequestError, match="tools"):
            await client.chat.completions.create(
                model="rlm",
                messages=ASKED,
                tools=[{"type": "function", "function": {"name": "x", "parameters": {}}}],
            )
        image = {"type": "image_url", "image_url": {"url": "http://169.254.169.254/"}}
        with pytest.raises(openai.BadRequestError, match="image_url"):
            await client.chat.completions.create(model="rlm", messages=[{"role": "user", "content": [image]}])
        with pytest.raises(openai.AuthenticationError):
            await served.openai("rlm-wrong").models.list()
        with pytest.raises(openai.UnprocessableEntityError):
            await client.chat.completions.create(model="rlm", messages=[])


async def test_a_failed_run_is_an_error_that_clients_do_not_repeat(server) -> None:
    model = ScriptedModel.of(direct=ModelRejected("the key is wrong"))
    async with server(model) as served:
        client = served.openai(max_retries=2)
        with pytest.raises(openai.APIStatusError) as failed:
            await client.chat.completions.create(model="rlm", messages=ASKED)
        assert failed.value.status_code == 502
        assert "the key is wrong" in failed.value.message
        assert len(model.requests) == 1
        stream = await client.chat.completions.create(model="rlm", messages=ASKED, stream=True)
        with pytest.raises(openai.APIError, match="the key is wrong"):
            [chunk async for chunk in stream]


async def test_a_schema_gives_json(server) -> None:
    model = ScriptedModel.of(direct='{"euros": 12400}\nEvidence:\n"The crane costs 12,400 euros"')
    schema = {"type": "object", "properties": {"euros": {"type": "integer"}}, "required": ["euros"]}
    async with server(model) as served:
        done = await served.openai().chat.completions.create(
            model="rlm",
            messages=ASKED,
            response_format={"type": "json_schema", "json_schema": {"name": "price", "schema": schema}},
        )
        assert '"euros": 12400' in done.choices[0].message.content


async def test_models_are_listed(server) -> None:
    async with server() as served:
        assert [model.id async for model in served.openai().models.list()] == ["rlm"]
        assert (await served.openai().models.retrieve("rlm")).owned_by == "rlm"


async def test_a_client_that_leaves_stops_its_run_and_it_can_be_resumed(server) -> None:
    release = asyncio.Event()

    async def slow(_: object) -> str:
        await release.wait()
        return '12,400 euros\nEvidence:\n"The crane costs 12,400 euros"'

    async with server(ScriptedModel.of(direct=slow)) as served:
        client = served.openai()
        stream = await client.chat.completions.create(model="rlm", messages=ASKED, stream=True)
        run = (await anext(aiter(stream))).id.removeprefix("chatcmpl-")
        await asyncio.sleep(0.3)
        await stream.close()
        async with served.http() as http:
            assert (await served.ended(http, run))["status"] == "interrupted"
            release.set()
            async with http.post(f"/v1/runs/{run}/resume") as reply:
                assert reply.status == 202
            assert (await served.ended(http, run))["result"]["answer"] == "12,400 euros"
