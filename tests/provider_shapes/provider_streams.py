"""Write the streams of OpenAI's Responses API and of Ollama, for tests/provider_server.py.

A behaviour is one of that module: an Answer is written whole, any other ends after its text.
"""

from __future__ import annotations

import json
from typing import Any

__all__ = ["ollama_lines", "responses_events"]


def _pieces(text: str, size: int) -> list[str]:
    return [text[start : start + size] for start in range(0, len(text), size)]


def responses_events(behaviour: Any) -> list[bytes]:
    """The stream of the Responses API."""
    number = iter(range(1_000_000))

    def event(kind: str, **fields: Any) -> bytes:
        data = {"type": kind, "sequence_number": next(number), **fields}
        return f"event: {kind}\ndata: {json.dumps(data)}\n\n".encode()

    is_whole = hasattr(behaviour, "finish")
    response: dict[str, Any] = {
        "id": "resp_1",
        "object": "response",
        "created_at": 1,
        "model": "m",
        "status": "in_progress",
        "output": [],
        "usage": None,
    }
    events = [event("response.created", response=response)]
    if is_whole and behaviour.reasoning:
        delta = {"item_id": "rs_1", "output_index": 0, "summary_index": 0, "delta": behaviour.reasoning}
        events.append(event("response.reasoning_summary_text.delta", **delta))
        item = {"type": "reasoning", "id": "rs_1", "summary": [], "encrypted_content": "gAAA"}
        events.append(event("response.output_item.done", output_index=0, item=item))
    for piece in _pieces(behaviour.text, behaviour.piece if is_whole else 7):
        place = {"item_id": "msg_1", "output_index": 1, "content_index": 0}
        events.append(event("response.output_text.delta", **place, delta=piece))
    if hasattr(behaviour, "kind"):
        events.append(event("error", code=behaviour.kind, message=behaviour.message, param=None))
    if not is_whole:
        return events
    for index, (name, arguments) in enumerate(behaviour.calls, 2):
        item = {
            "type": "function_call",
            "id": f"fc_{index}",
            "call_id": f"call_{index}",
            "name": name,
            "arguments": arguments,
            "status": "completed",
        }
        events.append(event("response.output_item.done", output_index=index, item=item))
    if behaviour.usage is not None:
        tokens_in, tokens_out, cached = behaviour.usage
        response["usage"] = {
            "input_tokens": tokens_in,
            "input_tokens_details": {"cached_tokens": cached},
            "output_tokens": tokens_out,
            "output_tokens_details": {"reasoning_tokens": 0},
            "total_tokens": tokens_in + tokens_out,
        }
    if behaviour.finish == "stop":
        return [*events, event("response.completed", response={**response, "status": "completed"})]
    reason = {"length": "max_output_tokens"}.get(behaviour.finish, behaviour.finish)
    cut = {**response, "status": "incomplete", "incomplete_details": {"reason": reason}}
    return [*events, event("response.incomplete", response=cut)]


def ollama_lines(behaviour: Any) -> list[bytes]:
    """The lines of Ollama's chat."""

    def line(message: dict[str, Any], **fields: Any) -> bytes:
        base = {
            "model": "m",
            "created_at": "2026-11-22T00:00:00Z",
            "message": {"role": "assistant", **message},
        }
        return f"{json.dumps({**base, 'done': False, **fields})}\n".encode()

    is_whole = hasattr(behaviour, "finish")
    lines = []
    if is_whole and behaviour.reasoning:
        lines.append(line({"content": "", "thinking": behaviour.reasoning}))
    lines += [
        line({"content": piece}) for piece in _pieces(behaviour.text, behaviour.piece if is_whole else 7)
    ]
    if hasattr(behaviour, "kind"):
        lines.append(f"{json.dumps({'error': behaviour.message})}\n".encode())
    if not is_whole:
        return lines
    for name, arguments in behaviour.calls:
        made = {"function": {"name": name, "arguments": json.loads(arguments)}}
        lines.append(line({"content": "", "tool_calls": [made]}))
    tokens_in, tokens_out, _ = behaviour.usage or (0, 0, 0)
    counts = {"prompt_eval_count": tokens_in, "eval_count": tokens_out} if behaviour.usage else {}
    return [*lines, line({"content": ""}, done=True, done_reason=behaviour.finish, **counts)]
