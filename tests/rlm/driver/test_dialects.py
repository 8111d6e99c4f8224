"""Test the dialects of models that were trained for other RLM systems, over a real kernel."""

from __future__ import annotations

import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rlm import Settings
from rlm.driver.dialects import read_reply
from rlm.driver.reply_contract import Cell, Violation
from rlm.prompts.recipes.dialect import Dialect
from rlm.prompts.templates import table
from rlm.replay import replay
from rlm.settings import RootSettings
from rlm.testing import ScriptedModel


def of(dialect: Dialect) -> Settings:
    return Settings(strategy="rlm", root=RootSettings(dialect=dialect))


RLMS = of("rlms")


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


@pytest.mark.parametrize(
    ("dialect", "name", "fence"),
    [
        ("rlms", "llm_query_batched", "repl"),
        ("paper", "FINAL_VAR", "repl"),
        ("prime", "llm_batch", "python"),
        ("dspy", "SUBMIT", "python"),
    ],
)
async def test_the_prompt_is_that_of_the_dialect(run, block, dialect, name, fence) -> None:
    model = ScriptedModel.of(root=[block("peek(0, 3)\nfinalize(1)")] * 2)
    await run(model, settings=of(dialect))
    await run(model)
    told, untold = (request.messages[0].content for request in model.requests)
    assert name in told
    assert f"```{fence}" in told
    assert "Five phases" not in told
    assert name not in untold


@pytest.mark.parametrize("dialect", ["rlms", "paper"])
async def test_a_checkpoint_plays_its_dialect_to_the_end(run, dialect) -> None:
    """Prose, several blocks, and an answer outside of them: none is a breach, and the prose is kept."""
    first = "Let me look.\n```repl\nn = len(context)\n```\nAnd then:\n```repl\nprint(n, context[:3])\n```"
    model = ScriptedModel.of(root=[first, "I know it now.\n\nFINAL_VAR(n)"])
    result = await run(model, "one two\n", settings=of(dialect))
    assert (result.answer, result.rounds, result.stop_reason) == (8, 2, "finalized")
    reply, shown = (message.content for message in model.requests[1].messages[-2:])
    assert reply == first
    assert "8 one" in shown
    assert "Reminder" not in shown


async def test_prime_asks_in_a_batch_and_sets_the_answer(run) -> None:
    code = "found = llm_batch(['a ' + context[:3], 'b'])\nanswer['content'] = ' '.join(found)\n"
    code += "answer['ready'] = True"
    call = (
        '<tool_call>\n{"name": "call_python_repl", "arguments": {"code": "print(context[:3])"}}\n</tool_call>'
    )
    model = ScriptedModel.of(
        root=[call, f"```python\n{code}\n```"], child=lambda request: request.task[:1].upper()
    )
    result = await run(model, settings=of("prime"))
    assert (result.answer, result.sub_calls) == ("A B", 2)


@pytest.mark.parametrize(
    ("call", "answer"),
    [
        ("SUBMIT(2)", 2),
        ("SUBMIT(answer='two')", "two"),
        ("SUBMIT(n=1, m='x')", {"n": 1, "m": "x"}),
        ("SUBMIT(1, 2)", [1, 2]),
    ],
)
async def test_dspy_submits(run, call, answer) -> None:
    result = await run(ScriptedModel.of(root=f"context[:3]\n{call}"), settings=of("dspy"))
    assert result.answer == answer


@pytest.mark.parametrize("dialect", ["rlms", "paper", "prime", "dspy"])
async def test_a_reply_without_code_is_corrected_in_the_dialect(run, dialect) -> None:
    ends = {"prime": "answer['content'] = 1\nanswer['ready'] = True", "dspy": "SUBMIT(1)"}
    last = f"```python\nprint(context[:3])\n{ends.get(dialect, 'FINAL(1)')}\n```"
    model = ScriptedModel.of(root=["I shall look.", last])
    assert (await run(model, settings=of(dialect))).answer == 1
    correction = model.requests[1].messages[-1].content
    assert "was not run (no_block)" in correction
    assert table("dialects.toml")["correction"][dialect] in correction


