"""Test which functions can be tools, which values cross, and that faults stay in their call."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable
from dataclasses import dataclass
from datetime import date
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rlm import RLM
from rlm.children.tools import MAX_RESULT, Toolbox
from rlm.errors import ConfigurationError
from rlm.sandbox.host.requests import BadCall
from rlm.sandbox.types import ToolCall


def test_a_default_that_is_long_or_no_plain_value_is_not_shown() -> None:
    """A signature goes into a prompt, where no object's address belongs."""

    def walk(
        where: Path = Path("/somewhere"), what: str = "x" * 50, times: int = 2, why: str | None = None
    ) -> int:
        """Walks."""
        return times

    (doc,) = Toolbox([walk]).docs
    assert (
        doc.call
        == "walk(where: pathlib.Path = ..., what: str = ..., times: int = 2, why: str | None = None) -> int"
    )


def _nameless() -> Callable[..., Any]:
    return lambda: 1


def _named(name: str) -> Callable[..., Any]:
    def function() -> None:
        """Does nothing."""

    function.__name__ = name
    return function


def _untyped(what) -> None:
    """Has no types."""


def _odd(what: threading.Lock) -> None:
    """Has a type that no value has."""


@pytest.mark.parametrize(
    ("tools", "message"),
    [
        ([_named("search")], r"cannot be named search"),
        ([_named("helpers")], r"cannot be named helpers"),
        ([_named("print")], r"cannot be named print"),
        ([_named("_own")], r"cannot be named _own"),
        ([_nameless()], r"give a function that has a name"),
        ([int], r"give a function that has a name"),
        ([3], r"give a function that has a name"),
        ([_named("one"), _named("one")], r"two tools are named one: rename one"),
        ([_named(f"f{n}") for n in range(101)], r"100 is the limit"),
    ],
)
def test_what_cant_be_a_tool_is_refused_at_construction(tools, message) -> None:
    """A tool never shadows a helper. Every refusal names the tool and the remedy."""
    with pytest.raises(ConfigurationError, match=message):
        RLM("extractive", tools=tools)


@pytest.mark.parametrize(
    ("function", "message"), [(_untyped, r"what has no type"), (_odd, r"cannot be used")]
)
def test_a_tool_has_types_that_can_be_checked(function, message) -> None:
    function.__name__ = "tool"
    with pytest.raises(ConfigurationError, match=message):
        Toolbox([function])


@pytest.mark.parametrize(
    ("args", "kwargs", "given"),
    [
        (("2026-01-02", "1"), {"kwargs": "x", "n": 2}, [1, [1], "x", {"n": 2}]),
        (("2026-01-02",), {"kwargs": "x"}, [1, [], "x", {}]),
        ((), {"kwargs": "x"}, "day: Missing required"),
        (("2026-01-02", 1, "two"), {"kwargs": "x"}, "args: Input should be a valid integer.*, not 'two'"),
        (("2026-01-02",), {"kwargs": "x", "n": "y"}, "n: Input should be a valid integer"),
        (("2026-01-02",), {}, "kwargs: Missing required keyword only argument; it is pay"),
        (("2026-01-02",), {"kwargs": "x", "day": "2026-01-03"}, "day: Input should be a valid integer"),
    ],
)
async def test_arguments_of_every_kind_are_converted_or_named(args, kwargs, given) -> None:
    def pay(day: date, /, *args: int, kwargs: str, **others: int) -> Any:
        """Pays."""
        return [day.month, args, kwargs, others]

    call = Toolbox([pay]).run(ToolCall("pay", args, kwargs))
    if isinstance(given, list):
        assert await call == given
        return
    with pytest.raises(BadCall, match=given) as raised:
        await call
    assert raised.value.type == "type"


@dataclass
class Point:
    x: int
    when: date


def _endless():
    while True:
        yield 1


@pytest.mark.parametrize(
    ("value", "given"),
    [
        (Point(1, date(2026, 1, 2)), {"x": 1, "when": "2026-01-02"}),
        ({1: {2}}, {"1": [2]}),
        ((1, Path("a")), [1, "a"]),
        ("x" * (MAX_RESULT - 2), "x" * (MAX_RESULT - 2)),
    ],
)
async def test_a_result_crosses_as_json(value, given) -> None:

    def give() -> Any:
        """Gives it."""
        return value

    assert await Toolbox([give]).run(ToolCall("give")) == given


@pytest.mark.parametrize(
    ("value", "message"),
    [
        (object(), r"that JSON cannot hold"),
        (float("nan"), r"that JSON cannot hold"),
        ("\ud800", r"that JSON cannot hold"),
        ("x" * MAX_RESULT, r"limit is 1,048,576"),
        ([[]] * 300_000, r"the limit is"),
        (_endless(), r"may never end"),
    ],
)
async def test_a_result_that_cant_cross_is_a_tool_error(value, message) -> None:
    """The result is limited to 1 MB and must be JSON."""

    def give() -> Any:
        """Gives it."""
        return value

    with pytest.raises(BadCall, match=message) as raised:
        await Toolbox([give]).run(ToolCall("give"))
    assert raised.value.type == "tool"


ANYTHING = [SystemExit(1), StopIteration(), asyncio.CancelledError(), TimeoutError("of its own")]


@pytest.mark.parametrize("error", [*ANYTHING, KeyboardInterrupt()])
async def test_whatever_a_function_raises_stays_in_its_call(error) -> None:
    def act() -> None:
        """Raises."""
        raise error

    with pytest.raises(BadCall, match=r"act\(\) (failed|was cancelled)"):
        await Toolbox([act]).run(ToolCall("act"))


async def test_threads_that_never_end_are_bounded() -> None:
    release = threading.Event()

    def wait() -> None:
        """Waits."""
        release.wait(30)

    box = Toolbox([wait], seconds=0.05)
    try:
        message = await asyncio.gather(
            *(box.run(ToolCall("wait")) for _ in range(70)), return_exceptions=True
        )
        assert sum("are still running" in str(one) for one in message) == 6
    finally:
        release.set()
    await asyncio.sleep(0.1)
    assert await box.run(ToolCall("wait")) is None


def test_a_thread_that_outlives_its_event_loop_ends_without_a_word(monkeypatch) -> None:
    """Nobody waits for it any more."""
    message: list[object] = []
    monkeypatch.setattr(threading, "excepthook", message.append)
    release = threading.Event()

    def wait() -> None:
        """Waits."""
        release.wait(30)

    with pytest.raises(BadCall, match="gave no result within"):
        asyncio.run(Toolbox([wait], seconds=0.05).run(ToolCall("wait")))
    (thread,) = [one for one in threading.enumerate() if one.name == "rlm-tool-wait"]
    release.set()
    thread.join(10)
    assert not thread.is_alive()
    assert message == []


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(), inner, max_size=4),
    max_leaves=10,
)


@given(JSON, st.dictionaries(st.text(max_size=5), JSON, max_size=3))
def test_any_json_goes_through_a_tool_or_is_refused_as_one_line(value, kwargs) -> None:
    """A value comes back unchanged, or BadCall names the fault."""

    def echo(value: Any, size: int = 0) -> Any:
        """Gives it back."""
        return value

    given = Toolbox([echo]).run(ToolCall("echo", (value,), kwargs))
    if kwargs.keys() <= {"size"} and type(kwargs.get("size", 0)) is int:
        assert asyncio.run(given) == value
        return
    refused = ""
    try:
        came = asyncio.run(given)
    except BadCall as error:
        refused = str(error)
    # pydantic accepts "7", 7.0 and True as whole numbers
    assert refused.startswith("echo()") if refused else came == value
