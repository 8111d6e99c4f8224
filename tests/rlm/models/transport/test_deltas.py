"""The text of a reply while it is written, from a real stream."""

from __future__ import annotations

import asyncio
import itertools
import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rlm.errors import ModelError
from rlm.escaping import terminal_text
from rlm.models.base import Message, ReplyListener, Request
from rlm.models.http.endpoint import Endpoint
from rlm.models.http.reply_limits import BoundedText
from rlm.models.http.streaming import ReplyProgress
from rlm.models.options import ModelOptions, RetryPolicy
from rlm.models.providers.anthropic import AnthropicModel
from rlm.models.providers.openai import OpenAIModel

QUICK = ModelOptions(retry=RetryPolicy(attempts=2, base=0.0))


@pytest.fixture(params=["openai", "anthropic"])
def model(request, provider_server):
    if request.param == "openai":
        return OpenAIModel("m", Endpoint(f"{provider_server.url}/v1", "k", "OPENAI_API_KEY"), options=QUICK)
    return AnthropicModel("m", Endpoint(provider_server.url, "k", "ANTHROPIC_API_KEY"), options=QUICK)


def ask(listener: ReplyListener | None) -> Request:
    return Request("direct", (Message("user", "hi"),), 100, task="hi", listener=listener)


async def test_the_pieces_are_the_text_and_come_while_it_is_written(model, provider_server, providers):
    text = "one two three four five six seven"
    provider_server.play(providers.Answer(text, piece=3, step=0.03))
    heard: list[tuple[float, str | None]] = []
    listener = ReplyListener(on_text=lambda piece: heard.append((time.monotonic(), piece)))
    reply = await model.generate(ask(listener))
    ended = time.monotonic()
    await model.aclose()
    assert "".join(piece or "" for _, piece in heard) == reply.text == text
    assert ended - heard[0][0] > 0.2
    # The last piece comes with the end, whenever that is.
    gaps = [later[0] - earlier[0] for earlier, later in itertools.pairwise(heard[:-1])]
    assert min(gaps) > 0.04


async def test_a_dropped_stream_says_that_its_text_is_void(model, provider_server, providers):
    provider_server.play(providers.Dropped("half a re"), providers.Answer("the whole reply"))
    heard: list[str | None] = []
    retried: list[object] = []
    listener = ReplyListener(on_text=heard.append, on_retry=lambda *notice: retried.append(notice))
    reply = await model.generate(ask(listener))
    await model.aclose()
    assert reply.text == "the whole reply"
    void = heard.index(None)
    assert "".join(piece or "" for piece in heard[:void]) == "half a re"
    assert "".join(piece or "" for piece in heard[void:]) == "the whole reply"
    assert len(retried) == 1


async def test_a_failed_or_cancelled_call_says_so_too(model, provider_server, providers):
    provider_server.play(providers.Dropped(), providers.Dropped())
    heard: list[str | None] = []
    with pytest.raises(ModelError):
        await model.generate(ask(ReplyListener(on_text=heard.append)))
    assert heard[-1] is None
    heard.clear()
    provider_server.play(providers.Silence("half a re"))
    call = asyncio.create_task(model.generate(ask(ReplyListener(on_text=heard.append))))
    while not heard:
        await asyncio.sleep(0.01)
    call.cancel()
    await asyncio.gather(call, return_exceptions=True)
    await model.aclose()
    assert heard[-1] is None


@given(st.text(st.characters(codec=None), max_size=60), st.lists(st.integers(0, 59), max_size=8))
def test_pieces_cut_anywhere_are_as_safe_as_the_whole(text, cuts):
    """Within an escape sequence, and within a surrogate pair, as a server may escape them in JSON."""
    units = text.encode("utf-16-le", "surrogatepass")
    chars = [units[at : at + 2].decode("utf-16-le", "surrogatepass") for at in range(0, len(units), 2)]
    borders = [0, *sorted(min(cut, len(chars)) for cut in cuts), len(chars)]
    heard: list[str | None] = []

    async def play() -> None:
        collected = BoundedText(1_000)
        deltas = ReplyProgress(collected, ReplyListener(on_text=heard.append))
        for start, end in itertools.pairwise(borders):
            collected.add("".join(chars[start:end]))
            deltas.update()
        deltas.close(failed=False)
        assert "".join(piece or "" for piece in heard) == str(collected)
        assert "".join(terminal_text(piece or "") for piece in heard) == terminal_text(str(collected))

    asyncio.run(play())
