"""Writes the tool calls of a reply into its text. No tool is ever offered, but some models call one."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

from rlm.models.base import Reply, Request, ToolCall

__all__ = ["as_text"]


def as_text(reply: Reply, request: Request) -> Reply:
    """Return `reply` with its tool calls in its text, where `request` has a use for them.

    Journals, histories and other providers know only text. A root's calls are written as many models write
    them, which the reply contract reads. A reply that must follow a schema may have come as the arguments of
    a call. Calls of other replies mean nothing and are dropped.
    """
    calls = reply.tool_calls
    if not calls or reply.finish_reason in ("length", "refusal"):
        return reply
    if request.role == "root":
        parts = [reply.text.strip(), *map(_written, calls)]
        return replace(reply, text="\n".join(filter(None, parts)), finish_reason="stop", tool_calls=())
    if request.schema is not None and len(calls) == 1 and not reply.text.strip():
        return replace(reply, text=calls[0].arguments, finish_reason="stop", tool_calls=())
    return replace(reply, tool_calls=())


def _written(call: ToolCall) -> str:
    arguments: Any = call.arguments
    try:
        # Some models write line breaks into a string as they are.
        parsed = json.loads(arguments, strict=False)
        arguments = parsed if isinstance(parsed, (dict, str)) else arguments
    except (ValueError, RecursionError):
        pass  # code without JSON around it
    # A tag within the code must not end the call.
    body = json.dumps({"name": call.name, "arguments": arguments}).replace("<", "\\u003c")
    return f"<tool_call>\n{body}\n</tool_call>"
