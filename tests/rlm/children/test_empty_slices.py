"""Test that an empty slice never becomes a task without a slice, in whole runs."""

from __future__ import annotations

import pytest

from rlm.sandbox.host.requests import BadCall, child_batch
from rlm.testing import ScriptedModel


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
