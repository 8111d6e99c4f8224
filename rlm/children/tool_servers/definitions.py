"""Turn the tools that a server lists into tools of a run.

Names, descriptions and schemas are the server's words: they reach the root's prompt, so they are cut, put on
one line and freed of characters that a reader does not see.
"""

from __future__ import annotations

import inspect
import keyword
import re
import unicodedata
from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Any, Literal

from mcp.types import Tool as ListedTool

from rlm.children.tools import Tool, acceptor
from rlm.escaping import terminal_line
from rlm.sandbox.in_kernel.registry import Helper

__all__ = ["MAX_LISTED", "tools_of"]

MAX_LISTED = 64
"""Tools of one server."""
_MAX_NAME = 60
_MAX_SUMMARY = 160
_MAX_PARAMETERS = 20
_MAX_SIGNATURE = 600
_MAX_CHOICES = 12
_TYPES: Mapping[object, type] = {
    "string": str,
    "integer": int,
    "number": float,
    "boolean": bool,
    "array": list,
    "object": dict,
}

CallTool = Callable[[str, dict[str, Any]], Awaitable[Any]]


def tools_of(
    server: str, listed: Sequence[ListedTool], call: CallTool, allowed: Sequence[str] | None
) -> tuple[list[Tool], list[str]]:
    """Return the tools as `SERVER_tool`, and a line for each that is left out. Only those in `allowed` are
    offered; None allows all."""
    tools: dict[str, Tool] = {}
    left_out: list[str] = []
    wanted = [one for one in listed if allowed is None or one.name in allowed]
    for one in wanted[:MAX_LISTED]:
        name = _tool_name(server, one.name)
        if name in tools:
            left_out.append(f"MCP server {server} lists two tools named {name}: the second is left out")
            continue
        tools[name] = _tool(name, server, one, call)
    if len(wanted) > MAX_LISTED:
        left_out.append(
            f"MCP server {server} lists {len(wanted):,} tools: the first {MAX_LISTED} are offered; name "
            f"those that you need in mcp.{server}.tools"
        )
    for missing in [one for one in allowed or () if one not in {each.name for each in listed}]:
        left_out.append(f"MCP server {server} has no tool {terminal_line(missing)[:_MAX_NAME]!r}")
    return list(tools.values()), left_out


def _tool_name(server: str, name: str) -> str:
    return f"{server}_{re.sub(r'[^A-Za-z0-9_]', '_', name)}"[:_MAX_NAME]


def _tool(name: str, server: str, listed: ListedTool, call: CallTool) -> Tool:
    signature, required = _signature(listed.input_schema)

    async def run(*args: Any, **kwargs: Any) -> Any:
        given = signature.bind(*args, **kwargs).arguments
        if "arguments" in given and not required:
            return await call(listed.name, dict(given["arguments"]))
        return await call(
            listed.name, {key: value for key, value in given.items() if value is not None or key in required}
        )

    hints = {one.name: one.annotation for one in signature.parameters.values()}
    summary = _seen(listed.description or "")
    said = f"MCP server {server} says: {summary}" if summary else f"of MCP server {server}"
    return Tool(Helper(name, _text(signature), said), run, acceptor(signature, hints))


def _signature(schema: Mapping[str, Any]) -> tuple[inspect.Signature, frozenset[str]]:
    """Return the parameters of a schema, the required ones first, and the names of the required ones. A
    schema that Python has no parameters for becomes one table: `arguments`."""
    properties = schema.get("properties")
    properties = properties if isinstance(properties, Mapping) else {}
    named = schema.get("required")
    required = (
        frozenset(one for one in named if one in properties) if isinstance(named, list) else frozenset()
    )
    fits = len(properties) <= _MAX_PARAMETERS and all(map(_is_parameter, properties))
    if fits:
        parameters = [
            inspect.Parameter(
                name,
                inspect.Parameter.POSITIONAL_OR_KEYWORD,
                default=inspect.Parameter.empty if name in required else None,
                annotation=_type(facts) if name in required else _type(facts) | None,
            )
            for name, facts in sorted(properties.items(), key=lambda one: one[0] not in required)
        ]
        signature = inspect.Signature(parameters)
        if len(_text(signature)) <= _MAX_SIGNATURE:
            return signature, required | ({"arguments"} & properties.keys())
    table = inspect.Parameter("arguments", inspect.Parameter.POSITIONAL_OR_KEYWORD, annotation=dict[str, Any])
    return inspect.Signature([table]), frozenset()


def _is_parameter(name: object) -> bool:
    return (
        isinstance(name, str)
        and name.isascii()
        and name.isidentifier()
        and not keyword.iskeyword(name)
        and len(name) <= _MAX_NAME
    )


def _type(facts: object) -> Any:
    """Return the Python type of a property. What has no simple one is anything: the server checks it."""
    if not isinstance(facts, Mapping):
        return Any
    choices = facts.get("enum")
    if (
        isinstance(choices, list)
        and 0 < len(choices) <= _MAX_CHOICES
        and all(isinstance(one, str) and one.isprintable() and len(one) <= _MAX_NAME for one in choices)
    ):
        return Literal.__getitem__(tuple(choices))
    kind = facts.get("type")
    if kind == "array" and isinstance(facts.get("items"), Mapping):
        inner = _TYPES.get(_hashable(facts["items"].get("type")))
        return list[inner] if inner is not None else list  # type: ignore[valid-type]
    return _TYPES.get(_hashable(kind), Any)


def _hashable(value: object) -> object:
    return value if isinstance(value, str) else None


def _text(signature: inspect.Signature) -> str:
    text = re.sub(r"\btyping\.", "", str(signature))
    return " ".join(text.replace("`", "'").split())


def _seen(text: str) -> str:
    """Return what a reader sees of a text, on one line, cut, without a mark that could end its line."""
    shown = "".join(
        " " if one.isspace() else one
        for one in terminal_line(text[: 20 * _MAX_SUMMARY]).replace("\\n", " ").replace("\\t", " ")
        if unicodedata.category(one) not in ("Cc", "Cf", "Co", "Cn")
    )
    shown = " ".join(shown.replace("`", "'").split())
    return shown if len(shown) <= _MAX_SUMMARY else f"{shown[: _MAX_SUMMARY - 1]}…"
