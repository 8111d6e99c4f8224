"""Test ScriptedModel and its prepared replies."""

from __future__ import annotations

import asyncio
import json

import pytest

from rlm.errors import ConfigurationError, ModelRejected, ModelUnavailable
from rlm.models.base import Message, Reply, Request, TokenUsage
from rlm.models.offline.scripted import ScriptedModel


def ask(role: str, *texts: str) -> Request:
    return Request(role, tuple(Message("user", text) for text in texts), 100, "task")


@pytest.fixture
def script(tmp_path):
    def write(*entries) -> str:
        path = tmp_path / "script.jsonl"
        lines = [entry if isinstance(entry, str) else json.dumps(entry) for entry in entries]
        path.write_text("\n".join(lines), encoding="utf-8")
        return str(path)

    return write


async def reply_texts(model, *requests):
    return [(await model.generate(request)).text for request in requests]


async def test_each_role_is_answered_in_its_own_order(script):
    model = ScriptedModel.from_file(
        script(
            {"role": "root", "reply": "r1"},
            {"role": "child", "reply": "c1"},
            "",
            {"role": "root", "reply": "r2 ü\u2028"},
        )
    )
    assert await reply_texts(model, ask("root"), ask("root"), ask("child")) == ["r1", "r2 ü\u2028", "c1"]
    assert [request.role for request in model.requests] == ["root", "root", "child"]


async def test_a_match_answers_whenever_the_last_user_message_holds_it(script):
    model = ScriptedModel.from_file(
        script(
            {"role": "child", "reply": "first"},
            {"role": "child", "reply": "needle!", "match": "haystack 7"},
            {"role": "root", "reply": "root's", "match": "haystack 7"},
            {"role": "child", "reply": "second"},
        )
    )
    asked = [
        ask("child", "in haystack 7, what?"),
        ask("child", "haystack 7", "other"),
        ask("child", "haystack 7"),
    ]
    assert await reply_texts(model, *asked, ask("child"), ask("root", "haystack 7")) == [
        "needle!",
        "first",
        "needle!",
        "second",
        "root's",
    ]


async def test_a_line_may_say_how_it_ended_and_what_it_used(script):
    usage = {"input_tokens": 9, "output_tokens": 3, "cached_tokens": 1}
    entry = {"role": "direct", "reply": "x", "finish_reason": "length", "usage": usage, "delay": 0.01}
    model = ScriptedModel.from_file(script(entry))
    assert await model.generate(ask("direct")) == Reply("x", "length", TokenUsage(9, 3, 1))


async def test_an_exhausted_script_names_its_file_and_role(script):
    path = script({"role": "child", "reply": "x"})
    model = ScriptedModel.from_file(path)
    await model.generate(ask("child"))
    with pytest.raises(ModelRejected) as caught:
        await model.generate(ask("child"))
    assert f"scripted:{path} has no reply left for the role child (request 2" in str(caught.value)
    with pytest.raises(ModelRejected, match="the role summary"):
        await model.generate(ask("summary"))


@pytest.mark.parametrize(
    ("line", "complaint"),
    [
        ("{", "not JSON"),
        ("[]", "not a JSON object"),
        ({"role": "boss", "reply": "x"}, "role must be one of root, child, summary, direct"),
        ({"role": ["root"], "reply": "x"}, "role must be one of"),
        ({"reply": "x"}, "role must be one of"),
        ({"role": "root"}, "reply must be a text"),
        ({"role": "root", "reply": 1}, "reply must be a text"),
        ({"role": "root", "reply": "x", "match": ""}, "match must be a text that is not empty"),
        (
            {"role": "root", "reply": "x", "finish_reason": "bored"},
            "finish_reason must be one of stop, length",
        ),
        ({"role": "root", "reply": "x", "delay": -1}, "delay must be seconds"),
        ('{"role": "root", "reply": "x", "delay": NaN}', "delay must be seconds"),
        ({"role": "root", "reply": "x", "delay": True}, "delay must be seconds"),
        ({"role": "root", "reply": "x", "usage": {"tokens": 1}}, "usage must hold whole numbers"),
        ({"role": "root", "reply": "x", "usage": {"input_tokens": 1.5}}, "usage must hold whole numbers"),
        ({"role": "root", "reply": "x", "usage": []}, "usage must hold whole numbers"),
        (
            {"role": "root", "reply": "x", "replies": 1},
            "unknown field replies; there are delay, finish_reason",
        ),
    ],
)
def test_a_bad_line_is_named(script, line, complaint):
    path = script({"role": "root", "reply": "fine"}, "", line)
    with pytest.raises(ConfigurationError) as caught:
        ScriptedModel.from_file(path)
    assert str(caught.value).startswith(f"{path}, line 3: ")
    assert complaint in str(caught.value)


def test_a_script_that_is_not_text(tmp_path):
    path = tmp_path / "script.jsonl"
    path.write_bytes(b"\xff\xfe")
    with pytest.raises(ConfigurationError, match="is not UTF-8 text"):
        ScriptedModel.from_file(path)


async def test_from_python_answers_may_be_texts_replies_errors_and_functions():
    async def later(request):
        await asyncio.sleep(0)
        return f"later {request.task}"

    answers = [
        "plain",
        Reply("cut", "length"),
        later,
        lambda request: Reply(request.role),
        ModelUnavailable("down"),
    ]
    model = ScriptedModel.of(child=answers, root=lambda request: request.messages[-1].content.upper())
    assert await reply_texts(model, *[ask("child")] * 4) == ["plain", "cut", "later task", "child"]
    with pytest.raises(ModelUnavailable, match="down"):
        await model.generate(ask("child"))
    assert await reply_texts(model, ask("root", "a"), ask("root", "b")) == ["A", "B"]
    with pytest.raises(ModelRejected, match="scripted:memory has no reply left for the role child"):
        await model.generate(ask("child"))
