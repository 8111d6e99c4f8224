"""Test schemas and the checks against them: what the author of either one wants the driver to do."""

from __future__ import annotations

import asyncio
import json
import signal
import subprocess
import sys
import time
from contextlib import suppress
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rlm.answers import answer_type
from rlm.answers.answer_type import MAX_VALUE_CHARS, AnswerType, SchemaError, parse_reply

read_schema = AnswerType.of_cell

NESTED: dict[str, Any] = {}
for _ in range(500):
    NESTED = {"items": NESTED}


def doubling(depth: int, leaf: Any, keyword: str = "allOf") -> dict[str, Any]:
    """Return a short schema that asks 2 to the power of `depth` questions of any value."""
    parts = {f"a{n}": {keyword: [{"$ref": f"#/$defs/a{n + 1}"}] * 2} for n in range(depth)}
    return {"$defs": {**parts, f"a{depth}": leaf}, "$ref": "#/$defs/a0"}


@pytest.mark.parametrize(
    ("schema", "words"),
    [
        ({"$ref": "http://127.0.0.1:9/x"}, "nothing is fetched"),
        ({"type": "array", "items": {"$ref": "other.json"}}, "nothing is fetched"),
        ({"type": "array", "items": {"$id": "http://127.0.0.1:9/x"}}, "nothing is fetched"),
        ({"properties": {"a": {"$dynamicRef": "#x"}}}, "'#x' is not in the schema"),
        ({"$ref": "#"}, "refers to itself without an end"),
        ({"anyOf": [{"$ref": "#"}, {"type": "null"}]}, "refers to itself without an end"),
        (doubling(40, {}), "more than 2 s of computing"),
        (doubling(40, {"type": "string"}, "anyOf"), "more than 2 s of computing"),
        ({"$ref": "#/x-a", "x-a": {"pattern": 5}}, "5 is not of type 'string'"),
        ({"$ref": "#/const", "const": {"properties": 5}}, "5 is not of type 'object'"),
        ({"type": "string", "pattern": "(?=a)"}, "not a regular expression of RE2"),
        ({"type": "string", "pattern": "((a{1000}){1000}){1000}"}, "not a regular expression of RE2"),
        ({"type": "object", "patternProperties": {"(": {}}}, "not a regular expression of RE2"),
        ({"type": "array", "unevaluatedItems": False}, "is not supported. Use additionalProperties or items"),
        ({"type": "array", "items": {"name": "str"}}, "['items'] has 'name', which is no keyword"),
        ({"description": "x" * 30_000}, "20,000 are the limit"),
        ({"$anchor": "a"}, "says nothing of a value"),
        ({"type": "text"}, "['type'] is wrong: 'text' is not valid"),
        ({"enum": "abc"}, "['enum'] is wrong: 'abc' is not of type 'array'"),
        ({"type": "number", "minimum": float("nan")}, "not JSON"),
        (NESTED, "nested deeper than 100 levels"),
    ],
)
async def test_a_schema_that_is_wrong_or_has_no_end_is_refused(schema, words) -> None:
    """No cell can make the driver reach a network or hang, and it is told why before a reply is paid for."""
    with pytest.raises(SchemaError) as caught:
        await read_schema(schema)
    assert words in str(caught.value)
    assert "\n" not in str(caught.value)


async def test_what_another_tool_adds_to_a_schema_is_ignored() -> None:
    """The caller's schema may have keywords of OpenAPI. A cell that writes one has mistaken something."""
    schema = {"type": "object", "discriminator": {"propertyName": "kind"}}
    assert AnswerType(schema)
    with pytest.raises(SchemaError, match="'discriminator', which is no keyword"):
        await read_schema(schema)


TREE = {
    "$id": "https://example.com/tree",
    "$ref": "#/$defs/tree",
    "$defs": {
        "tree": {
            "type": "object",
            "properties": {"name": {"pattern": "^[a-z]+$"}, "kids": {"items": {"$ref": "#/$defs/tree"}}},
            "patternProperties": {"^x_": {"type": "integer"}},
            "additionalProperties": False,
            "required": ["name"],
        }
    },
}


