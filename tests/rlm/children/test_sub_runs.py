"""Test sub-RLMs: whole runs one depth down."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from rlm import Limits, Settings
from rlm.errors import ModelUnavailable
from rlm.events import ChildEnded, RoundStarted, SubRLMStarted, Warned
from rlm.models.base import Reply, Request, TokenUsage
from rlm.models.catalog.info import ModelInfo
from rlm.testing import ScriptedModel

BODY = "".join(f"Line {n}: the value is {n * 7}.\n" for n in range(2_000))


def by_task(block, **codes: str):
    """Make a root that answers by its task: each RLM of a tree has its own script, one cell a round."""
    scripts = {task: code.split("---") for task, code in codes.items()}

    def reply(request: Request) -> str:
        return block(scripts[request.task][request.round - 1].strip())

    return reply


async def test_a_sub_rlm_has_a_kernel_and_a_handle_of_its_own(run, block) -> None:
    """Offsets count from the start of its source."""
    model = ScriptedModel.of(
        root=by_task(
            block,
            top="x = 'mine'\na = sub_rlm('inner', (100, 300))\nfinalize([str(a), a.how, a.ok])",
            inner="meta = context_meta()\nprint(SHOW_VARS())\nfinalize(f'{meta.chars} {peek(0, 10)}')",
        )
    )
    result = await run(model, BODY, task="top")
    assert result.answer == [f"200 {BODY[100:110]}", "rlm", True]
    assert "x" not in model.requests[1].messages[-1].content.split("# Task")[0]
    assert len(run.seen(SubRLMStarted)) == 1
    assert len(run.seen(RoundStarted)) == 1


async def test_a_sub_rlm_gets_the_whole_task(run, block) -> None:
    """It sees the whole task and never the text."""
    long = "inner " + "very " * 500 + "long"
    model = ScriptedModel.of(
        root=lambda request: block(
            "finalize(peek(0, 1))" if request.task == long else f"finalize(str(sub_rlm({long!r}, (0, 50))))"
        )
    )
    await run(model, BODY, task="top")
    messages = model.requests[1].messages
    assert long in messages[1].content
    assert BODY[200:400] not in "".join(message.content for message in messages)


async def test_without_a_source_the_handle_is_empty(run, block) -> None:
    model = ScriptedModel.of(
        root=by_task(
            block,
            top="peek(0, 1)\nfinalize(str(sub_rlm('inner')))",
            inner="finalize(str(context_meta().chars))",
        )
    )
    assert (await run(model, BODY, task="top")).answer == "0"


async def test_a_source_may_be_text_or_several_pieces(run, block) -> None:
    """The source is a str or a list. Pieces of the body keep their places."""
    model = ScriptedModel.of(
        root=by_task(
            block,
            top="a = sub_rlm('inner', ['made here', (0, 7), (14, 21)])\nfinalize([str(a), a.evidence])",
            inner="d = [(d.name, d.end - d.start) for d in documents()]\n"
            "finalize(str([peek(0, 100), d]), evidence=search('Line 0'))",
        )
    )
    result = await run(model, BODY, task="top")
    text, evidence = result.answer
    assert "made here\\nLine 0:\\n" in text
    assert "input [0-7]" in text or "[0-7]" in text
    assert evidence == [[0, 7]]


async def test_a_result_that_is_no_text_is_a_value(run, block) -> None:
    """`analysis[:800]` works even if the child finalized JSON, which is in `.value`."""
    model = ScriptedModel.of(
        root=by_task(
            block,
            top="a = sub_rlm('inner', (0, 50))\nfinalize([a[:8], a.value['n']])",
            inner="finalize({'n': len(peek(0, 7))})",
        )
    )
    assert (await run(model, BODY, task="top")).answer == ['{"n": 7}', 7]


async def test_evidence_comes_back_in_the_parents_coordinates(run, block) -> None:
    """A sub-RLM's verified citations can be the parent's evidence."""
    model = ScriptedModel.of(
        root=by_task(
            block,
            top="a = sub_rlm('inner', (1000, 3000))\nfinalize(str(a), evidence=a.evidence)",
            inner="h = search('Line 50')\nfinalize('found', evidence=h[:1])",
        )
    )
    result = await run(model, BODY, task="top")
    (citation,) = result.citations
    assert citation.verified
    assert (citation.quote, citation.start) == ("Line 50: the value is 350.", BODY.index("Line 50"))


async def test_what_a_sub_rlm_saw_counts_for_the_whole_input(run, block) -> None:
    """Coverage counts for the tree, in the root's offsets."""
    model = ScriptedModel.of(
        root=by_task(
            block,
            top="a = sub_rlm('inner', (1000, 3000))\nfinalize(str(a))",
            inner="peek(0, 100)\nb = sub_query('q', (500, 700))\nfinalize(str(b))",
        ),
        child="yes",
    )
    coverage = (await run(model, BODY, task="top")).coverage
    assert (coverage.read_chars, coverage.sent_chars, coverage.answered_chars) == (100, 200, 200)
    assert coverage.gaps[0] == (0, 1000)
    assert coverage.gaps[1] == (1100, 1500)


