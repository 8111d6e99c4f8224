"""Test `help` of a cell: helpers, tools and other values, by name and by object, always bounded."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from rlm.sandbox.in_kernel.helper_api.argument_hints import with_argument_hints
from rlm.sandbox.in_kernel.helper_api.children import ChildResult
from rlm.sandbox.in_kernel.helper_api.help import MAX_HELP_CHARS, HelpDesk
from rlm.sandbox.in_kernel.helper_api.host_tools import HostTool
from rlm.sandbox.in_kernel.helper_api.registry import HELPERS, NAMES, NOTES, Helper

TOOL = Helper("price", "(name: str) -> float", "The price of an article. " * 300)


class NoChannel:
    """A channel that no helper of these tests may use."""

    def call(self, method: str, params: dict[str, Any]) -> tuple[Any, list[Any]]:
        raise AssertionError(method)


@pytest.fixture
def helpers() -> SimpleNamespace:
    made = {helper.name: with_argument_hints(helper, lambda *_: None) for helper in HELPERS}
    return SimpleNamespace(**made, price=HostTool(TOOL, NoChannel()))


@pytest.fixture
def ask(helpers: SimpleNamespace, capsys: pytest.CaptureFixture[str]) -> Any:
    """Return `ask(what)`, which gives what is printed."""
    namespace: dict[str, Any] = {"total": 12}
    desk = HelpDesk(helpers, namespace)

    def ask(*what: Any) -> str:
        assert desk.help(*what) is None
        shown = capsys.readouterr().out
        assert len(shown) < MAX_HELP_CHARS + 100
        return shown

    return ask


@pytest.mark.parametrize("helper", HELPERS, ids=NAMES)
def test_a_helper_is_described_by_name_and_as_itself(
    ask: Any, helpers: SimpleNamespace, helper: Helper
) -> None:
    """Signature, summary, fields, notes and the example: everything that the full prompt says of it."""
    shown = ask(helper.name)
    assert shown == ask(getattr(helpers, helper.name)) == ask(f" {helper.name}() ")
    assert shown.startswith(f"{helper.call}\n{helper.summary}\n")
    assert all(field in shown for field in helper.fields)
    assert [note.text in shown for note in NOTES] == [helper.name in note.helpers for note in NOTES]
    assert all(f"    {line}\n" in shown for line in helper.example.splitlines())


def test_every_note_is_about_helpers() -> None:
    for note in NOTES:
        assert note.helpers
        assert note.helpers <= set(NAMES)


def test_without_a_name_all_helpers_and_tools_are_listed(ask: Any) -> None:
    shown = ask()
    assert [line.partition("(")[0] for line in shown.splitlines()] == [*NAMES, "price"]
    assert "price(name: str) -> float: The price of an article." in shown


def test_a_tool_is_described_within_the_bound(ask: Any, helpers: SimpleNamespace) -> None:
    shown = ask("price")
    assert shown == ask(helpers.price)
    assert shown.startswith("price(name: str) -> float\nThe price of an article.")
    assert "more characters are left out." in shown


@pytest.mark.parametrize(
    ("what", "part"), [("total", "int"), ("json", "json"), (str, "class str"), (len, "len(")]
)
def test_another_value_has_the_help_of_python(ask: Any, what: Any, part: str) -> None:
    assert part in ask(what)


def test_an_answer_of_a_child_has_the_help_of_its_type(ask: Any) -> None:
    assert "ChildResult" in ask(ChildResult("search"))


@pytest.mark.parametrize("what", ["serch", "no such thing", "x" * 10_000, "a.b.c", ""])
def test_an_unknown_name_is_said_to_be_unknown(ask: Any, what: str) -> None:
    shown = ask(what)
    assert shown.startswith("There is no helper")
    assert "help() lists all of them." in shown
    assert ("search" in shown) == (what == "serch")
