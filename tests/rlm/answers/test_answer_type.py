"""Test answers of a given type."""

from __future__ import annotations

import json
import time
from dataclasses import dataclass
from typing import Any

import pytest
from pydantic import BaseModel, ConfigDict, Field

from rlm import Settings
from rlm.answers.answer_type import AnswerType, SchemaError
from rlm.errors import UsageError
from rlm.results import RunResult
from rlm.testing import ScriptedModel


class Party(BaseModel):
    name: str
    share: float = Field(ge=0, le=1)


class Contract(BaseModel):
    title: str
    parties: list[Party]


@dataclass
class Point:
    x: int
    y: int


SCHEMA = {"type": "object", "properties": {"n": {"type": "integer"}}, "required": ["n"]}
GOOD = {"title": "Lease", "parties": [{"name": "A", "share": 0.5}]}


@pytest.mark.parametrize(
    ("given", "good", "bad", "place"),
    [
        (SCHEMA, {"n": 3}, {"n": "three"}, "'n'"),
        (Contract, GOOD, {"title": "Lease", "parties": [{"name": "A", "share": 2}]}, "'share'"),
        (Point, {"x": 1, "y": 2}, {"x": 1}, "'y'"),
        (list[int], [1, 2], [1, "two"], "[1]"),
        ({"name": "str", "age": "int"}, {"name": "A", "age": 3}, {"name": "A"}, "'age'"),
    ],
    ids=["JSON Schema", "pydantic model", "dataclass", "list", "names and types"],
)
async def test_a_value_is_checked_and_the_place_of_a_fault_named(given, good, bad, place) -> None:
    """A value must match the run's schema if it has one."""
    answer_type = AnswerType(given)
    await answer_type.check(good)
    with pytest.raises(SchemaError) as fault:
        await answer_type.check(bad)
    assert place in str(fault.value)


def test_a_checked_value_becomes_the_callers_own_type() -> None:
    assert AnswerType(Contract).parsed(GOOD) == Contract.model_validate(GOOD)
    assert AnswerType(Point).parsed({"x": 1, "y": 2}) == Point(1, 2)
    assert AnswerType(SCHEMA).parsed({"n": 3}) == {"n": 3}


@pytest.mark.parametrize("given", [{"type": "nothing"}, object(), lambda: None, {"a": "not a type"}])
def test_what_is_no_schema_is_refused_before_anything_is_spent(given) -> None:
    with pytest.raises(UsageError, match="schema"):
        AnswerType(given)


async def test_a_schema_fetches_nothing(provider_server) -> None:
    """A `$ref` to another document is never followed."""
    with pytest.raises(UsageError, match="nothing is fetched"):
        AnswerType({"$ref": f"{provider_server.url}/schema.json"})
    assert provider_server.connections == 0


class Code(BaseModel):
    model_config = ConfigDict(regex_engine="python-re")
    code: str = Field(pattern="^(?!AA)[A-Z]{2}$")


async def test_the_patterns_of_a_model_are_pydantics() -> None:
    """RE2 does not know them all."""
    answer_type = AnswerType(Code)
    await answer_type.check({"code": "AB"})
    for bad in ("AA", "abc"):
        with pytest.raises(SchemaError, match=r"at \['code'\]: String should match pattern"):
            await answer_type.check({"code": bad})
    with pytest.raises(UsageError, match="is not a regular expression of RE2"):
        AnswerType(Code.model_json_schema())


class Sum(BaseModel):
    left: Sum | Product | float


class Product(BaseModel):
    left: Sum | Product | float


async def test_a_deep_value_of_a_union_of_types_does_not_stop_the_driver() -> None:
    """pydantic tries each member of a union at each level: a value of one line would take it for years."""
    answer_type = AnswerType(Sum)
    value: Any = 1.5
    for _ in range(40):
        value = {"left": value}
    began = time.monotonic()
    with pytest.raises(SchemaError, match="could not be checked"):
        await answer_type.check(value)
    assert time.monotonic() - began < 30
    await answer_type.check({"left": {"left": 2}})


async def test_a_wrong_value_is_refused_and_the_run_continues(run, block) -> None:
    model = ScriptedModel.of(
        root=[block("peek(0, 3)\nfinalize({'n': 'three'})"), block("finalize({'n': 3})")]
    )
    result = await run(model, schema=SCHEMA)
    assert (result.answer, result.parsed, result.rounds) == ({"n": 3}, {"n": 3}, 2)
    feedback = model.requests[-1].messages[-1].content
    assert "ValueError" in feedback
    assert "'n'" in feedback


async def test_the_root_gets_the_schema_and_the_typed_answer_survives_json(run, block) -> None:
    model = ScriptedModel.of(root=[block(f"peek(0, 3)\nfinalize({GOOD!r})")])
    result = await run(model, schema=Contract)
    prompt = model.requests[0].messages[1].content
    assert json.dumps(Contract.model_json_schema(), ensure_ascii=False) in prompt
    assert result.parsed == Contract.model_validate(GOOD)
    assert result.answer == GOOD
    again = RunResult.from_json(json.loads(json.dumps(result.to_json())))
    assert again == result
    assert "parsed" not in result.to_json()


async def test_a_wrong_value_is_no_answer_in_the_last_round_either(run, block) -> None:
    from rlm import Limits

    model = ScriptedModel.of(root=[block("peek(0, 3)\nfinalize('three')")] * 3)
    result = await run(model, schema=SCHEMA, limits=Limits(max_rounds=2))
    assert (result.answer, result.parsed, result.stop_reason) == (None, None, "rounds")


async def test_a_direct_answer_of_the_wrong_type_falls_back_to_an_rlm(run, block) -> None:
    model = ScriptedModel.of(
        direct='three\nEvidence:\n"one two three"', root=[block("peek(0, 3)\nfinalize({'n': 3})")]
    )
    result = await run(model, schema=SCHEMA, settings=Settings(strategy="auto"))
    assert (result.answer, result.strategy) == ({"n": 3}, "rlm")


async def test_extractive_says_at_once_that_it_has_no_types(run) -> None:
    with pytest.raises(UsageError, match="needs a language model"):
        await run("extractive", schema=SCHEMA)
