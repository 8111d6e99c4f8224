"""Test that a root which insists on calling a tool is understood: natively, and in text as it is written."""

from __future__ import annotations

import json
import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rlm.driver.reply_contract import Cell, Violation, fenced, parse
from rlm.driver.tool_call_text import find_calls
from rlm.events import Violated
from rlm.models.resolution import resolve

CODE = 'hits = search("a\\nb")\nprint(hits[:3], "<tag>", \'it\')'
JSON = json.dumps({"name": "python", "arguments": {"code": CODE}})
CALLS = {
    "Hermes, Qwen": f"<tool_call>\n{JSON}\n</tool_call>",
    "without its end": f"<tool_call>\n{JSON}",
    "line breaks in a string": '<tool_call>{"name": "repl", "arguments": {"code": "'
    + CODE.replace("\\", "\\\\").replace('"', '\\"')
    + '"}}</tool_call>',
    "an escape of Python's": '<tool_call>{"name": "repl", "arguments": {"code": "'
    + CODE.replace("\\", "\\\\").replace('"', '\\"').replace("'", "\\'")
    + '"}}</tool_call>',
    "JSON within JSON": "<tool_call>"
    + json.dumps({"name": "execute_python", "arguments": json.dumps({"code": CODE})})
    + "</tool_call>",
    "raw code": "<tool_call>" + json.dumps({"name": "python", "arguments": CODE}) + "</tool_call>",
    "the one text argument": "<tool_call>"
    + json.dumps({"name": "code_interpreter", "arguments": {"input": CODE}})
    + "</tool_call>",
    "a fence within": "<tool_call>"
    + json.dumps({"name": "python", "arguments": {"code": fenced(CODE).replace("repl", "python")}})
    + "</tool_call>",
    "an old name": "<function_call>"
    + json.dumps({"name": "run_code", "arguments": {"code": CODE}})
    + "</function_call>",
    "Qwen Coder": "<tool_call>\n<function=repl>\n<parameter=code>\n"
    f"{CODE}\n</parameter>\n</function>\n</tool_call>",
    "Qwen Coder, bare": f"<function=repl>\n<parameter=code>\n{CODE}\n</parameter>\n</function>",
    "Llama, custom": f"<function=python>{json.dumps({'code': CODE})}</function>",
    "GLM": f"<tool_call>python\n<arg_key>code</arg_key>\n<arg_value>{CODE}</arg_value>\n</tool_call>",
    "Claude": '<function_calls>\n<invoke name="repl">\n<parameter name="code">'
    + CODE
    + "</parameter>\n</invoke>\n</function_calls>",
    "MiniMax": '<minimax:tool_call>\n<invoke name="python">\n<parameter name="code">'
    + CODE
    + "</parameter>\n</invoke>\n</minimax:tool_call>",
    "Llama, code": f"<|python_tag|>{CODE}<|eom_id|>",
    "Llama, JSON": "<|python_tag|>"
    + json.dumps({"name": "python", "parameters": {"code": CODE}})
    + "<|eot_id|>",
    "Mistral, list": f"[TOOL_CALLS] [{JSON}]</s>",
    "Mistral": f"[TOOL_CALLS]python{json.dumps({'code': CODE})}",
    "Mistral, arguments": f"[TOOL_CALLS]python[ARGS]{json.dumps({'code': CODE})}",
    "DeepSeek 3": "<｜tool▁calls▁begin｜><｜tool▁call▁begin｜>function<｜tool▁sep｜>python\n```json\n"
    + json.dumps({"code": CODE})
    + "\n```<｜tool▁call▁end｜><｜tool▁calls▁end｜>",
    "DeepSeek 3.1": "<｜tool▁calls▁begin｜><｜tool▁call▁begin｜>python<｜tool▁sep｜>"
    + json.dumps({"code": CODE})
    + "<｜tool▁call▁end｜><｜tool▁calls▁end｜>",
    "Kimi": "<|tool_calls_section_begin|><|tool_call_begin|>functions.python:0<|tool_call_argument_begin|>"
    + json.dumps({"code": CODE})
    + "<|tool_call_end|><|tool_calls_section_end|>",
    "gpt-oss": "<|channel|>commentary to=functions.repl <|constrain|>json<|message|>"
    + json.dumps({"code": CODE})
    + "<|call|>",
    "gpt-oss, code": f"<|channel|>analysis to=python code<|message|>{CODE}<|call|>",
    "bare JSON": JSON,
    "a fence of JSON": f"```json\n{JSON}\n```",
    "a list": f"[{JSON}]",
    "a whole block": json.dumps({"type": "tool_use", "id": "t1", "name": "python", "input": {"code": CODE}}),
    "OpenAI's": json.dumps(
        {
            "id": "c",
            "type": "function",
            "function": {"name": "python", "arguments": json.dumps({"code": CODE})},
        }
    ),
}


@pytest.mark.parametrize("reply", CALLS.values(), ids=CALLS)
def test_the_code_of_a_tool_call_is_the_block(reply: str) -> None:
    assert parse(reply) == Cell(CODE, "", "tool call")
    assert parse(f"<think>\nhm\n</think>\n\n{reply}\n") == Cell(CODE, "", "tool call")
    strict = parse(reply, contract="strict")
    assert isinstance(strict, Violation)
    assert strict.kind in ("tool_call", "wrong_language")
    cut = parse(reply, finish_reason="length")
    assert isinstance(cut, Violation)
    assert cut.kind == "truncated_reply"


