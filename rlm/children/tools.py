"""Functions of the host that cells may call.

They run in the driver's process, with all its rights. Model-written code chooses their arguments, which are
checked for their types only: a function must validate the rest itself.
"""

from __future__ import annotations

import asyncio
import builtins
import inspect
import json
import keyword
import re
import threading
from collections.abc import AsyncIterator, Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, Self, get_type_hints

from rlm.errors import ConfigurationError
from rlm.sandbox.host.daemon_thread import run_in_daemon_thread
from rlm.sandbox.host.requests import BadCall
from rlm.sandbox.in_kernel import wire
from rlm.sandbox.in_kernel.registry import NAMES, YIELDING, Helper
from rlm.sandbox.types import ToolCall

__all__ = ["MAX_RESULT", "Tool", "Toolbox", "acceptor"]

MAX_RESULT = 2**20
"""Maximum bytes of JSON in the result of one call."""
_MAX_TOOLS = 100
_MAX_SIGNATURE = 1_000
_MAX_SUMMARY = 200
_MAX_DEFAULT = 40
_MAX_THREADS = 64
_VALUE_SHOWN = 80
# Python 3.13 names `pathlib.Path` by the module that implements it: `pathlib._local.Path`.
_PRIVATE_MODULE = re.compile(r"(?<=\w)\._\w+(?=\.\w)")
_RESERVED = {*NAMES} - YIELDING | {"helpers", "ToolError", *keyword.kwlist, *dir(builtins)}


@dataclass(frozen=True, slots=True)
class Tool:
    """One function. `function` is None if only its name is known, as in a replay. `accept` returns the
    arguments of a call, each converted to its type, or raises pydantic's ValidationError."""

    doc: Helper
    function: Callable[..., Any] | None = None
    accept: Callable[..., tuple[tuple[Any, ...], dict[str, Any]]] | None = None

    @classmethod
    def of(cls, function: Callable[..., Any]) -> Self:
        """Make a tool of a function. Raises ConfigurationError, with the remedy, if it cannot be one."""
        from pydantic.errors import PydanticUserError

        name = getattr(function, "__name__", "")
        if not callable(function) or inspect.isclass(function) or not name.isidentifier():
            raise ConfigurationError(
                f"{function!r:.80} cannot be a tool: give a function that has a name (def)"
            )
        if name in _RESERVED or name.startswith("_"):
            raise ConfigurationError(
                f"a tool cannot be named {name}: helpers and Python keep such names; rename it"
            )
        try:
            signature = inspect.signature(function)
            hints = get_type_hints(function, include_extras=True)
            untyped = [one for one in signature.parameters if one not in hints]
            if untyped:
                raise ConfigurationError(f"tool {name}: its parameter {untyped[0]} has no type; annotate it")
            accept = acceptor(signature, hints)
        except (PydanticUserError, NameError, TypeError, ValueError) as error:
            raise ConfigurationError(
                f"tool {name}: its annotations cannot be used: {str(error).splitlines()[0]}; use types that "
                "pydantic takes"
            ) from error
        summary = (inspect.getdoc(function) or "").strip().partition("\n")[0][:_MAX_SUMMARY]
        text = _signature_text(signature, hints)
        if len(text) > _MAX_SIGNATURE:
            raise ConfigurationError(
                f"tool {name}: its signature has {len(text):,} characters; {_MAX_SIGNATURE:,} are the limit"
            )
        return cls(Helper(name, text, summary), function, accept)

    def bind(self, call: ToolCall) -> tuple[tuple[Any, ...], dict[str, Any]]:
        """Return the arguments, each converted to the type of its parameter. Raises BadCall."""
        from pydantic import ValidationError

        assert self.accept is not None
        try:
            return self.accept(*call.args, **call.kwargs)
        except ValidationError as error:
            first = error.errors(include_url=False)[0]
            (name, *path), fault = first["loc"], first["msg"][:300]
            if isinstance(name, int):
                parameters = list(inspect.signature(self.accept).parameters)
                name = parameters[min(name, len(parameters) - 1)] if parameters else name
            place = "".join(f"[{part!r:.40}]" for part in path)
            if "argument" not in first["type"]:
                fault += f", not {repr(first['input'])[:_VALUE_SHOWN]}"
            raise BadCall(
                "type", f"{call.name}(): {name!s:.80}{place}: {fault}; it is {self.doc.call}"
            ) from None


