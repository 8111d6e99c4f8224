"""Test what a root learns of its sub-RLMs: whether they found something, and what they took."""

from __future__ import annotations

import pytest

from rlm import Limits, Settings
from rlm.models.base import Reply, Request, TokenUsage
from rlm.models.catalog.info import ModelInfo
from rlm.testing import ScriptedModel

BODY = "".join(f"Line {n}: the value is {n * 7}.\n" for n in range(100))


def by_task(block, **codes: str):
    """Make a root that answers by its task, one cell a round."""
    scripts = {task: code.split("---") for task, code in codes.items()}
    return lambda request: block(scripts[request.task][request.round - 1].strip())


@pytest.mark.parametrize(
    "said", ["Not in the documents: no line speaks of it.", "not in the documents.", "NOT_FOUND"]
)
async def test_a_sub_rlm_that_says_not_in_the_documents_found_nothing(run, block, said) -> None:
    """Its own prompt asks for these words, so they must not be joined as evidence."""
    model = ScriptedModel.of(
        root=by_task(
            block,
            top="b = sub_rlm(['inner', 'other'], [(0, 50), (50, 99)])\n"
            "finalize([[one.found for one in b], b.joined()])",
            inner=f"peek(0, 9)\nfinalize({said!r})",
            other="peek(0, 9)\nfinalize('Not in the documents of 2019, but in those of 2020.')",
        )
    )
    result = await run(model, BODY, task="top")
    assert result.answer[0] == [False, True]
    assert "other" not in result.answer[1]
    assert result.answer[1].count("\n") == 1


async def test_the_root_is_told_what_sub_rlms_took(run, block) -> None:
    """Also those that failed, and an unknown price is no zero."""

    def usage(request: Request) -> Reply:
        codes = {
            "top": ["peek(0, 1)\nb = sub_rlm(['fine', 'fails'], [(0, 50), (50, 99)])", "finalize('x')"],
            "fine": ["finalize(peek(0, 9))"],
            "fails": ["peek(0, 1)", "1 / 0", "2 / 0"],
        }
        return Reply(block(codes[request.task][request.round - 1]), usage=TokenUsage(100, 10))

    for price, cost in ((None, "unknown cost"), (1.0, "$0.0004")):
        model = ScriptedModel.of(root=usage)
        model._name = "openai:mine@http://models.example/v1"
        known = {} if price is None else {model.name: ModelInfo(input_price=price, output_price=price)}
        settings = Settings(strategy="rlm", facts=known)
        await run(model, BODY, task="top", limits=Limits(max_rounds=3), settings=settings)
        said = model.requests[-1].messages[-1].content
        assert "Children: 2 asked, 1 failed, 0 from memory" in said
        assert f" 4 calls in sub-RLMs, 440 tokens, {cost}." in said