def test_text_around_a_call_is_prose() -> None:
    reply = f"Let me look.\n\n{CALLS['Hermes, Qwen']}<|im_end|>"
    assert parse(reply) == Cell(CODE, "Let me look.", "tool call")


def test_a_block_counts_before_a_call() -> None:
    """A block in the arguments of a call is a block, too."""
    reply = f"{fenced('print(1)')}\n{CALLS['Hermes, Qwen']}"
    cell = parse(reply)
    assert isinstance(cell, Cell)
    assert (cell.code, cell.mark) == ("print(1)", "repl")
    assert parse(CALLS["GLM"].replace(CODE, fenced(CODE))).code == CODE


def test_several_calls_are_several_blocks() -> None:
    for name in ("Hermes, Qwen", "GLM", "Claude", "Kimi", "Mistral", "DeepSeek 3.1"):
        found = parse(f"{CALLS[name]}\n{CALLS[name]}")
        assert isinstance(found, Violation), name
        assert found.kind == "several_blocks", name


@pytest.mark.parametrize(
    "reply",
    [
        '<tool_call>{"name": "search", "arguments": {"pattern": "x"}}</tool_call>',
        '<tool_call>{"name": "finalize", "arguments": {"value": "x", "evidence": []}}</tool_call>',
        '<invoke name="Read"><parameter name="path">a.txt</parameter></invoke>',
        '<tool_call>{"name": "bash", "arguments": {"command": "ls"}}</tool_call>',
        '<tool_call>{"name": "python", "arguments": {"code": "print("a")"}}</tool_call>',
        "<tool_call>search\n<arg_key>query</arg_key>\n<arg_value>x</arg_value>\n</tool_call>",
        '{"name": "web_search", "arguments": {"query": "x"}}',
    ],
)
def test_another_tool_is_a_violation_that_names_it(reply: str) -> None:
    found = parse(reply)
    assert isinstance(found, Violation)
    assert found.kind == "tool_call"
    assert any(name in found.received for name in ("search", "finalize", "Read", "bash", "python"))


@pytest.mark.parametrize(
    "reply",
    [
        "The tag <tool_call> begins a call of a tool.",
        '{"name": "Ada", "born": 1815}',
        "move(x, to=5)",
        "I use <function=...> nowhere, and [TOOL_CALLS] neither.",
        '[{"name": "Ada"}]',
    ],
)
def test_what_only_looks_like_a_call_is_none(reply: str) -> None:
    assert find_calls(reply) == ([], reply)


_TAGS = """<tool_call> </tool_call> <invoke name="a"> <|python_tag|> [TOOL_CALLS] <function=
<arg_key> </arg_key> <arg_value> { } [ "name" : ``` code \\ '"""
_PIECES = st.sampled_from([*_TAGS.split(), "<invoke ", " ", "\n"])


@given(st.lists(_PIECES, max_size=30).map("".join) | st.text(max_size=100))
def test_any_text_is_taken(text: str) -> None:
    find_calls(text)
    parse(text)


@pytest.mark.parametrize(
    "text",
    [
        "<tool_call>" * 90_000,
        "<function=a>" * 80_000,
        "<tool_call><function=a>" + "<parameter=b>" * 70_000,
        "<tool_call>" + "<arg_key>a</arg_key>" * 50_000,
        "[TOOL_CALLS]" + " " * 1_000_000,
        " " * 1_000_000,
        '<tool_call>{"name": "' + "\\'" * 400_000,
        "<tool_call>" + "[" * 900_000,
        "```\n" + " " * 500_000 + "{" + " " * 500_000,
    ],
)
def test_a_huge_reply_takes_no_second(text: str) -> None:
    began = time.perf_counter()
    find_calls(text)
    assert time.perf_counter() - began < 1.0


@pytest.mark.parametrize("native", [True, False], ids=["native", "in the text"])
@pytest.mark.parametrize("protocol", ["openai", "anthropic"])
async def test_a_run_with_a_root_that_only_calls_tools(run, provider_server, providers, protocol, native):
    """The code runs, the root is told once a round, and the history holds blocks in plain text."""
    steps = iter(["x = peek(0, 3)\nprint(x)", "finalize(x)"])

    def root(received):
        code = next(steps)
        if native:
            return providers.Answer("", calls=(("python", json.dumps({"code": code})),))
        return CALLS["GLM"].replace(CODE, code)

    provider_server.always = root
    env = {"ANTHROPIC_API_KEY": "k", "ANTHROPIC_BASE_URL": provider_server.url}
    name = f"openai:m@{provider_server.url}/v1" if protocol == "openai" else "anthropic:m"
    model = resolve(name, env)
    result = await run(model)
    await model.aclose()
    assert result.answer == "one", result
    assert run.seen(Violated) == []
    second = provider_server.requests[-1].body["messages"]
    shown = json.dumps(second)
    assert "There are no tools here" in shown
    assert "```repl" in json.dumps([one for one in second if one["role"] == "assistant"])
    assert "tool_calls" not in shown
    assert "tool_use" not in shown
