"""Test slices of many short spans in whole runs."""

from __future__ import annotations

import re

from rlm.testing import ScriptedModel

BODY = "".join(f"Record {n}: the value is {n * 7}.\n" for n in range(20_000))


async def test_a_thousand_short_spans_are_one_slice(run, block) -> None:
    code = "finalize(str(sub_query('q', [(50 * n, 50 * n + 1) for n in range(1000)])))"
    model = ScriptedModel.of(root=[block(code)], child="fine")
    assert (await run(model, BODY)).answer == "fine"


async def test_more_than_fit_are_refused_with_a_number_that_fits(run, block) -> None:
    """Nothing is sent, and the root can do what the error says."""
    many = "[(50 * n, 50 * n + 1) for n in range({count})]"
    model = ScriptedModel.of(
        root=lambda request: block(
            f"sub_query('q', {many.format(count=9_000)})"
            if request.round == 1
            else f"finalize(str(sub_query('q', {many.format(count=fitting(request))})))"
        ),
        child="fine",
    )
    result = await run(model, BODY)
    assert (result.answer, result.sub_calls) == ("fine", 1)


def fitting(request) -> int:
    said = request.messages[-1].content
    assert "SliceTooLarge" in said
    return int(re.search(r"give at most ([\d,]+) such pieces", said)[1].replace(",", ""))


async def test_a_prompt_that_is_too_long_is_told_without_a_limit_to_raise(run, block) -> None:
    model = ScriptedModel.of(
        root=[block("sub_query('word ' * 50_000, (0, 9))"), block("peek(0, 1)\nfinalize('no')")],
        child="never",
    )
    result = await run(model, BODY)
    said = model.requests[-1].messages[-1].content
    assert result.sub_calls == 0
    assert "Shorten it, or give its text as a slice" in said
    assert "raise child" not in said
    assert "raise limits" not in said