@pytest.mark.parametrize(
    ("schema", "good", "bad", "words"),
    [
        (
            TREE,
            {"name": "a", "kids": [{"name": "b", "x_n": 1}]},
            {"name": "A"},
            "['name']: 'A' does not match",
        ),
        (TREE, {"name": "a"}, {"name": "a", "kids": [{}]}, "['kids'][0]: 'name' is a required property"),
        (TREE, {"name": "a", "x_n": 1}, {"name": "a", "x_n": "b"}, "['x_n']: 'b' is not of type 'integer'"),
        ({"uniqueItems": True}, [1, True, "1", [1]], [{"a": 1, "b": 2}, {"b": 2, "a": 1}], "non-unique"),
        (
            {"anyOf": [{"type": "null"}, {"minimum": 3}]},
            3,
            2,
            "2 is not valid under any of the given",
        ),
        ({"oneOf": [{"type": "string"}, {"minLength": 1}]}, "", 1.5, None),
        ({"oneOf": [{"type": "string"}, {"minLength": 1}]}, 3, "ab", "valid under 2 of the given schemas"),
        ({"multipleOf": 0.5}, 1.5, 1.7, "1.7 is not a multiple of 0.5"),
    ],
)
async def test_a_cell_may_use_the_whole_vocabulary(schema, good, bad, words) -> None:
    """References within the schema, regular expressions and comparisons are checked like the rest."""
    read = await read_schema(schema)
    await read.check(good)
    if words is None:
        await read.check(bad)
        return
    with pytest.raises(SchemaError) as caught:
        await read.check(bad)
    assert words in str(caught.value)


def nest(value: Any, depth: int, **others: Any) -> Any:
    """Put `value` below `depth` keys named "left"."""
    for _ in range(depth):
        value = {"left": value, **others}
    return value


UNION = {
    "anyOf": [
        {"properties": {"left": {"$ref": "#"}, "kind": {"const": kind}}, "required": ["left", "kind"]}
        for kind in ("a", "b")
    ]
}
LISTS = {"allOf": [{"items": {"$ref": "#"}}, {"items": {"$ref": "#"}}]}
HOSTILE: dict[str, tuple[dict[str, Any], Any]] = {
    "backtracking": ({"pattern": "^(a|a)+$"}, "a" * 60 + "b"),
    "backtracking, hidden": (
        {"dependentSchemas": {"const": {"patternProperties": {"^(a|a)+$": {"type": "null"}}}}},
        {"const": 1, "a" * 60 + "b": 1},
    ),
    "a large program": ({"pattern": "(a?){500}a{500}b"}, "a" * 999_000),
    "many patterns": (
        {"patternProperties": {f"a{n}": {} for n in range(800)}},
        {f"k{n}": 1 for n in range(60_000)},
    ),
    "many other names": (
        {"patternProperties": {f"a{n}": {} for n in range(800)}, "additionalProperties": False},
        {f"k{n}": 1 for n in range(60_000)},
    ),
    "alternatives": (UNION, nest(1, 60, kind="c")),
    "all of two": (LISTS, json.loads("[" * 60 + "1" + "]" * 60)),
    "long lists of values": ({"anyOf": [{"items": {"enum": ["x" * 5_000]}}] * 3}, [1] * 300_000),
    "long messages": ({"anyOf": [{"type": "null"}] * 400}, "\U0001f600" * 300_000),
    "equal items": ({"uniqueItems": True}, [{"a": [n, {}]} for n in range(40_000)]),
    "no such item": ({"contains": {"pattern": "^(a|a)+$"}}, ["a" * 60 + "b"] * 14_000),
    "large numbers": ({"items": {"multipleOf": 1e-300}}, [1e300] * 100_000),
}


