"""Test mistakes in slices and evidence, made by cells in a real kernel."""

from __future__ import annotations

import json

from rlm.testing import ScriptedModel

TEXT = "some value here\n" * 21_000 + "The lease ends in 2031.\n"
TRY = """
import json
def told(call):
    try:
        call()
    except Exception as error:
        return f"{type(error).__name__}: {error}"
    return "nothing"
hits = search('value', max_hits=20_000)
print(json.dumps([told(lambda: eval(call)) for call in CALLS]))
"""


MISTAKES = {
    "finalize('x [1]', evidence=[(20, 5)])": "ValueError: (20, 5) is no span: it holds no character",
    "finalize('x', evidence=[(hits[0].end, hits[0].start)])": "is no span",
    "finalize('x', evidence=(5, 5))": "ValueError: (5, 5) is no span",
    "finalize('x', evidence=[(-1, -10)])": "ValueError: (-1, -10) is no span",
    "finalize('x', evidence=hits)": "ValueError: evidence holds 20,000 pieces, and an answer takes at most",
    "sub_query('q', hits)": "SliceTooLarge: the slice has 20,000 pieces, and a child takes at most 10,000",
    "sub_query_map(['q', 'r'], [(0, 5), hits])": "SliceTooLarge: the slice has 20,000 pieces",
    "sub_rlm(['q'], [hits])": "SliceTooLarge: the slice has 20,000 pieces",
}


async def try_calls(run, block, calls: list[str]) -> list[str]:
    """Return what a cell is told for each call. The run then ends with a proven answer."""
    model = ScriptedModel.of(
        root=[block(f"CALLS = {calls!r}" + TRY), block("finalize('2031', evidence=[(-24, -1)])")]
    )
    result = await run(model, TEXT)
    assert (result.answer, result.stop_reason) == ("2031", "finalized")
    assert result.citations[0].verified
    assert {request.role for request in model.requests} == {"root"}
    printed = model.requests[-1].messages[-1].content
    return json.loads(next(line for line in printed.splitlines() if line.startswith("[")))


async def test_mistakes_are_told_and_the_run_goes_on(run, block) -> None:
    """The error names the mistake and what to give instead. No kernel dies, and no child is paid."""
    told = await try_calls(run, block, list(MISTAKES))
    for call, expected, got in zip(MISTAKES, MISTAKES.values(), told, strict=True):
        assert expected in got, call


async def test_evidence_that_proves_nothing_is_told_once(run, block) -> None:
    weak = "[(0, 10**40), 'T', 'value']"
    (told,) = await try_calls(run, block, [f"finalize('x', evidence={weak})"])
    assert told.startswith("ValueError: not finalised: ")
    assert "1 of 3 pieces of evidence were not found" in told
    assert "2 pieces of evidence are too short or too common to prove anything: 'T'; 'value'" in told


async def test_negative_offsets_mean_what_they_mean_in_peek(run, block) -> None:
    cell = "same = peek(-24, -1)\nfinalize(str(same), evidence=[(-24, -1)])"
    result = await run(ScriptedModel.of(root=[block(cell)]), TEXT)
    (citation,) = result.citations
    assert result.answer == citation.quote == "The lease ends in 2031."
    assert (citation.start, citation.end) == (len(TEXT) - 24, len(TEXT) - 1)
