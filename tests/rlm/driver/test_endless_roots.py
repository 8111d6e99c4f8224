"""Test roots that would never end: each run ends within its limits, and names the reason."""

from __future__ import annotations

import pytest

from rlm import Limits
from rlm.testing import ScriptedModel

LIMITS = Limits(max_rounds=3, max_violations=3, max_seconds=60, cell_seconds=0.5, max_calls=50)


@pytest.mark.parametrize(
    ("code", "remedy"),
    [
        ("while True: pass", "interrupted"),
        ("x = 1", "x: int"),
        ("finalize(object())", "TypeError"),
        ("finalize({1: float('nan')})", "TypeError"),
        ("print('x' * 100_000_000)", "characters not shown"),
        ("raise SystemExit", "SystemExit"),
    ],
    ids=["loops", "never finalises", "finalises an object", "finalises a NaN", "prints 100 MB", "exits"],
)
async def test_a_root_that_never_answers_ends_with_its_rounds(run, block, code, remedy) -> None:
    """The stop reason is `rounds`, there is no answer, and a warning explains it."""
    model = ScriptedModel.of(root=[block(f"peek(0, 3)\n{code}")] * 5)
    result = await run(model, limits=LIMITS)
    assert (result.answer, result.stop_reason, result.rounds) == (None, "rounds", 3)
    assert any("rounds" in warning for warning in result.warnings)
    assert remedy in model.requests[1].messages[-1].content


async def test_two_blocks_for_ever_end_as_a_contract_violation(run, block) -> None:
    """Three violations in a row end the run. None of the blocks ran."""
    twice = block("print('one')") + "\n" + block("print('two')")
    result = await run(ScriptedModel.of(root=[twice] * 5), limits=LIMITS)
    assert (result.answer, result.stop_reason, result.rounds) == (None, "contract_violation", 3)
    assert any("several blocks" in warning for warning in result.warnings)


async def test_ten_thousand_children_are_refused_where_fifty_are_allowed(run, block) -> None:
    """A batch beyond the remaining limits is a ValueError, and nothing is spent."""
    asks = block("sub_query_batch('Which?', [(n, n + 1) for n in range(10_000)])")
    model = ScriptedModel.of(root=[asks] * 3, child="never")
    result = await run(model, "x" * 20_000, limits=LIMITS)
    assert (result.answer, result.stop_reason) == (None, "rounds")
    assert result.sub_calls == 0