@pytest.mark.parametrize("name", HOSTILE)
async def test_every_check_ends_and_leaves_the_loop_free(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    given, value = HOSTILE[name]
    schema = await read_schema(given)
    monkeypatch.setattr(answer_type, "SECONDS", 1.0)
    worst, began = 0.0, time.monotonic()
    checking = asyncio.ensure_future(schema.check(value))
    while not checking.done():
        before = time.monotonic()
        await asyncio.sleep(0.01)
        worst = max(worst, time.monotonic() - before)
    with suppress(SchemaError):
        await checking
    assert time.monotonic() - began < 10
    assert worst < 2.0  # a check that held the loop would hold it for seconds


async def test_long_checks_hold_up_no_short_one(monkeypatch: pytest.MonkeyPatch) -> None:
    """Whoever wrote them: a server has the runs of many."""
    monkeypatch.setattr(answer_type, "SECONDS", 0.6)
    long, short = AnswerType(UNION), AnswerType({"a": "int"})
    checks = [asyncio.ensure_future(long.check(nest(1, 60, kind="c"))) for _ in range(3)]
    await asyncio.sleep(0.2)
    began = time.monotonic()
    await short.check({"a": 1})
    assert time.monotonic() - began < 1
    assert not all(check.done() for check in checks)
    await asyncio.gather(*checks, return_exceptions=True)


async def test_a_large_value_is_checked_to_its_end() -> None:
    schema = AnswerType({"type": "array", "items": {"properties": {"n": {"type": "integer"}}}})
    good = [{"n": number} for number in range(20_000)]
    await schema.check(good)
    with pytest.raises(SchemaError, match=r"\[20000\]\['n'\]: 'x' is not of type 'integer'"):
        await schema.check([*good, {"n": "x"}])


async def test_a_value_is_bounded_before_it_is_checked() -> None:
    schema = AnswerType({"type": "string"})
    for value in ("x" * 1_000_001, float("nan"), [float("inf")]):
        with pytest.raises(SchemaError):
            await schema.check(value)
    with pytest.raises(SchemaError, match="deeper than 100 levels"):
        await schema.check(nest(1, 200))


@pytest.mark.parametrize(
    "schema",
    [
        {"pattern": "str", "age": "int"},
        {"properties": {"const": {"type": "string"}, "default": {"items": {"minimum": 3}}}},
        {
            "const": {"pattern": "(a+)+$", "$ref": "#"},
            "default": {"$ref": "#"},
            "examples": [{"pattern": "x"}],
        },
        {
            "x-note": {"pattern": "("},
            "type": "string",
            "$schema": "https://json-schema.org/draft/2020-12/schema",
        },
    ],
)
async def test_names_of_properties_are_free(schema) -> None:
    assert await read_schema(schema)


TEXT, WHOLE = {"type": "string"}, {"type": "integer"}


@pytest.mark.parametrize(
    ("given", "schema"),
    [
        (
            {"a": ["str"], "b": {"c": "int", "d": None}},
            {
                "type": "object",
                "properties": {
                    "a": {"type": "array", "items": TEXT},
                    "b": {
                        "type": "object",
                        "properties": {"c": WHOLE, "d": {"type": "null"}},
                        "required": ["c", "d"],
                    },
                },
                "required": ["a", "b"],
            },
        ),
        ({"type": "str", "tags": ["str"]}, {"type": "object"}),
        ({"type": WHOLE}, {"type": "object", "properties": {"type": WHOLE}, "required": ["type"]}),
        (
            {"minimum": WHOLE, "title": TEXT},
            {"type": "object", "properties": {"minimum": WHOLE, "title": TEXT}},
        ),
        ({"enum": ["a", None]}, {"enum": ["a", None]}),
        ({"type": "object", "properties": {"a": WHOLE}, "x-order": ["a"]}, {"properties": {"a": WHOLE}}),
    ],
)
async def test_types_are_a_schema(given, schema) -> None:
    """Names of types, lists of one type and objects of these are short for a JSON Schema."""
    found = (await read_schema(given)).schema
    assert {key: found[key] for key in schema} == schema


@pytest.mark.parametrize(
    ("given", "words"),
    [
        (["str", "int"], "it is a list of 2 types"),
        ({"a": "text"}, "it['a'] is 'text', which is no type. Give a JSON Schema, or types: 'str'"),
        ({"a": {"b": []}}, "it['a']['b'] is a list of 0 types"),
        ({"type": "object", "properties": {"a": "int"}}, "it is no JSON Schema"),
        (5, "it is 5, which is no type"),
    ],
)
async def test_another_schema_is_told_what_is_accepted(given, words) -> None:
    with pytest.raises(SchemaError) as caught:
        await read_schema(given)
    assert words in str(caught.value)


KEYWORDS = [
    *("$ref", "$dynamicRef", "$id", "$anchor", "$defs", "pattern", "patternProperties", "format"),
    *("uniqueItems", "multipleOf", "contains", "dependentSchemas", "unevaluatedItems", "propertyNames"),
    *("properties", "items", "prefixItems", "allOf", "anyOf", "not", "if", "then", "additionalProperties"),
    *("const", "enum", "default", "examples", "type", "required", "minimum", "maxLength", "title"),
]
VALUES = st.recursive(
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats(allow_nan=False)
    | st.sampled_from(["^(a|a)+$", "#", "#/$defs/a", "string", "object"]),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(st.sampled_from(KEYWORDS) | st.sampled_from("abc"), inner, max_size=3)
    ),
    max_leaves=20,
)


