"""Host tools as a cell calls them. The driver runs them, outside the sandbox."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from .channel import Caller, CallError
from .helpers import check_json
from .registry import Helper

__all__ = ["ToolError", "host_tool"]

_ERRORS: Mapping[str, type[Exception]] = {"type": TypeError, "value": ValueError, "too_large": ValueError}


class ToolError(Exception):
    """A host tool failed, took too long, or returned a value that is not JSON."""


def host_tool(tool: Helper, channel: Caller) -> Callable[..., Any]:
    """Return the function of one host tool. Its arguments and its result are JSON values.

    It raises ToolError if the tool fails, and TypeError for arguments that do not match its signature.
    Python's `help` prints its description.
    """

    def call(*args: Any, **kwargs: Any) -> Any:
        for position, value in enumerate(args):
            check_json(value, f"argument {position + 1} of {tool.name}()")
        check_json(kwargs, f"{tool.name}()")
        params = {"name": tool.name, "args": list(args), "kwargs": kwargs}
        try:
            return channel.call("tool", params)[0]
        except CallError as error:
            raise _ERRORS.get(error.type, ToolError)(str(error)) from None

    call.__name__ = call.__qualname__ = tool.name
    call.__doc__ = f"{tool.call}\n\n{tool.summary}".rstrip()
    return call
