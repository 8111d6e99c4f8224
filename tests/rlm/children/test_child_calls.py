"""Test the children of a run: their prompts, their cost and their answers."""

from __future__ import annotations

import asyncio
import json
import re

import pytest

from rlm import Limits, Settings
from rlm.accounting.metered_model import MeteredModel
from rlm.errors import JournalError, ModelUnavailable
from rlm.events import ChildrenStarted
from rlm.models.base import Reply, TokenUsage
from rlm.prompts import NOT_FOUND, get_counter
from rlm.testing import ScriptedModel

TOKENS = get_counter("estimate")
BODY = "".join(f"Record {n}: the value is {n * 7}.\n" for n in range(2_000))


def children(model: ScriptedModel) -> list:
    return [request for request in model.requests if request.role == "child"]


def numbers(request) -> str:
    """Answer like a child that reads the first record of its slice."""
    found = re.search(r"Record (\d+)", request.slices[0].text)
    return f"record {found[1]}" if found else NOT_FOUND


async def test_a_batch_over_chunks_covers_the_whole_input(run, block) -> None:
    model = ScriptedModel.of(
        root=[
            block(
                "found = sub_query_batch('first record?', chunk(10_000, by='lines'))\nfinalize(list(found))"
            )
        ],
        child=numbers,
    )
    result = await run(model, BODY)
    count = len(children(model))
    assert result.answer == [
        numbers(request) for request in sorted(children(model), key=lambda r: r.slices[0].span)
    ]
    assert (result.sub_calls, result.coverage.answered_chars) == (count, len(BODY))
    assert result.coverage.complete
    assert (result.coverage.chunks_processed, result.coverage.chunks_total) == (count, count)
    assert result.coverage.gaps == ()


async def test_a_childs_prompt_holds_its_slice_and_is_bounded(run, block) -> None:
    """The child recipe keeps it within child_tokens. The slice comes with its provenance."""
    model = ScriptedModel.of(
        root=[
            block("finalize(sub_query('What is the value of record 5?', search('Record 5:', context=0)[0]))")
        ],
        child="35",
    )
    await run(model, BODY, limits=Limits(child_tokens=2_000))
    (request,) = children(model)
    text = "\n".join(message.content for message in request.messages)
    assert "Record 5:" in request.slices[0].text
    assert "Record 5:" in text
    assert "Record 6:" not in text
    assert TOKENS.count(text) <= 2_000


async def test_a_slice_that_does_not_fit_is_refused_before_any_spend(run, block) -> None:
    """SliceTooLarge holds the sizes and the advice. The slice is never cut."""
    model = ScriptedModel.of(
        root=[block("sub_query('q', (0, 40_000))"), block("peek(0, 1)\nfinalize('no')")], child="never asked"
    )
    result = await run(model, BODY, limits=Limits(child_tokens=3_000))
    assert (result.answer, children(model), result.sub_calls) == ("no", [], 0)
    feedback_text = model.requests[-1].messages[-1].content
    assert "SliceTooLarge" in feedback_text
    advised = int(re.search(r"max_chars=([\d_,]+)", feedback_text)[1].replace(",", ""))
    model = ScriptedModel.of(root=[block(f"finalize(sub_query('q', (0, {advised})))")], child="fits")
    assert (await run(model, BODY, limits=Limits(child_tokens=3_000), settings=Settings())).answer == "fits"


