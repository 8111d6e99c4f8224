"""The object `response`, and the events of its stream in the order that OpenAI's client expects."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Any

from sse_starlette import ServerSentEvent

from rlm.journal.served import ServedRun
from rlm.results import RunResult
from rlm.server.errors import ApiError
from rlm.server.openai.models import MODEL
from rlm.server.openai.results import Progress, annotations_of, answer_of, pieces, tokens_of
from rlm.server.replies import event
from rlm.server.work.live import Live

__all__ = ["ResponseStream", "response_json"]

_STATUS = {
    "queued": "queued",
    "running": "in_progress",
    "finished": "completed",
    "failed": "failed",
    "cancelled": "cancelled",
    "interrupted": "cancelled",
}


def response_json(
    run: ServedRun,
    base_url: str,
    *,
    status: str | None = None,
    result: RunResult | None = None,
    error: ApiError | None = None,
    reasoning: str = "",
) -> dict[str, Any]:
    """Return a run as a `response`. `result` must have an answer, or come with an `error`."""
    face = run.request["face"]
    done = result is not None and error is None
    output: list[dict[str, Any]] = []
    if reasoning:
        output.append(_reasoning_item(run, reasoning))
    if done:
        assert result is not None
        output.append(_message_item(run, [_text_part(run, result, base_url)], "completed"))
    if error is not None:
        status = "failed"
    return {
        "id": f"resp_{run.run_id}",
        "object": "response",
        "created_at": int(run.created_at),
        "status": status or ("completed" if done else _STATUS[run.state]),
        "background": bool(face.get("background")),
        "error": None if error is None else {"code": "server_error", "message": error.message},
        "incomplete_details": None,
        "instructions": face.get("instructions"),
        "max_output_tokens": None,
        "metadata": face.get("metadata", {}),
        "model": MODEL,
        "output": output,
        "parallel_tool_calls": False,
        "previous_response_id": face.get("previous"),
        "reasoning": {"effort": None, "summary": None},
        "store": True,
        "temperature": None,
        "text": {"format": {"type": "text"}},
        "tool_choice": "none",
        "tools": [],
        "top_p": None,
        "truncation": "disabled",
        "usage": None if result is None else _usage(result),
    }


class ResponseStream:
    """The events of one response. Each has the next number."""

    def __init__(self, run: ServedRun, live: Live, base_url: str) -> None:
        self._run = run
        self._live = live
        self._base_url = base_url
        self._number = -1
        self._lines: list[str] = []

    async def events(self) -> AsyncIterator[ServerSentEvent]:
        """Yield the events up to the end of the run."""
        yield self._event("created", response=self._response("queued"))
        yield self._event("in_progress", response=self._response("in_progress"))
        reasoning = {"item_id": _id(self._run, "rs"), "output_index": 0, "summary_index": 0}
        progress = Progress()
        with self._live.watch() as channel:
            async for one in channel:
                line = progress.line(one)
                if line is None:
                    continue
                if not self._lines:
                    item = _reasoning_item(self._run, "", status="in_progress")
                    yield self._event("output_item.added", output_index=0, item=item)
                    part = {"type": "summary_text", "text": ""}
                    yield self._event("reasoning_summary_part.added", **reasoning, part=part)
                self._lines.append(line)
                yield self._event("reasoning_summary_text.delta", **reasoning, delta=line)
        text = "".join(self._lines)
        if self._lines:
            yield self._event("reasoning_summary_text.done", **reasoning, text=text)
            part = {"type": "summary_text", "text": text}
            yield self._event("reasoning_summary_part.done", **reasoning, part=part)
            yield self._event("output_item.done", output_index=0, item=_reasoning_item(self._run, text))
        result: RunResult | None = None
        try:
            result = await self._live.outcome()
            answer_of(result)
        except ApiError as error:
            yield self._event("failed", response=self._response(result=result, error=error))
            return
        for one_event in self._message_events(result):
            yield one_event
        yield self._event("completed", response=self._response(result=result))

    def _message_events(self, result: RunResult) -> list[ServerSentEvent]:
        place = {
            "item_id": _id(self._run, "msg"),
            "output_index": 1 if self._lines else 0,
            "content_index": 0,
        }
        index = place["output_index"]
        whole = _text_part(self._run, result, self._base_url)
        empty = {**whole, "text": "", "annotations": []}
        item = _message_item(self._run, [], "in_progress")
        found = [
            self._event("output_item.added", output_index=index, item=item),
            self._event("content_part.added", **place, part=empty),
        ]
        found += [
            self._event("output_text.delta", **place, delta=piece, logprobs=[])
            for piece in pieces(whole["text"])
        ]
        found += [
            self._event("output_text.annotation.added", **place, annotation_index=number, annotation=one)
            for number, one in enumerate(whole["annotations"])
        ]
        done = _message_item(self._run, [whole], "completed")
        return [
            *found,
            self._event("output_text.done", **place, text=whole["text"], logprobs=[]),
            self._event("content_part.done", **place, part=whole),
            self._event("output_item.done", output_index=index, item=done),
        ]

    def _event(self, name: str, **fields: Any) -> ServerSentEvent:
        self._number += 1
        kind = f"response.{name}"
        return event({"type": kind, "sequence_number": self._number, **fields}, name=kind)

    def _response(
        self, status: str | None = None, *, result: RunResult | None = None, error: ApiError | None = None
    ) -> dict[str, Any]:
        return response_json(
            self._run,
            self._base_url,
            status=status,
            result=result,
            error=error,
            reasoning="" if status else "".join(self._lines),
        )


def _id(run: ServedRun, kind: str) -> str:
    return f"{kind}_{run.run_id}"


def _reasoning_item(run: ServedRun, text: str, *, status: str = "completed") -> dict[str, Any]:
    summary = [{"type": "summary_text", "text": text}] if text else []
    return {"id": _id(run, "rs"), "type": "reasoning", "summary": summary, "status": status}


def _message_item(run: ServedRun, content: list[dict[str, Any]], status: str) -> dict[str, Any]:
    return {
        "id": _id(run, "msg"),
        "type": "message",
        "role": "assistant",
        "status": status,
        "content": content,
    }


def _text_part(run: ServedRun, result: RunResult, base_url: str) -> dict[str, Any]:
    return {
        "type": "output_text",
        "text": result.text,
        "annotations": annotations_of(result, run.run_id, base_url),
        "logprobs": [],
    }


def _usage(result: RunResult) -> dict[str, Any]:
    tokens = tokens_of(result)
    return {
        "input_tokens": tokens["input"],
        "input_tokens_details": {"cached_tokens": tokens["cached"]},
        "output_tokens": tokens["output"],
        "output_tokens_details": {"reasoning_tokens": tokens["reasoning"]},
        "total_tokens": tokens["input"] + tokens["output"],
    }
