"""Test the compatibility names of another RLM library, over a real kernel."""

from __future__ import annotations

import pytest

from rlm import Settings
from rlm.settings import RootSettings
from rlm.testing import ScriptedModel

RLMS = Settings(strategy="rlm", root=RootSettings(dialect="rlms"))


@pytest.mark.parametrize(
    "code",
    [
        "import re\nFINAL(len(re.findall(r'two', context)))",
        "n = context.count('two')\nFINAL_VAR('n')",
        "n = len(context.split('two')) - 1\nFINAL_VAR(n)",
        "answer['content'] = len(context.split('two')) - 1\nanswer['ready'] = True",
    ],
)
async def test_an_answer_in_the_other_dialect(run, block, code) -> None:
    result = await run(ScriptedModel.of(root=block(code)), "one two\nthree two\n", settings=RLMS)
    assert (result.answer, result.rounds) == (2, 1)


async def test_its_queries_are_children_and_sub_rlms(run, block) -> None:
    """Bounded, paid and recorded like any other."""
    code = (
        "a = llm_query('What is here? ' + context[:3])\nb = llm_query_batched(['x', 'y'])\n"
        "FINAL([a, list(b)])"
    )
    model = ScriptedModel.of(root=block(code), child=lambda request: request.task[:1] + "!")
    result = await run(model, settings=RLMS)
    assert result.answer == ["W!", ["x!", "y!"]]
    assert result.sub_calls == 3


async def test_a_refused_answer_is_told(run, block) -> None:
    """`answer` without content is refused, and the run goes on."""
    model = ScriptedModel.of(
        root=[block("context[:1]\nanswer['ready'] = True"), block("answer.update(content='one', ready=True)")]
    )
    assert (await run(model, settings=RLMS)).answer == "one"
    assert "`answer` was not accepted" in model.requests[1].messages[-1].content


async def test_the_prompt_names_it_only_when_asked(run, block) -> None:
    model = ScriptedModel.of(root=[block("peek(0, 3)\nfinalize(1)")] * 2)
    await run(model, settings=RLMS)
    await run(model)
    told, untold = (request.messages[0].content for request in model.requests)
    assert "llm_query(prompt)" in told
    assert "llm_query" not in untold
