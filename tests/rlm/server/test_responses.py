"""Responses and files, with the official client."""

from __future__ import annotations

import asyncio
import base64
import io

import openai
import pytest

from rlm.models.offline.scripted import ScriptedModel

NOTES = "Northern yard.\n\nThe crane costs 12,400 euros. The lift costs 800 euros.\n"


async def test_a_response_reads_a_file_and_cites_it(server) -> None:
    async with server() as served:
        client = served.openai()
        file = await client.files.create(file=("notes.txt", io.BytesIO(NOTES.encode())), purpose="user_data")
        assert file.bytes == len(NOTES.encode())
        done = await client.responses.create(
            model="rlm",
            input=[
                {
                    "role": "user",
                    "content": [
                        {"type": "input_file", "file_id": file.id},
                        {"type": "input_text", "text": "What does the crane cost?"},
                    ],
                }
            ],
        )
        assert done.status == "completed"
        assert done.output_text == "The crane costs 12,400 euros. [¹]"
        (note,) = done.output[0].content[0].annotations
        assert note.type == "url_citation"
        assert note.title == "notes.txt:3"
        assert done.usage.total_tokens == done.usage.input_tokens + done.usage.output_tokens
        again = await client.responses.retrieve(done.id)
        assert again.output_text == done.output_text
        await client.responses.delete(done.id)
        with pytest.raises(openai.NotFoundError):
            await client.responses.retrieve(done.id)


async def test_files_are_listed_read_and_deleted(server) -> None:
    async with server() as served:
        client = served.openai()
        file = await client.files.create(file=("ünïcode \u202e.txt", NOTES.encode()), purpose="user_data")
        assert [one.id async for one in client.files.list()] == [file.id]
        assert (await client.files.content(file.id)).content == NOTES.encode()
        assert "\u202e" not in (await client.files.retrieve(file.id)).filename
        assert (await client.files.delete(file.id)).deleted is True
        with pytest.raises(openai.NotFoundError):
            await client.files.retrieve(file.id)
        with pytest.raises(openai.BadRequestError, match="empty"):
            await client.files.create(file=("none.txt", b""), purpose="user_data")


async def test_data_of_a_file_in_the_message(server) -> None:
    data = base64.b64encode(NOTES.encode()).decode()
    part = {"type": "file", "file": {"filename": "n.txt", "file_data": f"data:text/plain;base64,{data}"}}
    text = {"type": "text", "text": "What does the crane cost?"}
    async with server() as served:
        done = await served.openai().chat.completions.create(
            model="rlm", messages=[{"role": "user", "content": [part, text]}]
        )
        assert done.choices[0].message.annotations[0].url_citation.title == "n.txt:3"


async def test_the_stream_has_the_events_that_the_client_puts_together(server) -> None:
    async with server() as served:
        asked = [{"role": "user", "content": NOTES}, {"role": "user", "content": "What does the crane cost?"}]
        async with served.openai().responses.stream(model="rlm", input=asked) as stream:
            kinds = [event.type async for event in stream]
            done = await stream.get_final_response()
        assert done.output_text == "The crane costs 12,400 euros. [¹]"
        assert [item.type for item in done.output] == ["reasoning", "message"]
        assert "loaded" in done.output[0].summary[0].text
        assert kinds[:2] == ["response.created", "response.in_progress"]
        assert kinds[-1] == "response.completed"
        assert "response.output_text.annotation.added" in kinds


async def test_a_response_in_the_background_is_read_later_or_cancelled(server) -> None:
    release = asyncio.Event()

    async def slow(_: object) -> str:
        await release.wait()
        return '12,400 euros\nEvidence:\n"The crane costs 12,400 euros"'

    asked = [{"role": "user", "content": NOTES}, {"role": "user", "content": "What does the crane cost?"}]
    async with server(ScriptedModel.of(direct=slow)) as served:
        client = served.openai()
        first = await client.responses.create(model="rlm", input=asked, background=True)
        second = await client.responses.create(model="rlm", input=asked, background=True)
        assert first.status == "queued"
        assert (await client.responses.cancel(second.id)).status == "cancelled"
        release.set()
        async with asyncio.timeout(20):
            while (found := await client.responses.retrieve(first.id)).status != "completed":
                await asyncio.sleep(0.05)
        assert found.output_text == "12,400 euros"


async def test_a_response_continues_another_with_its_texts(server) -> None:
    model = ScriptedModel.of(
        direct=[
            'The crane costs 12,400 euros.\nEvidence:\n"The crane costs 12,400 euros"',
            'The lift costs 800 euros.\nEvidence:\n"The lift costs 800 euros"',
        ]
    )
    asked = [{"role": "user", "content": NOTES}, {"role": "user", "content": "What does the crane cost?"}]
    async with server(model) as served:
        client = served.openai()
        first = await client.responses.create(model="rlm", input=asked, instructions="Be short.")
        second = await client.responses.create(
            model="rlm", input="And the lift?", previous_response_id=first.id
        )
        assert second.output_text == "The lift costs 800 euros."
        prompt = model.requests[-1].messages[-1].content
        assert "And the lift?" in prompt
        assert "The crane costs 12,400 euros. The lift" in prompt
        assert prompt.count("What does the crane cost?") == 1


async def test_faults_of_responses(server) -> None:
    async with server() as served:
        client = served.openai()
        with pytest.raises(openai.NotFoundError):
            await client.responses.create(model="rlm", input="And?", previous_response_id="resp_x")
        part = {"type": "input_file", "file_url": "http://127.0.0.1/secret"}
        text = {"type": "input_text", "text": "What is this?"}
        with pytest.raises(openai.BadRequestError, match="no URLs"):
            await client.responses.create(model="rlm", input=[{"role": "user", "content": [part, text]}])
        with pytest.raises(openai.BadRequestError, match="tools"):
            await client.responses.create(model="rlm", input="x", tools=[{"type": "web_search"}])