def acceptor(
    signature: inspect.Signature, hints: Mapping[str, Any]
) -> Callable[..., tuple[tuple[Any, ...], dict[str, Any]]]:
    """Return `Tool.accept` for a signature. Raises PydanticUserError for types that pydantic lacks."""
    from pydantic import validate_call

    def accept(*args: Any, **kwargs: Any) -> tuple[tuple[Any, ...], dict[str, Any]]:
        return args, kwargs

    accept.__signature__ = signature  # type: ignore[attr-defined]
    accept.__annotations__ = dict(hints)
    return validate_call(accept)


class Toolbox:
    """The functions of one RLM, by name. All its runs share them.

    `seconds` is the timeout of one call. Raises ConfigurationError for functions that cannot be tools.
    """

    def __init__(self, functions: Sequence[Callable[..., Any]] = (), *, seconds: float = 60.0) -> None:
        self._tools: dict[str, Tool] = {}
        self.seconds = seconds
        self._threads = threading.BoundedSemaphore(_MAX_THREADS)
        if not seconds > 0:
            raise ConfigurationError(f"tool_seconds is {seconds!r}; give a number above 0")
        if len(functions) > _MAX_TOOLS:
            raise ConfigurationError(f"{len(functions)} tools are too many: {_MAX_TOOLS} is the limit")
        for function in functions:
            tool = Tool.of(function)
            if tool.doc.name in self._tools:
                raise ConfigurationError(f"two tools are named {tool.doc.name}: rename one")
            self._tools[tool.doc.name] = tool

    def extended(self, tools: Sequence[Tool]) -> Toolbox:
        """Return a box with more tools. One whose name is taken is left out."""
        other = Toolbox(seconds=self.seconds)
        other._threads = self._threads
        other._tools = {**{tool.doc.name: tool for tool in tools}, **self._tools}
        return other

    @property
    def docs(self) -> tuple[Helper, ...]:
        """Return the signatures and summaries for a root and its kernel, in the order given."""
        return tuple(tool.doc for tool in self._tools.values())

    @property
    def missing(self) -> tuple[str, ...]:
        """Return the names of the tools that cannot be run here."""
        return tuple(name for name, tool in self._tools.items() if tool.function is None)

    def as_recorded(self, docs: Sequence[Sequence[str]]) -> Toolbox:
        """Return the tools of a recorded run, as it saw them. Those that are also in this box can be run."""
        other = Toolbox(seconds=self.seconds)
        for name, signature, summary in docs:
            mine = self._tools.get(name)
            doc = Helper(name, signature, summary)
            known = mine is not None and mine.doc.signature == signature
            other._tools[name] = replace(mine, doc=doc) if mine and known else Tool(doc)
        return other

    async def run(self, call: ToolCall) -> Any:
        """Call the function and return its result as a JSON value.

        Raises BadCall: `type` for wrong arguments, `tool` if the function failed or its result is not JSON.
        The text of the error may hold anything. A function that is not async cannot be stopped: after a
        timeout or a cancellation its thread runs on.
        """
        tool = self._tools.get(call.name)
        if tool is None or tool.function is None:
            raise BadCall("tool", f"{call.name}() is not available here")
        args, kwargs = tool.bind(call)
        function = tool.function
        try:
            async with asyncio.timeout(self.seconds) as limit:
                if inspect.iscoroutinefunction(function):
                    value = await function(*args, **kwargs)
                else:
                    value = await self._in_thread(
                        call.name, partial(_call, call.name, partial(function, *args, **kwargs))
                    )
                    if not inspect.isawaitable(value):
                        return value
                    value = await value
            return await run_in_daemon_thread(partial(_to_json_value, call.name, value))
        except BadCall:
            raise
        except asyncio.CancelledError as error:
            task = asyncio.current_task()
            if task is None or task.cancelling():
                raise
            raise BadCall("tool", f"{call.name}() was cancelled") from error
        except (Exception, SystemExit) as error:
            # A boundary: the cell gets every fault of the function.
            if limit.expired():
                raise BadCall("tool", f"{call.name}() gave no result within {self.seconds:g} s") from error
            raise BadCall("tool", f"{call.name}() failed: {_describe(error)}") from error

    async def _in_thread(self, name: str, work: Callable[[], Any]) -> Any:
        """Run `work` in a daemon thread. With asyncio.to_thread a function that never returns would keep the
        process from ending."""
        if not self._threads.acquire(blocking=False):
            raise BadCall(
                "tool", f"{name}(): {_MAX_THREADS} calls of tools are still running; try again later"
            )

        def act() -> Any:
            try:
                return work()
            except Exception:
                raise
            except BaseException as error:
                # It would end the event loop, and was raised in another thread.
                raise BadCall("tool", f"{name}() failed: {_describe(error)}") from error
            finally:
                # Not by the caller: a call that timed out still has its thread.
                self._threads.release()

        return await run_in_daemon_thread(act, name=f"rlm-tool-{name}")


