"""A cascade asks the cheap model first, and the strong one where its reply is in doubt."""

from __future__ import annotations

import json

import pytest

from rlm import Limits, Settings
from rlm.children.routing.cascade import doubt_of
from rlm.errors import ModelError
from rlm.models.base import Reply, TokenUsage
from rlm.replay import replay
from rlm.sandbox.types import ChildAnswer
from rlm.testing import ScriptedModel

LINES = [f"Invoice {n}: paid {n * 3} euros on 2026-0{n % 9 + 1}-11 by firm number {n}.\n" for n in range(40)]
BODY = "".join(LINES)
SLICES = "[(line.start, line.end) for line in read_lines()]"
SETTINGS = Settings(strategy="rlm", cascade=True)


@pytest.mark.parametrize(
    ("reply", "is_doubted"),
    [
        ("NOT_FOUND", False),
        ("9 euros", False),
        ('It says "Invoice 3: paid 9 euros on 2026-04-11".', False),
        ("It says “invoice 3: paid 9 … by firm number 3”.", False),
        ('It says "Invoice 3: paid 90 euros on 2026-04-11".', True),
        ('It says "Invoice 3: paid euros by firm number 3".', False),
        ('It says "by firm number 3 invoice 3 was paid".', True),
        ("I cannot determine the amount from this slice.", True),
        ("It is unclear which invoice is meant.", True),
        ("Not enough information.", True),
        ("Kann ich nicht sagen.", True),
        ("The amount can't be determined here.", False),
        ("It was unclear to Ann who paid, " + "so she asked around. " * 30, False),
        ('The task says "name the firm that paid".', False),
    ],
)
def test_a_reply_is_doubted_that_cannot_tell_or_quotes_what_is_not_there(reply, is_doubted) -> None:
    answer = ChildAnswer(reply, found=reply != "NOT_FOUND")
    assert (doubt_of(answer, "Name the firm that paid.", [LINES[3]]) is not None) is is_doubted


@pytest.mark.parametrize(
    ("value", "is_doubted"),
    [
        ({"amount": 9, "quote": "paid 9 euros on 2026-04-11"}, False),
        ({"amount": 9, "quote": "paid 8 euros on 2026-04-11"}, True),
        ({"firm": "a name of four words that is not there"}, False),
        ({"items": [{"evidence": ["paid 9 euros on 2026-04-11", "and 8 euros of tax as well"]}]}, True),
    ],
)
def test_only_the_fields_for_quotes_of_a_json_reply_are_looked_up(value, is_doubted) -> None:
    answer = ChildAnswer(json.dumps(value), value=value)
    assert (doubt_of(answer, "q", [LINES[3]]) is not None) is is_doubted


@pytest.mark.parametrize(
    ("kind", "is_doubted"),
    [
        ("schema", True),
        ("empty", True),
        ("truncated", True),
        ("refused", True),
        ("model", False),
        ("limit", False),
        ("slice_too_large", False),
    ],
)
def test_a_failing_provider_and_a_limit_are_not_the_models_fault(kind, is_doubted) -> None:
    answer = ChildAnswer("", error="why", error_type=kind, found=False)
    assert (doubt_of(answer, "q", ["text"]) is not None) is is_doubted


def cheap_reply(request) -> str | Reply:
    """Play a small model: every sixth of its replies is a fault, each of another kind."""
    number = int(request.slices[0].text.split()[1].rstrip(":"))
    good = f'"Invoice {number}: paid {number * 3} euros" it says'
    faults = {
        3: f'"Invoice {number}: paid {number * 4} dollars and some" it says',
        9: "I can't tell.",
        15: Reply("half a", "length"),
        21: Reply("", "stop"),
        27: Reply("no", "refusal"),
        33: "It is unclear.",
        39: 'It says "nothing that any line of this slice holds"',
    }
    return faults.get(number, good)


async def test_seven_of_forty_children_are_asked_again(run, block, named) -> None:
    """The account says so, the root is told, and each model is charged for its own calls."""
    root = ScriptedModel.of(
        root=[
            block(f"found = sub_query_batch('What was paid?', {SLICES})"),
            block("finalize([list(found), found.failed])"),
        ]
    )
    strong = named(
        "openai:gpt-5", lambda request: Reply("strong", usage=TokenUsage(100, 10)), context=400_000
    )
    cheap = named("openai:gpt-5-mini", cheap_reply, context=400_000)
    result = await run(root, BODY, sub_models={"cheap": cheap, "strong": strong}, settings=SETTINGS)
    answers, failed = result.answer
    assert failed == []
    assert [number for number, text in enumerate(answers) if text == "strong"] == [3, 9, 15, 21, 27, 33, 39]
    assert len(cheap.requests) == 40 + 2  # the cut reply was asked for its rest
    assert {one.model: one.calls for one in result.usage}["openai:gpt-5"] == 7
    notes = {one.kind: one.detail for one in result.degradations}
    assert notes["cascade"] == "7 of 40 children were asked again by strong"
    assert "7 asked again by a stronger model" in root.requests[1].messages[-1].content
    assert result.coverage.complete
    replayed = await replay(result.run_id, store=run.store, settings=Settings(sandbox=run.level))
    assert replayed.equal
    assert {one.kind: one.detail for one in replayed.result.degradations}["cascade"] == notes["cascade"]


