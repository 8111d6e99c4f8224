"""Test that a cell gets typed answers, and that its own check is told to a child once."""

from __future__ import annotations

import json

import pytest

from rlm.testing import ScriptedModel

TYPES = """
from dataclasses import dataclass
from typing import Literal
from pydantic import BaseModel, Field

class Item(BaseModel):
    name: str
    kind: Literal["fee", "refund"]
    amount: float = Field(ge=0)

class Page(BaseModel):
    items: list[Item]

@dataclass
class Point:
    x: int
    label: str | None = None
"""
FEE = {"name": "late", "kind": "fee", "amount": 3.5}


def children(model: ScriptedModel) -> list:
    return [request for request in model.requests if request.role == "child"]


async def test_answers_are_instances_of_a_model_of_the_block(run, block) -> None:
    def child(request) -> str:
        return json.dumps({"items": [FEE]}) if "page" in request.task else json.dumps([FEE])

    model = ScriptedModel.of(
        root=[
            block(
                TYPES
                + "p = sub_query('the page', (0, 3), schema=Page)\n"
                + "q = sub_query_batch('the list', [(0, 3), (4, 7)], schema=list[Item])\n"
                + "item = p.value.items[0]\n"
                + "finalize([item.kind, type(p.value).__name__, q[1].value[0].amount, len(q.found)])"
            )
        ],
        child=child,
    )
    result = await run(model)
    assert result.answer == ["fee", "Page", 3.5, 2], model.requests[-1].messages[-1].content
    asked = "".join(message.content for message in children(model)[0].messages)
    assert '"$ref"' not in asked
    assert '"enum": ["fee", "refund"]' in asked


async def test_answers_are_instances_of_a_dataclass(run, block) -> None:
    model = ScriptedModel.of(
        root=[
            block(
                TYPES
                + "p = sub_query('q', (0, 3), schema=Point)\nfinalize([type(p.value).__name__, p.value.x])"
            )
        ],
        child='{"x": 4}',
    )
    assert (await run(model)).answer == ["Point", 4]


async def test_what_a_models_own_validator_refuses_is_asked_once_more(run, block) -> None:
    """JSON Schema cannot say it, so the kernel finds it. The driver never sees the model's code."""
    code = """
from pydantic import BaseModel, field_validator
class Year(BaseModel):
    year: int
    @field_validator("year")
    @classmethod
    def known(cls, value):
        if value < 1900:
            raise ValueError("years begin in 1900")
        return value
r = sub_query("Which year?", (0, 3), schema=Year)
finalize(r.value.year)
"""

    def child(request) -> str:
        retried = "years begin in 1900" in request.messages[-1].content
        return '{"year": 1950}' if retried else '{"year": 50}'

    model = ScriptedModel.of(root=[block(code)], child=child)
    result = await run(model)
    assert result.answer == 1950
    assert result.sub_calls == 2


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        ("schema=Tree", "contains itself"),
        ("schema=Row", "no type of JSON"),
    ],
)
async def test_what_cannot_be_checked_is_refused_before_it_is_paid(run, block, arguments, said) -> None:
    code = """
from pydantic import BaseModel
class Tree(BaseModel):
    inside: "list[Tree]"
class Row:
    pass
"""
    model = ScriptedModel.of(
        root=[block(f"{code}sub_query('q', (0, 3), {arguments})"), block("peek(0, 1); finalize(1)")],
        child="a",
    )
    result = await run(model)
    assert result.sub_calls == 0
    assert said in model.requests[-1].messages[-1].content


async def test_a_child_is_not_asked_again_without_calls_left_and_keeps_the_others(run, block) -> None:
    from rlm import Limits

    code = """
from pydantic import BaseModel, field_validator
class Even(BaseModel):
    n: int
    @field_validator("n")
    @classmethod
    def even(cls, n):
        assert n % 2 == 0, "odd"
        return n
r = sub_query_batch("q", [(0, 3), (4, 7)], schema=Even)
print(r[0].error)
finalize([r.failed, r[1].value.n])
"""
    model = ScriptedModel.of(
        root=[block(code)],
        child=lambda request: json.dumps({"n": 1 if "one" in request.slices[0].text else 2}),
    )
    result = await run(model, limits=Limits(max_calls=2))
    assert result.answer == [[0], 2]
    assert result.sub_calls == 2


async def test_a_json_schema_may_hold_a_model(run, block) -> None:
    code = """
from pydantic import BaseModel
class Item(BaseModel):
    n: int
r = sub_query("q", (0, 3), schema={"type": "array", "items": Item})
finalize([type(r.value[0]).__name__, r.value[0].n])
"""
    model = ScriptedModel.of(root=[block(code)], child='[{"n": 5}]')
    assert (await run(model)).answer == ["Item", 5]