def _call(name: str, work: Callable[[], Any]) -> Any:
    """Call a function and convert its result on its own thread, unless the result must be awaited first."""
    value = work()
    return value if inspect.isawaitable(value) else _to_json_value(name, value)


def _to_json_value(name: str, value: Any) -> Any:
    """Convert dataclasses, pydantic models, dates and the like to a JSON value. Raises BadCall."""
    from pydantic_core import PydanticSerializationError, to_json

    if isinstance(value, Iterator | AsyncIterator):
        raise BadCall(
            "tool", f"{name}() returned a {type(value).__name__}, which may never end; return a list"
        )
    try:
        data = to_json(value)
        if len(data) > MAX_RESULT or wire.weight(data) > wire.MAX_WEIGHT:
            raise BadCall(
                "tool",
                f"{name}() returned {len(data):,} bytes of JSON; the limit is {MAX_RESULT:,}, in fewer "
                "pieces: ask it for less",
            )
        return json.loads(data, parse_constant=_no_number)
    except (PydanticSerializationError, ValueError, RecursionError) as error:
        raise BadCall(
            "tool", f"{name}() returned a value that JSON cannot hold: {_describe(error)}"
        ) from error


def _no_number(name: str) -> None:
    raise ValueError(f"{name} is not a JSON number")


def _describe(error: BaseException) -> str:
    try:
        return f"{type(error).__name__}: {error}"
    except Exception:
        # Its own __str__ is broken.
        return type(error).__name__


class _Dots:
    def __repr__(self) -> str:
        return "..."


def _signature_text(signature: inspect.Signature, hints: Mapping[str, Any]) -> str:
    """Return the signature on one line. A default that is long, or not a plain value, is not shown."""
    parameters = []
    for name, parameter in signature.parameters.items():
        default = parameter.default
        plain = default is None or isinstance(default, bool | int | float | str)
        if default is not inspect.Parameter.empty and (not plain or len(repr(default)) > _MAX_DEFAULT):
            default = _Dots()
        parameters.append(
            parameter.replace(default=default, annotation=hints.get(name, parameter.annotation))
        )
    result = hints.get("return", inspect.Signature.empty)
    shown = signature.replace(parameters=parameters, return_annotation=result)
    text = _PRIVATE_MODULE.sub("", str(shown).replace("typing.", ""))
    return " ".join(text.split())
