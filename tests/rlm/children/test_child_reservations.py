"""Test that children wait for each other's reservations, in whole runs."""

from __future__ import annotations

import asyncio

from rlm import Limits
from rlm.models.base import Reply, TokenUsage
from rlm.testing import ScriptedModel

BODY = "".join(f"Record {n}: the value is {n * 7}.\n" for n in range(2_000))


async def short(request) -> Reply:
    await asyncio.sleep(0.005)
    return Reply("an answer", usage=TokenUsage(400, 40))


async def test_children_that_fit_run_when_others_settle(run, block) -> None:
    """Each reserves some 5,000 tokens and takes 440. Together they take what the run has."""
    codes = [
        "b = sub_query_batch('q', [(n, n + 9) for n in range(300)])\nfinalize([len(b.failed), len(b.found)])"
    ]
    model = ScriptedModel.of(root=[block(code) for code in codes], child=short)
    result = await run(model, BODY, limits=Limits(max_total_tokens=200_000))
    assert result.answer == [0, 300]


async def test_when_nothing_more_fits_the_root_is_told_what_it_can_do(run, block) -> None:
    """It cannot raise a limit, and the same call would fail again."""
    code = "b = sub_query_batch('q', [(n, n + 9) for n in range(100)])\nprint(len(b.failed))"
    model = ScriptedModel.of(root=[block(code), block("finalize(len(b.found))")], child=short)
    result = await run(model, BODY, limits=Limits(max_total_tokens=45_000))
    said = next(m.content for r in model.requests[1:] for m in r.messages if "failed: [" in m.content)
    assert 40 < result.answer < 100
    assert "answer from what the others found, or ask fewer children over smaller slices)" in said
    assert "raise limits" not in said
    assert "the same call again" not in said
    used = sum(usage.input_tokens + usage.output_tokens for usage in result.usage)
    assert used <= 45_000


async def test_many_threads_of_a_block_never_exceed_a_limit(run, block) -> None:
    """57 threads ask at the same time, and 20 calls are left. The others get an error."""
    code = """
from concurrent.futures import ThreadPoolExecutor
def ask(n):
    try:
        return str(sub_query('q', (n, n + 9)))
    except Exception as error:
        return type(error).__name__
with ThreadPoolExecutor(57) as pool:
    answers = list(pool.map(ask, range(57)))
finalize(answers)
"""
    model = ScriptedModel.of(root=[block(code)], child=short)
    result = await run(model, BODY, limits=Limits(max_calls=20))
    asked = [request for request in model.requests if request.role == "child"]
    assert len(asked) == result.sub_calls == result.answer.count("an answer") == 20
    assert set(result.answer) <= {"an answer", "SubQueryError", "ValueError"}