@given(st.dictionaries(st.sampled_from(KEYWORDS), VALUES, max_size=4), VALUES)
@settings(max_examples=300, deadline=None)
def test_any_schema_is_refused_or_checks_any_value(schema: dict[str, Any], value: Any) -> None:
    """Nothing but a SchemaError comes of it."""

    async def check() -> None:
        await (await read_schema(schema)).check(value)

    with suppress(SchemaError):
        asyncio.run(check())


@pytest.mark.parametrize(
    ("reply", "value"),
    [
        ("[1]", [1]),
        ("Here:\n```json\n[1]\n```\nDone.", [1]),
        ("```\n{}\n  ```", {}),
        ("```\n[1]", None),
        ('{"a": NaN}', None),
        ('{"a": 1e999}', None),
        ("[" * 100_000, None),
        ("[" * 150 + "]" * 150, None),
        ('"' + "x" * MAX_VALUE_CHARS + '"', None),
        ("9" * 5_000, None),
        ("x```\n" * 200_000, None),
    ],
)
def test_a_reply_is_parsed_or_refused(reply: str, value: Any) -> None:
    """Whatever a model sends, the driver gets a plain, finite, bounded JSON value."""
    if value is None:
        with pytest.raises(SchemaError):
            parse_reply(reply)
    else:
        assert parse_reply(reply) == value


async def test_numbers_that_cannot_be_compared_are_a_fault() -> None:
    with pytest.raises(SchemaError, match="compared"):
        await AnswerType({"multipleOf": 1e-300}).check(10**400)


DRIVER = """
import asyncio
from rlm.answers.answer_type import AnswerType

branch = {"properties": {"left": {"$ref": "#"}}, "required": ["left"]}
value = 1
for _ in range(60):
    value = {"left": value}

async def main():
    checking = asyncio.ensure_future(AnswerType({"anyOf": [branch, {**branch}]}).check(value))
    await asyncio.sleep(0.1)
    print("checking", flush=True)
    await checking

asyncio.run(main())
"""


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_signal_ends_the_driver_during_a_check(number: signal.Signals) -> None:
    """Nothing waits for a check: not the loop, and not the end of asyncio.run."""
    with subprocess.Popen(
        [sys.executable, "-c", DRIVER], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True
    ) as driver:
        assert driver.stdout is not None
        assert driver.stdout.readline() == "checking\n"
        began = time.monotonic()
        driver.send_signal(number)
        driver.wait(10)
    assert time.monotonic() - began < 1.5
