"""Test replies of the kind that small and strange models gave: understood, or asked for once more."""

from __future__ import annotations

import json

import pytest

from rlm.children.child_reply import clean_reply, reply_fault, says_nothing
from rlm.children.empty_form import empty_form
from rlm.prompts import ChildInput, ChildPrompt, ChildSliceText
from rlm.testing import ScriptedModel

TASK = "When was the yard closed?"
SLICE = "The yard was closed in May.\n"


def prompt() -> str:
    made = ChildPrompt().assemble(
        ChildInput(TASK, 9_000, 1_000, (ChildSliceText(SLICE, 0, len(SLICE), "a.txt"),), remarks=True)
    )
    return made.text


@pytest.mark.parametrize(
    ("reply", "answer"),
    [
        ("in May", "in May"),
        ("<think>It says May.</think>\nin May", "in May"),
        ("The task says so.</think>\nin May", "in May"),
        ('{"answer": "in May"}', "in May"),
        ('```json\n{"response": "in May"}\n```', "in May"),
        ('{"month": "May", "year": null}', '{"month": "May", "year": null}'),
        ('{"answer": 5}', '{"answer": 5}'),
        ("===== slice 0123456789abcdef0123 ends =====\nin May", "in May"),
    ],
)
def test_what_is_around_an_answer_is_taken_off(reply, answer) -> None:
    assert clean_reply(reply, TASK, has_schema=False) == answer


def test_json_that_the_task_asks_for_stays() -> None:
    reply = '{"answer": "in May"}'
    assert clean_reply(reply, 'Answer as JSON: {"answer": …}', has_schema=False) == reply
    assert clean_reply(reply, TASK, has_schema=True) == reply


@pytest.mark.parametrize(
    "reply", ["NOT_FOUND", "not found.", '"NOT_FOUND"', "Nicht gefunden", "未找到。", "null"]
)
def test_words_that_say_that_nothing_is_there(reply) -> None:
    assert says_nothing(reply.replace("。", ""), [SLICE])


def test_words_of_the_text_itself_are_an_answer() -> None:
    assert not says_nothing("Not found", ["404 Not Found\n"])
    assert not says_nothing("It was not found in May.", [SLICE])


@pytest.mark.parametrize(
    "reply",
    [
        TASK,
        f"The task in full:\n\n{TASK}",
        "You are a careful reader. You get one task and a slice of a longer text, and you answer from that "
        "slice alone: what it does not say, you do not know.",
    ],
)
def test_a_reply_that_repeats_its_prompt_is_none(reply) -> None:
    assert (reply_fault(reply, TASK, [SLICE]) or ("", ""))[0] == "repeat"
    assert (reply_fault(prompt(), TASK, [SLICE]) or ("", ""))[0] == "repeat"


@pytest.mark.parametrize(
    "reply",
    [
        "in May",
        f"{TASK} In May.",
        SLICE,
        "Answer from the slice alone. The yard was closed in May.",
        "The end",
    ],
)
def test_an_answer_is_no_repetition(reply) -> None:
    assert reply_fault(reply, TASK, [SLICE]) is None


def test_a_reply_in_a_script_of_neither_task_nor_text_is_asked_for_again() -> None:
    chinese = "根据所提供的文本,该造船厂于五月关闭,当时没有人前来参观。"
    assert (reply_fault(chinese, TASK, [SLICE]) or ("", ""))[0] == "language"
    assert reply_fault(chinese, TASK, [SLICE, "造船厂于五月关闭。" * 9]) is None
    assert reply_fault(chinese, "Translate the text into Chinese.", [SLICE]) is None
    assert reply_fault("Она была закрыта в мае этого года.", "Когда закрыли верфь?", [SLICE]) is None


@pytest.mark.parametrize("bad", [TASK, "根据所提供的文本,该造船厂于五月关闭,当时没有人前来参观。"])
async def test_such_a_child_is_asked_once_more_and_told_why(run, block, bad) -> None:
    def child(request) -> str:
        return "in May" if "Your last reply" in request.messages[-1].content else bad

    model = ScriptedModel.of(root=[block(f"finalize(str(sub_query({TASK!r}, (0, 27))))")], child=child)
    result = await run(model, SLICE)
    assert (result.answer, result.sub_calls) == ("in May", 2)
    stubborn = ScriptedModel.of(
        root=[block(f"r = sub_query_batch({TASK!r}, [(0, 27)])\nfinalize([r.failed, r[0].error_type])")],
        child=bad,
    )
    assert (await run(stubborn, SLICE)).answer[0] == [0]


@pytest.mark.parametrize(
    ("schema", "empty"),
    [
        ({"type": "array"}, []),
        ({"type": "object", "properties": {"a": {"type": "array"}}}, {"a": []}),
        ({"type": "array", "minItems": 1}, None),
        ({"type": "object", "properties": {"a": {"type": "array"}, "b": {"type": "string"}}}, None),
        ({"type": "object"}, None),
        ({"type": "string"}, None),
        ({}, None),
    ],
)
def test_the_empty_form_of_a_schema(schema, empty) -> None:
    assert empty_form(schema) == empty


@pytest.mark.parametrize("reply", ["[]", "NOT_FOUND", "```json\n[]\n```", "null"])
async def test_an_empty_list_and_not_found_are_the_same_under_an_array(run, block, reply) -> None:
    code = "r = sub_query_batch('q', [(0, 3)], schema=['str'])\nfinalize([r[0].ok, r[0].found, r[0].value])"
    model = ScriptedModel.of(root=[block(code)], child=reply)
    assert (await run(model)).answer == [True, False, []]


async def test_a_model_of_lists_comes_back_empty(run, block) -> None:
    code = """
from pydantic import BaseModel
class Page(BaseModel):
    names: list[str]
r = sub_query_batch("q", [(0, 3), (4, 7)], schema=Page)
finalize([name for one in r for name in one.value.names])
"""

    def child(request) -> str:
        return "NOT_FOUND" if "one" in request.slices[0].text else json.dumps({"names": ["two"]})

    assert (await run(ScriptedModel.of(root=[block(code)], child=child))).answer == ["two"]


async def test_an_answer_without_a_slice_is_no_evidence(run, block) -> None:
    code = (
        "r = sub_query('Which year?')\nm = sub_query_map(['a', 'b'])\n"
        "finalize([r.ok, r.found, r.grounded, len(m.found), m.joined()])"
    )
    ok, found, grounded, count, joined = (
        await run(ScriptedModel.of(root=[block("peek(0,1)\n" + code)], child="1901"))
    ).answer
    assert (ok, found, grounded, count) == (True, False, False, 0)
    assert joined.count("[no slice: the model's own knowledge, not from the input]\n1901") == 2
