"""Test that a reply's schema is enforced by the provider where it can be, and never stands in the way."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import pytest

from rlm.errors import ModelRejected
from rlm.models.base import Message, Request
from rlm.models.structured import portable

PERSON = {
    "type": "object",
    "properties": {"name": {"type": "string"}, "age": {"type": "integer"}},
    "required": ["name", "age"],
    "additionalProperties": False,
}
REQUEST = Request("child", (Message("user", "Who? JSON please."),), 100, "Who?", schema=PERSON)
JSON = '{"name": "Ada", "age": 36}'


def enforced(body: Mapping[str, Any]) -> Mapping[str, Any] | None:
    """Return the schema that a request asks the server to enforce, in either protocol."""
    if "response_format" in body:
        return body["response_format"]["json_schema"]["schema"]
    return body.get("output_config", {}).get("format", {}).get("schema")


async def test_the_provider_gets_the_schema_in_its_own_field(make_model, provider_server):
    """The messages are the same as without: caches and journals find old replies by them."""
    provider_server.always = JSON
    model = make_model(provider_server.url)
    assert (await model.generate(REQUEST)).text == JSON
    await model.generate(replace(REQUEST, schema=None))
    first, second = (request.body for request in provider_server.requests)
    assert enforced(first) == PERSON
    assert enforced(second) is None
    assert first["messages"] == second["messages"]
    if make_model.protocol == "openai":
        assert first["response_format"]["type"] == "json_schema"
        assert first["response_format"]["json_schema"]["strict"] is True


REFUSALS = [
    (400, "Invalid parameter: 'response_format' of type 'json_schema' is not supported with this model."),
    (400, "output_config.format: Extra inputs are not permitted"),
    (422, "body.response_format.type: Input should be 'text' or 'json_object'"),
    (400, "This response_format type is unavailable now"),
    (500, "guided decoding is not enabled on this server"),
    (400, ""),
]


@pytest.mark.parametrize(("code", "message"), REFUSALS)
async def test_a_server_that_refuses_it_is_asked_without_and_only_once(
    make_model, provider_server, providers, code, message
):
    """No reply is lost, and the next call of any model object there does not try again."""

    def answer(received):
        return JSON if enforced(received.body) is None else providers.Status(code, message, "invalid")

    provider_server.always = answer
    model, other = make_model(provider_server.url), make_model(provider_server.url)
    assert (await model.generate(REQUEST)).text == JSON
    assert (await model.generate(REQUEST)).text == JSON
    assert (await other.generate(REQUEST)).text == JSON
    assert [enforced(one.body) is not None for one in provider_server.requests] == [True, False, False, False]


@pytest.mark.parametrize(
    "message",
    [
        "Invalid schema for response_format 'reply': In context=(), 'format' is not permitted.",
        "The compiled grammar is too large, simplify your schema",
    ],
)
async def test_a_refusal_of_one_schema_leaves_the_others(make_model, provider_server, providers, message):
    def answer(received):
        asked = enforced(received.body)
        return providers.Status(400, message) if asked and "age" in asked["properties"] else JSON

    provider_server.always = answer
    model = make_model(provider_server.url)
    await model.generate(REQUEST)
    await model.generate(REQUEST)
    small = {"type": "object", "properties": {"name": {"type": "string"}}, "required": ["name"]}
    await model.generate(replace(REQUEST, schema=small))
    tried = [enforced(one.body) is not None for one in provider_server.requests]
    assert tried == [True, False, False, True]


async def test_another_refusal_is_reported_as_it_is(make_model, provider_server, providers):
    """A prompt that is too long is not sent twice."""
    provider_server.always = providers.Status(400, "prompt is too long: 9 tokens > 8 maximum")
    with pytest.raises(ModelRejected, match="longer than the model takes"):
        await make_model(provider_server.url).generate(REQUEST)
    assert len(provider_server.requests) == 1
    provider_server.always = providers.Status(400, "")
    with pytest.raises(ModelRejected, match="refuses the request"):
        await make_model(provider_server.url).generate(REQUEST)
    before = len(provider_server.requests)
    with pytest.raises(ModelRejected):
        await make_model(provider_server.url).generate(REQUEST)
    assert enforced(provider_server.requests[before].body) is not None


LEAF = {"$ref": "#/$defs/node"}
ODD = {
    "recursive": {"$defs": {"node": {"type": "array", "items": LEAF}}, **LEAF},
    "a union at the root": {"anyOf": [PERSON, {"type": "null"}]},
    "an array at the root": {"type": "array", "items": PERSON},
    "an intersection": {"allOf": [PERSON, PERSON]},
    "anything": {},
    "a tuple": {
        "type": "object",
        "properties": {"pair": {"type": "array", "prefixItems": [{"type": "string"}]}},
        "required": ["pair"],
    },
    "huge": {"type": "object", "description": "x" * 30_000, "properties": {"a": {"type": "string"}}},
    "a reference to nothing": {"type": "object", "properties": {"a": {"$ref": "#/$defs/none"}}},
    "a foreign reference": {"type": "object", "properties": {"a": {"$ref": "https://h.invalid/s.json"}}},
}


@pytest.mark.parametrize("schema", ODD.values(), ids=ODD)
async def test_an_odd_schema_is_left_to_the_prompt(make_model, provider_server, schema):
    provider_server.always = JSON
    assert (await make_model(provider_server.url).generate(replace(REQUEST, schema=schema))).text == JSON
    (sent,) = provider_server.requests
    assert enforced(sent.body) is None


def test_what_a_server_cannot_check_is_left_to_our_check():
    """Limits are dropped, objects closed, and nullable keys required."""
    schema = {
        "type": "object",
        "properties": {
            "name": {"type": "string", "minLength": 2, "pattern": "^A", "title": "Name"},
            "born": {"type": ["integer", "null"], "minimum": 1000},
            "kind": {"enum": ["a", 1]},
            "home": {"$ref": "#/$defs/place", "description": "where"},
        },
        "required": ["name", "kind", "home"],
        "$defs": {"place": {"type": "object", "properties": {"x": {"const": 4}}, "required": ["x"]}},
    }
    found = portable(schema)
    assert found is not None
    assert (found.closed, found.strict) == (True, True)
    assert found.schema == {
        "type": "object",
        "properties": {
            "name": {"type": "string"},
            "born": {"type": ["integer", "null"]},
            "kind": {"enum": ["a", 1]},
            "home": {"$ref": "#/$defs/place", "description": "where"},
        },
        "required": ["name", "born", "kind", "home"],
        "additionalProperties": False,
        "$defs": {
            "place": {
                "type": "object",
                "properties": {"x": {"enum": [4]}},
                "required": ["x"],
                "additionalProperties": False,
            }
        },
    }


async def test_open_objects_and_optional_keys_are_not_strict(make_model, provider_server):
    optional = {"type": "object", "properties": {"a": {"type": "string"}, "b": {"type": "string"}}}
    table = {
        "type": "object",
        "properties": {"a": {"type": "object", "additionalProperties": {"type": "string"}}},
        "required": ["a"],
    }
    model = make_model(provider_server.url)
    await model.generate(replace(REQUEST, schema=optional))
    await model.generate(replace(REQUEST, schema=table))
    first, second = (request.body for request in provider_server.requests)
    if make_model.protocol == "openai":
        assert first["response_format"]["json_schema"]["strict"] is False
        assert second["response_format"]["json_schema"]["strict"] is False
    else:
        assert enforced(first) is not None
        assert enforced(second) is None  # the API refuses open objects