async def test_a_run_in_a_dialect_replays_and_names_its_scaffold(run) -> None:
    reply = "First:\n```repl\nn = context.count('two')\n```\n```repl\nprint(n)\n```\nFINAL(n)"
    result = await run(ScriptedModel.of(root=reply), "one two\n", settings=of("rlms"))
    again = await replay(result.run_id, store=run.store, settings=Settings(sandbox=run.level))
    assert (result.answer, again.equal) == (1, True)
    own = await run(ScriptedModel.of(root="```repl\npeek(0, 3)\nfinalize(1)\n```"), "one two\n")
    assert own.scaffold != result.scaffold


async def test_a_killed_kernel_gets_the_cells_of_the_dialect_again(run) -> None:
    dies = "```repl\nimport os, signal\nn += 1\nif n == 1: os.kill(os.getpid(), signal.SIGKILL)\n```"
    first = "```repl\nprint(context[:1])\nn = 0\n```\nthen\n```repl\nm = 5\n```"
    model = ScriptedModel.of(root=[first, dies, "FINAL_VAR(m)"])
    assert (await run(model, settings=of("rlms"))).answer == 5


RLMS_ROOT = RootSettings(dialect="rlms")
B = "```"


@pytest.mark.parametrize(
    ("reply", "code"),
    [
        ("FINAL(42)", "FINAL(42)"),
        ("Done.\n\nFINAL(The answer (of 2) is blue.)", "FINAL('The answer (of 2) is blue.')"),
        ('FINAL("Blue")', "FINAL('Blue')"),
        ("FINAL(total)", "FINAL(total if 'total' in globals() else 'total')"),
        ('FINAL_VAR("total")', "FINAL_VAR('total')"),
        ("FINAL(a\nb)\nThat is all.", "FINAL('a\\nb')"),
        ("FINAL(never closed", "FINAL('never closed')"),
        ("**FINAL(x y)**", "FINAL('x y')"),
        ("<think>FINAL(no)</think>\nFINAL(yes!)", "FINAL('yes!')"),
        (f"{B}repl\nn = 1\n{B}\nFINAL(done now)", "n = 1\n\nFINAL('done now')"),
        (f"{B}repl\nn = 1", "n = 1"),
        (f"{B}python\nn = 1\n{B}\ntext\n{B}\nprint(n)\n{B}", "n = 1\n\nprint(n)"),
        (f"Like {B}json\n1\n{B}\n{B}repl\nn = 1\n{B}\n{B}python\nnot run\n{B}", "n = 1"),
        ("import re\nprint(context[:5])", "import re\nprint(context[:5])"),
        ("found = await llm_query('x')", "found = await llm_query('x')"),
        (f"{B}repl\nprint('FINAL(1)')\n{B}", "print('FINAL(1)')"),
    ],
)
def test_what_a_reply_means(reply: str, code: str) -> None:
    cell = read_reply(reply, RLMS_ROOT)
    assert isinstance(cell, Cell)
    assert (cell.code, cell.prose, cell.mark) == (code, "", "repl")


@pytest.mark.parametrize(
    ("reply", "finish", "kind"),
    [
        ("The answer is 5.", "stop", "prose_answer"),
        ("", "stop", "no_block"),
        (f"{B}repl\nn = 1\n{B}", "length", "truncated_reply"),
        (f"{B}repl\n\n{B}", "stop", "empty_block"),
    ],
)
def test_what_no_dialect_runs(reply: str, finish, kind: str) -> None:
    assert getattr(read_reply(reply, RLMS_ROOT, finish), "kind", None) == kind


@given(st.text(alphabet="`~\n FINAL_VAR()'\"repl=x", max_size=300))
def test_any_reply_is_read_as_code_or_a_violation(reply: str) -> None:
    assert isinstance(read_reply(reply, RLMS_ROOT), Cell | Violation)


@pytest.mark.parametrize("piece", ["FINAL(", "(", ")", f"{B}repl\n", f"{B}json\n", "FINAL_VAR(\n", "a (b) "])
def test_a_huge_reply_takes_little_time(piece: str) -> None:
    begun = time.process_time()
    read_reply("FINAL(" + piece * (1_000_000 // len(piece)), RLMS_ROOT)
    assert time.process_time() - begun < 20
