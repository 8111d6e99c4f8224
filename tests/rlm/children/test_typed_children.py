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


async def test_a_check_is_told_to_that_child_once(run, block) -> None:
    """A reader gave 9 of 10 items: asked once more with the reason, it gives the tenth."""

    def child(request) -> str:
        last = request.messages[-1].content
        short = "two" in request.slices[0].text and "give 10 items" not in last
        return json.dumps(list(range(9 if short else 10)))

    code = """
def check(value, index):
    if len(value) != 10:
        raise ValueError(f"slice {index}: {len(value)} items, give 10 items")
r = sub_query_batch("List ten.", [(0, 3), (4, 7), (8, 13)], schema=["int"], check=check)
finalize([r.failed, [len(one.value) for one in r]])
"""
    model = ScriptedModel.of(root=[block(code)], child=child)
    result = await run(model)
    assert result.answer == [[], [10, 10, 10]]
    assert result.sub_calls == 4
    assert "slice 1: 9 items, give 10 items" in children(model)[-1].messages[-1].content


async def test_an_answer_that_still_fails_its_check_is_failed_with_the_reason(run, block) -> None:
    code = """
r = sub_query_batch("q", [(0, 3), (4, 7)], check=lambda text, index: None if "1" in text else "no digit")
print(r.failed, r[1].error, r[1].error_type, repr(str(r[1])))
finalize(r.failed)
"""

    def child(request) -> str:
        return "1" if "one" in request.slices[0].text else "two"

    model = ScriptedModel.of(root=[block("print(1)"), block(code)], child=child)
    result = await run(model)
    assert result.answer == [1]
    assert result.sub_calls == 3


async def test_a_failed_check_raises_for_a_single_child(run, block) -> None:
    model = ScriptedModel.of(
        root=[block("sub_query('q', (0, 3), check=lambda text: 'too short')"), block("finalize(1)")],
        child="a",
    )
    await run(model)
    said = model.requests[-1].messages[-1].content
    assert "SubQueryError" in said
    assert "the answer did not pass check: too short" in said


async def test_a_check_that_is_broken_costs_no_second_call(run, block) -> None:
    """Its error is the block's own mistake. The answers are kept: the same call, mended, is free."""
    model = ScriptedModel.of(
        root=[
            block("r = sub_query_batch('q', [(0, 3), (4, 7)], check=lambda text, index: text['a'])"),
            block(
                "r = sub_query_batch('q', [(0, 3), (4, 7)], check=lambda text, index: None)\n"
                "finalize(len(r.found))"
            ),
        ],
        child="a",
    )
    result = await run(model)
    assert result.answer == 2
    assert result.sub_calls == 2
    said = model.requests[-1].messages[-1].content
    assert "TypeError" in said
    assert "lambda" in said


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        ("check=3", "check must be a function"),
        ("check=lambda: None", "check must take"),
        ("check=late", "check must be a plain function"),
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
async def late(value, index):
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
r = sub_query_batch("q", [(0, 3), (4, 7)], check=lambda text, index: None if index else "again")
print(r[0].error)
finalize([r.failed, str(r[1])])
"""
    model = ScriptedModel.of(root=[block(code)], child="a")
    result = await run(model, limits=Limits(max_calls=2))
    assert result.answer == [[0], "a"]
    assert result.sub_calls == 2
