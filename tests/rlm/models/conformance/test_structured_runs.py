"""Test structured answers in whole runs: children and direct calls over a real server."""

from __future__ import annotations

import json

import pytest

from rlm import Settings
from rlm.models.resolution import resolve
from rlm.testing import ScriptedModel

CODE = """
people = sub_query_batch("Who is it?", [(0, 20), (20, 40), (40, 60)], schema={"name": "str"})
finalize([[one.ok, one.found, one.value] for one in people])
"""
TEXT = "Ada was born here.  Nobody knows this.  Then came Alan here."


def _prompt_of(received) -> str:
    return received.body["messages"][-1]["content"]


def _wrapped(received) -> bool:
    form = received.body.get("response_format")
    return form is not None and list(form["json_schema"]["schema"]["properties"]) == ["answer"]


def _name_in(received) -> str | None:
    return next((name for name in ("Ada", "Alan") if name in _prompt_of(received)), None)


def enforcing(received) -> str:
    """Reply as a server does that lets its model write nothing but the schema."""
    assert _wrapped(received)
    name = _name_in(received)
    return json.dumps({"answer": "NOT_FOUND" if name is None else {"name": name}})


def ignoring(received) -> str:
    """Reply as a server that knows no `response_format`, with a fence as models write it."""
    name = _name_in(received)
    return "NOT_FOUND" if name is None else f'```json\n{{"name": "{name}"}}\n```'


def prosaic(received) -> str:
    """Reply in prose first, and do better when asked again."""
    name = _name_in(received)
    if "not JSON" in _prompt_of(received) and name:
        return json.dumps({"name": name})
    return "NOT_FOUND" if name is None else f"It seems to me that the person is called {name}."


@pytest.mark.parametrize(("server", "calls"), [(enforcing, 3), (ignoring, 3), (prosaic, 5)])
async def test_children_give_the_same_values_whatever_the_server_enforces(
    run, block, provider_server, server, calls
):
    """A child that finds nothing can say so, even if its server enforces the schema."""
    provider_server.always = server
    root = ScriptedModel.of(root=[block(CODE)])
    child = resolve(f"openai:m@{provider_server.url}/v1", {})
    result = await run(root, TEXT, sub_model=child)
    assert result.answer == [
        [True, True, {"name": "Ada"}],
        [True, False, None],
        [True, True, {"name": "Alan"}],
    ], result
    assert len(provider_server.requests) == calls
    await child.aclose()


SCHEMA = {"type": "object", "properties": {"name": {"type": "string"}}, "required": ["name"]}


def _quoted(received) -> str:
    properties = received.body["response_format"]["json_schema"]["schema"]["properties"]
    assert list(properties) == ["answer", "evidence"]
    return json.dumps({"answer": {"name": "Ada"}, "evidence": ["Ada was born here."]})


def _in_text(received) -> str:
    return '{"name": "Ada"}\n\nEvidence:\n"Ada was born here."'


@pytest.mark.parametrize("server", [_quoted, _in_text])
async def test_a_direct_answer_of_a_type_keeps_its_evidence(run, provider_server, server):
    provider_server.always = server
    model = resolve(f"openai:m@{provider_server.url}/v1", {})
    result = await run(model, TEXT, schema=SCHEMA, settings=Settings(strategy="direct"))
    assert result.answer == {"name": "Ada"}
    assert [one.verified for one in result.citations] == [True]
    await model.aclose()


async def test_a_direct_answer_may_say_that_there_is_none(run, provider_server):
    provider_server.always = json.dumps({"answer": "NOT_FOUND", "evidence": []})
    model = resolve(f"openai:m@{provider_server.url}/v1", {})
    result = await run(model, TEXT, schema=SCHEMA, settings=Settings(strategy="direct"))
    assert (result.answer, result.stop_reason) == (None, "not_found")
    await model.aclose()