async def test_a_schema_is_asked_twice_of_the_cheap_model(run, block, named) -> None:
    root = ScriptedModel.of(
        root=[block("finalize(sub_query('How much?', (0, 40), schema={'euros': 'int'}).value)")]
    )
    cheap, strong = named("small", "nine"), named("big", '{"euros": 9}')
    result = await run(root, BODY, sub_models={"cheap": cheap, "strong": strong}, settings=SETTINGS)
    assert result.answer == {"euros": 9}
    assert (len(cheap.requests), len(strong.requests)) == (2, 1)
    assert "Your last answer" not in strong.requests[0].messages[-1].content


async def test_what_a_check_of_the_cell_refuses_goes_to_the_strong_model(run, block, named) -> None:
    """The kernel asks once more, and that call is the strong model's, with the reason."""
    check = "lambda value, index: None if value['euros'] > 5 else 'too little'"
    root = ScriptedModel.of(
        root=[
            block(
                f"one = sub_query('How much?', (0, 40), schema={{'euros': 'int'}}, check={check})\n"
                "finalize(one.value)"
            )
        ]
    )
    cheap, strong = named("small", '{"euros": 1}'), named("big", '{"euros": 9}')
    result = await run(root, BODY, sub_models={"cheap": cheap, "strong": strong}, settings=SETTINGS)
    assert result.answer == {"euros": 9}
    assert (len(cheap.requests), len(strong.requests)) == (1, 1)
    assert "too little" in strong.requests[0].messages[-1].content
    notes = {one.kind: one.detail for one in result.degradations}
    assert notes["cascade"] == "1 of 1 children was asked again by strong"


@pytest.mark.parametrize("strong_reply", [ModelError("the provider is down"), Reply("", "stop")])
async def test_an_answer_of_the_cheap_model_is_kept_when_the_strong_one_fails(
    run, block, named, strong_reply
) -> None:
    root = ScriptedModel.of(root=[block("one = sub_query('Who?', (0, 40))\nfinalize([one, one.ok])")])
    models = {"cheap": named("small", "I can't tell."), "strong": named("big", strong_reply)}
    result = await run(root, BODY, sub_models=models, settings=SETTINGS)
    assert result.answer == ["I can't tell.", True]
    replayed = await replay(result.run_id, store=run.store, settings=Settings(sandbox=run.level))
    assert replayed.equal


async def test_a_limit_ends_a_cascade_and_loses_nothing(run, block, named) -> None:
    root = ScriptedModel.of(
        root=[
            block("found = sub_query_batch('Who?', [(0, 40), (41, 80)])\nprint(list(found), found.failed)"),
            block("finalize([list(found)])"),
        ]
    )
    models = {"cheap": named("small", "It is unclear."), "strong": named("big", "Ann")}
    result = await run(
        root, BODY, sub_models=models, settings=SETTINGS, limits=Limits(max_calls=3, concurrency=1)
    )
    assert result.answer == [["Ann", "It is unclear."]]


async def test_a_model_that_is_named_is_not_replaced(run, block, named) -> None:
    root = ScriptedModel.of(root=[block("finalize(sub_query('Who?', (0, 40), model='cheap'))")])
    models = {"cheap": named("small", "I can't tell."), "strong": named("big", "Ann")}
    result = await run(root, BODY, sub_models=models, settings=SETTINGS)
    assert result.answer == "I can't tell."
    assert models["strong"].requests == []


async def test_three_models_are_asked_in_their_order(run, block, named) -> None:
    root = ScriptedModel.of(root=[block("finalize(sub_query('Who?', (0, 40)))")])
    models = {
        "small": named("a", "I can't tell."),
        "middle": named("b", '"a quote that nobody ever wrote here"'),
        "large": named("c", "Ann"),
    }
    result = await run(root, BODY, sub_models=models, settings=SETTINGS)
    assert result.answer == "Ann"
    assert [len(model.requests) for model in models.values()] == [1, 1, 1]
    notes = {one.kind: one.detail for one in result.degradations}
    assert notes["cascade"] == "1 of 1 children was asked again by middle, 1 by large"
