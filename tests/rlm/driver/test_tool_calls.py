"""Test that a root which insists on calling a tool is understood: natively, and in text as it is written."""

from __future__ import annotations

import json
import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rlm.driver.reply_contract import Cell, Violation, fenced, parse
from rlm.events import Violated
from rlm.models.resolution import resolve

CODE = 'hits = search("a\\nb")\nprint(hits[:3], "<tag>", \'it\')'
JSON = json.dumps({"name": "python", "arguments": {"code": CODE}})
CALL = f"<tool_call>{JSON}</tool_call>"
CALLS = {
    "as it is written for a native call": f"<tool_call>\n{JSON}\n</tool_call>",
    "without its end": f"<tool_call>\n{JSON}",
    "line breaks in a string": '<tool_call>{"name": "repl", "arguments": {"code": "'
    + CODE.replace("\\", "\\\\").replace('"', '\\"')
    + '"}}</tool_call>',
    "raw code": "<tool_call>" + json.dumps({"name": "python", "arguments": CODE}) + "</tool_call>",
}


def kind(reply: str, **options: str) -> str:
    outcome = parse(reply, **options)
    assert isinstance(outcome, Violation), outcome
    return outcome.kind


@pytest.mark.parametrize("reply", CALLS.values(), ids=CALLS)
def test_the_code_of_a_tool_call_is_the_block(reply: str) -> None:
    assert parse(reply) == Cell(CODE, "", "tool call")
    assert parse(f"<think>\nhm\n</think>\n\n{reply}\n") == Cell(CODE, "", "tool call")
    assert kind(reply, contract="strict") == "tool_call"
    assert kind(reply, finish_reason="length") == "truncated_reply"


def test_text_around_a_call_is_prose() -> None:
    assert parse(f"Let me look.\n\n{CALL}") == Cell(CODE, "Let me look.", "tool call")


def test_a_block_counts_before_a_call() -> None:
    cell = parse(f"{fenced('print(1)')}\n{CALL}")
    assert isinstance(cell, Cell)
    assert (cell.code, cell.mark) == ("print(1)", "repl")


def test_several_calls_are_several_blocks() -> None:
    assert kind(f"{CALL}\n{CALL}") == "several_blocks"


@pytest.mark.parametrize(
    "reply",
    [
        '<tool_call>{"name": "search", "arguments": {"pattern": "x"}}</tool_call>',
        '<tool_call>{"name": "bash", "arguments": {"command": "ls"}}</tool_call>',
        '<tool_call>{"name": "search", "arguments": "x"}</tool_call>',
        '<tool_call>{"name": "search"}</tool_call>',
    ],
)
def test_another_tool_is_a_violation_that_names_it(reply: str) -> None:
    found = parse(reply)
    assert isinstance(found, Violation)
    assert (found.kind, found.received) in (("tool_call", "search"), ("tool_call", "bash"))


@pytest.mark.parametrize(
    ("reply", "expected"),
    [
        ("The tag <tool_call> begins a call of a tool.", "no_block"),
        ('{"name": "Ada", "born": 1815}', "no_block"),
        ('<tool_call>{"name": "python", "arguments": {"code": "print("a")"}}</tool_call>', "no_block"),
        ('<invoke name="repl"><parameter name="code">1</parameter></invoke>', "no_block"),
    ],
)
def test_what_is_no_readable_call_runs_nothing(reply: str, expected: str) -> None:
    assert kind(reply) == expected


_PIECES = st.sampled_from(["<tool_call>", "</tool_call>", "{", "[", '"name"', ":", "```", "\\", " ", "\n"])


@given(st.lists(_PIECES, max_size=30).map("".join) | st.text(max_size=100))
def test_any_text_is_taken(text: str) -> None:
    parse(text)


@pytest.mark.parametrize(
    "text", ["<tool_call>" * 90_000, '<tool_call>{"name": "' + "\\'" * 400_000, "<tool_call>" + "[" * 900_000]
)
def test_a_huge_reply_takes_no_second(text: str) -> None:
    began = time.process_time()
    parse(text)
    assert time.process_time() - began < 2.0


@pytest.mark.parametrize("protocol", ["openai", "anthropic"])
async def test_a_run_with_a_root_that_only_calls_tools(run, provider_server, providers, protocol):
    """The code runs, the root is told once a round, and the history holds blocks in plain text."""
    steps = iter(["x = peek(0, 3)\nprint(x)", "finalize(x)"])

    def root(received):
        return providers.Answer("", calls=(("python", json.dumps({"code": next(steps)})),))

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
