"""Host tools as a cell calls them. The driver runs them, outside the sandbox."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from .channel import Caller, CallError
from .helpers import check_json
from .registry import Helper

__all__ = ["HostTool", "ToolError"]

_ERRORS: Mapping[str, type[Exception]] = {"type": TypeError, "value": ValueError, "too_large": ValueError}


class ToolError(Exception):
    """A host tool failed, took too long, or returned a value that is not JSON."""


class HostTool:
    """One host tool. Its arguments and its result are JSON values. `help` describes it by `entry`.

    Raises ToolError if it fails, and TypeError for arguments that do not match its signature.
    """

    def __init__(self, tool: Helper, channel: Caller) -> None:
        self.entry = tool
        self.__name__ = tool.name
        self.__doc__ = f"{tool.call}\n\n{tool.summary}".rstrip()
        self._call = tool.call
        self._channel = channel

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        for position, value in enumerate(args):
            check_json(value, f"argument {position + 1} of {self.__name__}()")
        check_json(kwargs, f"{self.__name__}()")
        params = {"name": self.__name__, "args": list(args), "kwargs": kwargs}
        try:
            return self._channel.call("tool", params)[0]
        except CallError as error:
            raise _ERRORS.get(error.type, ToolError)(str(error)) from None

    def __repr__(self) -> str:
        return f"<tool {self._call}>"
