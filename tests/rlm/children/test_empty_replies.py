"""Test how replies that say that nothing is there are understood, under a schema and without a slice."""

from __future__ import annotations

import json

import pytest

from rlm.children.child_prompts import empty_form
from rlm.sandbox.host.requests import BadCall, child_batch
from rlm.testing import ScriptedModel


@pytest.mark.parametrize(
    ("schema", "empty"),
    [
        ({"type": "array"}, []),
        ({"type": "object", "properties": {"a": {"type": "array"}}}, {"a": []}),
        ({"type": "array", "minItems": 1}, None),
        ({"type": "object", "properties": {"a": {"type": "array"}, "b": {"type": "string"}}}, None),
        ({"type": "object"}, None),
        ({"type": "string"}, None),
        ({}, None),
    ],
)
def test_the_empty_form_of_a_schema(schema, empty) -> None:
    assert empty_form(schema) == empty


@pytest.mark.parametrize("reply", ["[]", "NOT_FOUND", "```json\n[]\n```"])
async def test_an_empty_list_and_not_found_are_the_same_under_an_array(run, block, reply) -> None:
    code = "r = sub_query_batch('q', [(0, 3)], schema=['str'])\nfinalize([r[0].ok, r[0].found, r[0].value])"
    model = ScriptedModel.of(root=[block(code)], child=reply)
    assert (await run(model)).answer == [True, False, []]


async def test_a_model_of_lists_comes_back_empty(run, block) -> None:
    code = """
from pydantic import BaseModel
class Page(BaseModel):
    names: list[str]
r = sub_query_batch("q", [(0, 3), (4, 7)], schema=Page)
finalize([name for one in r for name in one.value.names])
"""

    def child(request) -> str:
        return "NOT_FOUND" if "one" in request.slices[0].text else json.dumps({"names": ["two"]})

    assert (await run(ScriptedModel.of(root=[block(code)], child=child))).answer == ["two"]


async def test_an_answer_without_a_slice_is_no_evidence(run, block) -> None:
    code = (
        "r = sub_query('Which year?')\nm = sub_query_map(['a', 'b'])\n"
        "finalize([r.ok, r.found, r.grounded, len(m.found), m.joined()])"
    )
    ok, found, grounded, count, joined = (
        await run(ScriptedModel.of(root=[block("peek(0,1)\n" + code)], child="1901"))
    ).answer
    assert (ok, found, grounded, count) == (True, False, False, 0)
    assert joined.count("[no slice: the model's own knowledge, not from the input]\n1901") == 2


async def test_a_search_that_found_nothing_asks_and_costs_nothing(run, block) -> None:
    """The model must not answer from its own knowledge what the input does not hold."""
    model = ScriptedModel.of(
        root=[
            block("r = sub_query('When did ZZZ happen?', search('ZZZNOTHERE'))"),
            block("b = sub_query_batch('q', [search('ZZZ'), None, '', (0, 3)])\nfinalize(b.joined())"),
        ],
        child="in 1901",
    )
    result = await run(model)
    assert result.answer == "[text, characters 0-3]\nin 1901"
    assert result.sub_calls == 1
    assert [request.slices[0].text for request in model.requests if request.role == "child"] == ["one"]
    said = model.requests[1].messages[-1].content
    assert "the slice is empty: a list without items. Nothing was sent. Leave the slice out to ask" in said


@pytest.mark.parametrize("pieces", [[], [""], [" \n", [4, 4]]])
def test_the_driver_refuses_an_empty_slice_of_any_kernel(pieces) -> None:
    with pytest.raises(BadCall, match="the slice is empty"):
        child_batch({"prompts": ["q"], "slices": [pieces]}, 10)
