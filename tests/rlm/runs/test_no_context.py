"""Test questions without a text: a kernel without documents, and answers marked as the model's knowledge."""

from __future__ import annotations

import pytest

from rlm import RLM, Settings
from rlm.errors import UsageError
from rlm.testing import ScriptedModel


async def test_without_a_text_the_root_computes(run, block) -> None:
    """No evidence is asked for, and the result says what it rests on."""
    code = "import math\nx = str(math.factorial(1000))\nfinalize(len(x) - len(x.rstrip('0')))"
    model = ScriptedModel.of(root=block(code))
    result = await run(model, None, settings=Settings())
    assert (result.answer, result.strategy, result.citations) == (249, "rlm", ())
    assert any("own knowledge" in warning for warning in result.warnings)
    assert result.coverage.input_chars == 0
    assert "There is none. Answer from what you know" in model.requests[0].messages[1].content


async def test_a_child_without_a_slice_is_asked(run, block) -> None:
    model = ScriptedModel.of(
        root=block("finalize(str(sub_query('What is the capital of France?')))"), child="Paris"
    )
    assert (await run(model, None)).answer == "Paris"


async def test_a_direct_call_asks_for_no_quotes(run) -> None:
    model = ScriptedModel.of(direct="Paris")
    result = await run(model, None, settings=Settings(strategy="direct"))
    assert (result.answer, result.citations) == ("Paris", ())
    assert "Evidence" not in model.requests[0].messages[-1].content


async def test_map_reduce_needs_a_text(run) -> None:
    with pytest.raises(UsageError, match="map-reduce reads a text"):
        await run(ScriptedModel.of(), None, settings=Settings(strategy="map-reduce"))


async def test_it_is_resumed_without_its_input(run, block, tmp_path) -> None:
    model = ScriptedModel.of(root=[block("x = 6 * 7"), RuntimeError("killed")])
    with pytest.raises(RuntimeError):
        await run(model, None)
    settings = Settings(sandbox=run.level, store=run.store)
    again = ScriptedModel.of(root=[block("finalize(x)")])
    run_id = run.events[1].run_id
    assert (await RLM(again, settings=settings).resume(run_id)).answer == 42