@pytest.mark.parametrize(("depth", "how"), [(1, ["rlm", "child"]), (2, ["rlm", "rlm"]), (0, ["child"])])
async def test_depth_is_bounded_and_the_deepest_level_is_a_child(run, block, depth, how) -> None:
    """The root has depth 0. max_depth=1 gives its sub-RLMs a kernel; theirs become children."""
    inner = "b = sub_rlm('innermost', (0, 20))\nfinalize([b.how, str(b)])"
    model = ScriptedModel.of(
        root=by_task(
            block,
            top="a = sub_rlm('inner', (0, 50))\nfinalize([a.how, a.value, str(a)])",
            inner=inner,
            innermost="finalize('deep ' + peek(0, 4))",
        ),
        child="a child's",
    )
    result = await run(model, BODY, task="top", limits=Limits(max_depth=depth))
    first, value, text = result.answer
    assert first == how[0]
    if depth == 0:
        assert text == "a child's"
    else:
        assert value == [how[1], "deep Line" if depth == 2 else "a child's"]


async def test_too_deep_and_too_large_is_a_depth_limit(run, block) -> None:
    code = """
try:
    sub_rlm('q', (0, 300_000))
except Exception as e:
    finalize([type(e).__name__, str(e)])
"""
    model = ScriptedModel.of(root=[block("peek(0, 1)\n" + code)])
    result = await run(model, "word " * 100_000, limits=Limits(max_depth=0))
    name, message = result.answer
    assert name == "DepthLimit"
    assert "sub_query_batch" in message
    assert result.sub_calls == 0


async def test_a_batch_of_sub_rlms_keeps_the_order(run, block) -> None:
    prompts = [f"inner{n}" for n in range(6)]
    codes = {prompt: f"finalize(peek({n}, {n + 6}))" for n, prompt in enumerate(prompts)}
    spans = [(20 * n, 20 * n + 20) for n in range(6)]
    model = ScriptedModel.of(
        root=by_task(
            block, top=f"r = sub_rlm({prompts!r}, {spans!r})\nfinalize([str(a) for a in r])", **codes
        )
    )
    result = await run(model, BODY, task="top")
    assert result.answer == [BODY[20 * n + n : 20 * n + n + 6] for n in range(6)]
    assert len(run.seen(ChildEnded)) == 6


async def test_a_sub_rlm_that_ends_without_an_answer_is_a_failure(run, block) -> None:
    """A single failure raises SubQueryError; a batch continues."""
    code = (
        "try:\n    sub_rlm('inner', (0, 50))\nexcept Exception as e:\n    said = type(e).__name__ + str(e)\n"
        "r = sub_rlm(['inner'], [(0, 50)])\nfinalize([said, r.failed])"
    )
    model = ScriptedModel.of(
        root=lambda request: block("x = 1" if request.task == "inner" else f"peek(0, 1)\n{code}")
    )
    result = await run(model, BODY, task="top", limits=Limits(max_rounds=3))
    error, failed = result.answer
    assert error.startswith("SubQueryErrorthe sub-RLM ended without an answer (rounds)")
    assert failed == [0]


async def test_identical_sub_rlms_run_once(run, block) -> None:
    model = ScriptedModel.of(
        root=by_task(
            block,
            top="a = sub_rlm('inner', (0, 50))\nb = sub_rlm('inner', (0, 50))\nfinalize([b == a, b.cached])",
            inner="finalize(peek(0, 4))",
        )
    )
    result = await run(model, BODY, task="top")
    assert result.answer == [True, True]
    assert [request.task for request in model.requests] == ["top", "inner"]


async def test_cancelling_reaches_every_leaf(run, block, tmp_path: Path) -> None:
    """Children in flight, kernels and folders of the whole tree are gone."""
    asked = asyncio.Event()
    ended: list[str] = []

    async def never(request: Request) -> str:
        if len([one for one in model.requests if one.role == "child"]) == 4:
            asked.set()
        try:
            await asyncio.sleep(60)
        finally:
            ended.append(request.task)
        return ""

    model = ScriptedModel.of(
        root=by_task(
            block,
            top="sub_rlm(['left', 'right'], [(0, 500), (500, 1000)])",
            left="sub_query_batch('l', [(0, 50), (50, 100)])",
            right="sub_query_batch('r', [(0, 50), (50, 100)])",
        ),
        child=never,
    )
    running = asyncio.ensure_future(run(model, BODY, task="top"))
    await asyncio.wait_for(asked.wait(), 60)
    running.cancel()
    with pytest.raises(asyncio.CancelledError):
        await running
    assert sorted(ended) == ["l", "l", "r", "r"]
    left = [task for task in asyncio.all_tasks() if task is not asyncio.current_task()]
    assert left == []