async def test_a_batch_the_limits_cannot_carry_is_refused_before_any_spend(run, block) -> None:
    """ValueError names the max_chars that would fit."""
    model = ScriptedModel.of(
        root=[block("sub_query_batch('q', chunk(1_000))"), block("peek(0, 1)\nfinalize('no')")], child="x"
    )
    result = await run(model, BODY, limits=Limits(max_calls=10))
    assert (result.answer, children(model)) == ("no", [])
    feedback_text = model.requests[-1].messages[-1].content
    assert "only 10 child calls are left" in feedback_text
    advised = int(re.search(r"max_chars=([\d,]+)", feedback_text)[1].replace(",", ""))
    assert -(-len(BODY) // advised) <= 10


async def test_a_failed_child_can_be_asked_again_without_paying_the_others(run, block) -> None:
    failures = iter([True])

    def sometimes(request):
        if request.slices[0].span.start == 10 and next(failures, False):
            return ModelUnavailable("the provider is away")
        return "fine"

    model = ScriptedModel.of(
        root=[
            block("a = sub_query_batch('q', [(0, 9), (10, 19), (20, 29)])"),
            block(
                "b = sub_query_batch('q', [(0, 9), (10, 19), (20, 29)])\n"
                "finalize([a.failed, b.failed, [r.cached for r in b]])"
            ),
        ],
        child=sometimes,
    )
    result = await run(model, BODY)
    assert result.answer == [[1], [], [True, False, True]]
    assert "1 of 3 failed: [1]" in model.requests[4].messages[-1].content
    assert result.coverage.failed_chars == 0


@pytest.mark.parametrize(
    ("reply", "error"),
    [
        (Reply("half an ans", finish_reason="length"), "output limit"),
        (Reply("no", finish_reason="refusal"), "refused"),
        (Reply("  "), "empty"),
    ],
)
async def test_what_is_no_answer_is_a_failure(run, block, reply, error) -> None:
    """A truncated, refused or empty reply is a failure, not an answer."""
    model = ScriptedModel.of(
        root=[block("b = sub_query_batch('q', [(0, 9)])\nfinalize([b[0].ok, b[0], b[0].error])")],
        child=[reply],
    )
    result = await run(model, BODY)
    assert result.answer[:2] == [False, ""]
    assert error in result.answer[2]
    assert (result.coverage.answered_chars, result.coverage.failed_chars) == (0, 9)


async def test_a_childs_reasoning_is_no_part_of_its_answer(run, block) -> None:
    model = ScriptedModel.of(
        root=[
            block("b = sub_query_batch('q', [(0, 9), (9, 20)])\nfinalize([list(b), [r.found for r in b]])")
        ],
        child=lambda request: (
            "<think>Is it there?</think>\nyes"
            if request.slices[0].span.start == 0
            else f"<think>No.</think>{NOT_FOUND}"
        ),
    )
    assert (await run(model, BODY)).answer == [["yes", NOT_FOUND], [True, False]]


async def test_answers_of_a_schema_are_checked_and_asked_once_more(run, block) -> None:
    """The answer is validated, requested once more on a fault, and parsed into .value."""
    model = ScriptedModel.of(
        root=[
            block(
                "b = sub_query_batch('q', [(0, 9), (10, 19)], schema={'name': 'str', 'n': 'int'})\n"
                "finalize([b[0].value, b[1].ok, b[1].error])"
            )
        ],
        child=lambda request: (
            "none of it"
            if request.slices[0].span.start == 10
            else '```json\n{"name": "a", "n": 1}\n```'
            if "does not match" in request.messages[-1].content
            else '{"name": "a"}'
        ),
    )
    result = await run(model, BODY)
    assert result.answer[0] == {"name": "a", "n": 1}
    assert result.answer[1] is False
    assert "not JSON" in result.answer[2]
    assert len(children(model)) == 4


HOSTILE_SCHEMAS = [
    {"$ref": "URL/steal?one%20two"},
    {"properties": {"a": {"items": {"$ref": "URL/steal"}}}},
    {"$ref": "file:///etc/hostname"},
    {"$dynamicRef": "URL/steal"},
    {"type": "string", "pattern": "(a+)+$"},
    {"allOf": [{"patternProperties": {"(a+)+$": {}}}]},
    {"$schema": "URL/meta", "type": "string"},
]


async def test_a_schema_fetches_nothing_and_ends(run, block, provider_server) -> None:
    """The driver applies the schema, so it must not be a way out of the sandbox."""
    given = json.loads(json.dumps(HOSTILE_SCHEMAS).replace("URL", provider_server.url))
    code = f"""
said = []
for schema in {given!r}:
    try:
        said.append(str(sub_query_batch('q', [(0, 9)], schema=schema)[0].error))
    except ValueError as error:
        said.append(str(error))
peek(0, 1)
finalize(said)"""
    result = await run(ScriptedModel.of(root=[block(code)], child=json.dumps("a" * 40 + "b")), BODY)
    refused = ["nothing is fetched" in one for one in result.answer]
    assert refused == ["Ref" in str(one) or "$ref" in str(one) for one in HOSTILE_SCHEMAS]
    assert provider_server.requests == []
    assert result.seconds < 10


async def test_a_property_may_be_named_like_a_keyword(run, block) -> None:
    model = ScriptedModel.of(
        root=[
            block("a = sub_query('q', (0, 9), schema={'pattern': 'str', 'format': 'int'})\nfinalize(a.value)")
        ],
        child='{"pattern": "x", "format": 1}',
    )
    assert (await run(model, BODY)).answer == {"pattern": "x", "format": 1}


async def test_a_schema_that_is_none_is_a_value_error(run, block) -> None:
    model = ScriptedModel.of(
        root=[block("sub_query('q', (0, 9), schema={'type': 'nonsense'})"), block("peek(0, 1)\nfinalize(0)")]
    )
    await run(model, BODY)
    assert "ValueError: schema: it is no JSON Schema" in model.requests[-1].messages[-1].content


async def test_children_run_concurrently_up_to_the_limit(run, block) -> None:
    """One limiter allows `concurrency` calls at a time."""
    running, most = 0, 0

    async def slow(_request):
        nonlocal running, most
        running += 1
        most = max(most, running)
        await asyncio.sleep(0.02)
        running -= 1
        return "x"

    model = ScriptedModel.of(
        root=[block("finalize(len(sub_query_batch('q', chunk(1_000)).found))")], child=slow
    )
    result = await run(model, BODY, limits=Limits(concurrency=5))
    assert result.answer > 50
    assert most == 5


async def test_a_batch_holds_a_task_only_for_each_place(run, block) -> None:
    """The answers come in the order of the slices, whichever is given first."""
    tasks: list[int] = []

    async def slow(request) -> str:
        tasks.append(len(asyncio.all_tasks()))
        await asyncio.sleep(0.001 * (request.slices[0].span.start % 7))
        return str(request.slices[0].span.start)

    spans = [(n, n + 5) for n in range(300)]
    model = ScriptedModel.of(
        root=[block(f"finalize([int(a) for a in sub_query_batch('q', {spans})])")], child=slow
    )
    result = await run(model, BODY, limits=Limits(concurrency=3))
    assert result.answer == list(range(300))
    assert max(tasks) < 25


async def test_a_journal_that_fails_ends_a_batch_with_its_own_error(run, monkeypatch) -> None:
    """Calls in flight are cancelled, and no task is left."""
    asked, stopped = 0, 0
    ask = MeteredModel.ask

    async def failing(self, model, request, **options):
        nonlocal asked, stopped
        if request.role != "child":
            return await ask(self, model, request, **options)
        asked += 1
        if asked == 3:
            raise JournalError("full")
        try:
            await asyncio.sleep(60)
        finally:
            stopped += 1

    monkeypatch.setattr(MeteredModel, "ask", failing)
    limits, settings = Limits(concurrency=5, child_tokens=2_000), Settings(strategy="map-reduce")
    with pytest.raises(JournalError, match="full"):
        await run(ScriptedModel.of(), BODY * 4, limits=limits, settings=settings)
    assert stopped == asked - 1 <= 4
    assert [task for task in asyncio.all_tasks() if task is not asyncio.current_task()] == []


async def test_the_ledger_holds_for_children(run, block) -> None:
    """Tokens are reserved before a call and settled after it. A batch stops at the limit."""
    usage = TokenUsage(input_tokens=3_000, output_tokens=100)
    model = ScriptedModel.of(
        root=lambda request: (
            block("peek(0, 1)\nfinalize(len(b.failed))")
            if request.final or request.round > 1
            else block("b = sub_query_batch('q', chunk(2_500))")
        ),
        child=lambda request: Reply("x", usage=usage),
    )
    limits = Limits(max_total_tokens=60_000, concurrency=4)
    result = await run(model, BODY, limits=limits)
    spent = sum(one.input_tokens + one.output_tokens for one in result.usage)
    assert spent <= 60_000
    assert result.answer > 0


async def test_feedback_accounts_for_children(run, block) -> None:
    """The feedback counts children, failures and cached answers, with tokens, cost and coverage."""
    model = ScriptedModel.of(
        root=[block("b = sub_query_batch('q', [(0, 9), (0, 9), (20, 29)])"), block("finalize(1)")],
        child=lambda request: Reply("x", usage=TokenUsage(10, 2)),
    )
    await run(model, BODY)
    feedback_text = model.requests[-1].messages[-1].content
    for count in ("3 asked", "0 failed", "1 from memory"):
        assert count in feedback_text
    assert "24 tokens, $0.0000" in feedback_text
    assert f"18 of {len(BODY):,} characters" in feedback_text


async def test_the_plan_names_a_chunk_size_that_fits(run, block) -> None:
    """recommended_chunk is the max_chars at which the whole body fits the remaining calls."""
    model = ScriptedModel.of(
        root=[
            block(
                "m = context_meta()\nb = sub_query_batch('q', chunk(m.recommended_chunk))\n"
                "finalize([len(b), m.calls, len(b.failed)])"
            )
        ],
        child="x",
    )
    result = await run(model, BODY * 20, limits=Limits(max_calls=60))
    made, planned, failed = result.answer
    assert made == planned <= 60
    assert failed == 0
    assert result.coverage.complete


async def test_identical_children_that_fail_do_not_harm_the_kernel(run, block) -> None:
    """Failed slots are data, however many of them are identical."""
    model = ScriptedModel.of(
        root=[block("b = sub_query_batch('q', ['same row'] * 4)\npeek(0, 1)\nfinalize(b.failed)")],
        child=lambda request: ModelUnavailable("away"),
    )
    assert (await run(model, BODY)).answer == [0, 1, 2, 3]


async def test_cancelled_calls_are_charged(run, block) -> None:
    """An interrupted batch is charged."""
    started = asyncio.Event()

    async def never(_request):
        started.set()
        await asyncio.sleep(60)

    model = ScriptedModel.of(
        root=[block("sub_query_batch('q', [(0, 9), (9, 20)])"), block("peek(0, 1)\nfinalize(1)")], child=never
    )
    result = await run(model, BODY, limits=Limits(max_seconds=4.0))
    assert result.sub_calls == 2
    assert sum(one.input_tokens for one in result.usage) > 500


async def test_a_slice_is_refused_without_being_read(run, block) -> None:
    """A hundred copies of the body are refused without reading them."""
    model = ScriptedModel.of(
        root=[
            block(f"n = {len(BODY)}\nsub_query('q', [(0, n)] * 5_000)"),
            block("peek(0, 1)\nfinalize('no')"),
        ]
    )
    result = await run(model, BODY)
    assert (result.answer, result.sub_calls) == ("no", 0)
    assert "Nothing was sent" in model.requests[-1].messages[-1].content


async def test_every_slice_of_a_batch_is_looked_at_before_any_is_sent(run, block) -> None:
    """A shorter slice may be larger in tokens."""
    body = "a" * 30_000 + "語" * 25_000
    model = ScriptedModel.of(
        root=[
            block("sub_query_batch('q', [(0, 30_000), (30_000, 55_000)])"),
            block("sub_query_map(['short', 'long ' * 40_000], [(0, 9), (0, 9)])"),
            block("peek(0, 1)\nfinalize('no')"),
        ],
        child="x",
    )
    result = await run(model, body, limits=Limits(child_tokens=20_000))
    assert (result.answer, children(model)) == ("no", [])


PRICED = "openai:gpt-5"


class _Priced(ScriptedModel):
    """A script under the name of a model that has a price."""

    @property
    def name(self) -> str:
        return PRICED


@pytest.mark.parametrize(
    ("limits", "reason"),
    [(Limits(max_total_tokens=100_000), "tokens, but only"), (Limits(max_cost=0.10), "is left")],
    ids=["tokens", "dollars"],
)
async def test_a_batch_that_money_or_tokens_cannot_carry_is_refused_before_any_spend(
    run, block, limits, reason
) -> None:
    """The error says how much of the batch would fit."""
    root = [block("sub_query_batch('q', chunk(10_000))"), block("peek(0, 1)\nfinalize('no')")]
    child = _Priced.of(child="never")
    model = ScriptedModel.of(root=root)
    result = await run(model, BODY * 20, sub_model=child, limits=limits)
    assert (result.answer, child.requests) == ("no", [])
    feedback_text = model.requests[-1].messages[-1].content
    assert reason in feedback_text
    assert re.search(r"(?i)about [\d,]+ of them fit", feedback_text)


async def test_a_batch_that_was_answered_before_is_never_too_dear(run, block) -> None:
    """The same call again asks only the failed slots, even without calls left."""
    model = ScriptedModel.of(
        root=[
            block("s = list(chunk(6_000))\na = sub_query_batch('q', s)\nfinalize(sub_query_batch('q', s))")
        ],
        child="x",
    )
    result = await run(model, BODY, limits=Limits(max_calls=11))
    assert result.sub_calls == len(children(model)) == 11
    assert result.answer == ["x"] * 11


async def test_a_batch_is_previewed_with_its_cost(run, block) -> None:
    """The cost is shown before the batch starts."""
    child = _Priced.of(child="x")
    model = ScriptedModel.of(root=[block("finalize(len(sub_query_batch('q', chunk(6_000))))")])
    await run(model, BODY, sub_model=child)
    (started,) = [event for event in run.events if isinstance(event, ChildrenStarted)]
    assert started.count == 11
    assert started.cost_usd is not None
    assert 0.02 < started.cost_usd < 0.2


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