async def test_a_warning_is_given_once_and_says_whence(run, block) -> None:
    """A tree reports each warning once, and marks the warnings of sub-RLMs."""
    model = ScriptedModel.of(
        root=lambda request: (
            "I will not."
            if request.task == "inner"
            else block("peek(0, 1)\na = sub_rlm(['inner'] * 2, [(0, 5), (5, 9)])\nfinalize(a.failed)")
        ),
    )
    result = await run(model, BODY, task="top")
    assert result.answer == [0, 1]
    shown_warnings = [warning for warning in result.warnings if "isolated" not in warning]
    assert len(shown_warnings) == 1
    assert shown_warnings[0].startswith("in a sub-RLM: 3 replies in a row")


async def test_many_sub_rlms_do_not_flood_the_warnings(run, block) -> None:
    """Of a thousand different failures only a few are listed. `rlm show` has all."""
    model = ScriptedModel.of(
        root=lambda request: (
            ModelUnavailable(f"away for {request.task}")
            if request.task != "top"
            else block("peek(0, 1)\na = sub_rlm([f'in {n}' for n in range(9)])\nfinalize(a.failed)")
        ),
    )
    result = await run(model, BODY, task="top")
    assert result.answer == list(range(9))
    shown_warnings = [warning for warning in result.warnings if "isolated" not in warning]
    assert len(shown_warnings) == 6
    assert all(warning.startswith("in a sub-RLM: away for in ") for warning in shown_warnings[:5])
    assert shown_warnings[5] == f"4 more warnings of sub-RLMs: rlm show {result.run_id}"
    assert len(run.seen(Warned)) == 6


@pytest.mark.parametrize("dollars", [0.1, 0.02])
async def test_a_tree_does_not_overspend_by_more_than_one_call(run, block, dollars) -> None:
    """Two levels of sub-RLMs never finalize, and neither do their children."""
    prices = ModelInfo(input_price=1.0, output_price=4.0)
    paid: list[float] = []

    def reply_to(request: Request) -> Reply:
        text = "word " * 40 if request.role == "child" else block(codes[request.task.split()[0]])
        text = text.replace("{round}", str(request.round))
        usage = TokenUsage(sum(len(message.content) for message in request.messages) // 4, len(text) // 4)
        paid.append((usage.input_tokens * 1.0 + usage.output_tokens * 4.0) / 1e6)
        return Reply(text, usage=usage)

    codes = {
        "top": "names = [f'left {n} {round}' for n in range(6)]\n"
        "a = sub_rlm(names, [(n, n + 900) for n in range(6)])\n"
        "print('y' * 7_900)",
        "left": "a = sub_rlm(['right {round}'] * 2, [(0, 400), (400, 800)])\n"
        "b = sub_query_batch('q {round}', chunk(200))\nprint('y' * 7_900)",
        "right": "b = sub_query_batch('r {round}', chunk(100))\nprint('y' * 7_900)",
    }
    model = ScriptedModel.of(root=reply_to, child=reply_to)
    settings = Settings(strategy="rlm", facts={model.name: prices})
    limits = Limits(max_depth=2, max_cost=dollars, max_rounds=8)
    result = await run(model, BODY, task="top 0", limits=limits, settings=settings)
    assert (result.answer, result.stop_reason) == (None, "cost")
    assert sum(paid) == pytest.approx(sum(one.cost_usd for one in result.usage))
    assert sum(paid) <= dollars + max(paid)
    assert len([request for request in model.requests if request.task == "top 0" and request.final]) == 1


async def test_a_batch_of_sub_rlms_the_limits_cannot_carry_is_refused_before_any_begins(run, block) -> None:
    """The error names what is left."""
    code = """
peek(0, 1)
try:
    sub_rlm([f'inner{n}' for n in range(9)], [(0, 50)] * 9)
except ValueError as error:
    finalize(str(error))
"""
    model = ScriptedModel.of(root=[block(code)])
    result = await run(model, BODY, limits=Limits(max_calls=8))
    assert "asked for 9 sub-RLMs, but only 8 child calls are left" in result.answer
    assert (result.sub_calls, len(model.requests)) == (0, 1)


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
