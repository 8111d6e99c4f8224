"""Results in OpenAI's terms: usage, citations as annotations, and the progress of a run as reasoning."""

from __future__ import annotations

import asyncio
import time
from typing import Any

from fastapi import Request

from rlm.events import Event, Loading
from rlm.results import RunResult
from rlm.server.errors import ApiError, no_answer
from rlm.server.live import LiveRun, Runs
from rlm.status import RunStatus

__all__ = ["Progress", "annotations_of", "answer_of", "pieces", "usage_of", "wait_for"]

_LOOK_SECONDS = 0.5
_FIGURE_SECONDS = 1.0
_PIECE = 400


def answer_of(result: RunResult) -> str:
    """Return the text of the answer. Raises ApiError if there is none."""
    if result.answer is None:
        raise no_answer(result)
    return result.text


def usage_of(result: RunResult) -> dict[str, Any]:
    """Return the tokens of all calls of a run."""
    usage = result.usage
    given, written = sum(one.input_tokens for one in usage), sum(one.output_tokens for one in usage)
    return {
        "prompt_tokens": given,
        "completion_tokens": written,
        "total_tokens": given + written,
        "prompt_tokens_details": {"cached_tokens": sum(one.cached_tokens for one in usage)},
        "completion_tokens_details": {"reasoning_tokens": sum(one.reasoning_tokens for one in usage)},
    }


def annotations_of(result: RunResult, run_id: str, base_url: str) -> list[dict[str, Any]]:
    """Return the citations as fields of `url_citation`: one for each mark in the text. The URL is that of
    the run on this server."""
    text = result.text
    found = []
    for number, citation in enumerate(result.citations, 1):
        marks = _places(text, citation.marker) or [(len(text), len(text))]
        for start, end in marks:
            found.append(
                {
                    "start_index": start,
                    "end_index": end,
                    "title": citation.place,
                    "url": f"{base_url}v1/runs/{run_id}#citation-{number}",
                    "quote": citation.quote,
                    "verified": citation.verified,
                }
            )
    return sorted(found, key=lambda one: (one["start_index"], one["end_index"]))


def pieces(text: str) -> list[str]:
    """Return a text in pieces for a stream."""
    return [text[at : at + _PIECE] for at in range(0, len(text), _PIECE)]


class Progress:
    """The status of a run as lines of text, at most one a second, and one for each step."""

    def __init__(self) -> None:
        self._status = RunStatus()
        self._shown = ("", 0.0)

    def line(self, event: Event) -> str | None:
        """Return the line of an event with its line end, or None if there is nothing new for a reader."""
        step = self._status.doing
        self._status.on_event(event)
        text, at = self._shown
        is_new_step = self._status.doing != step and not isinstance(event, Loading)
        if self._status.line == text or (not is_new_step and time.monotonic() < at + _FIGURE_SECONDS):
            return None
        self._shown = (self._status.line, time.monotonic())
        return f"{self._status.line}\n"


async def wait_for(runs: Runs, run: LiveRun, request: Request) -> RunResult:
    """Wait for the result of a run whose client waits. If the client leaves, the run is interrupted. Raises
    ApiError."""
    while not run.ended.is_set():
        try:
            await asyncio.wait_for(run.ended.wait(), _LOOK_SECONDS)
        except TimeoutError:
            if await request.is_disconnected():
                await runs.stop_run(run, "interrupted")
                raise ApiError(499, "the client has left", code="client_left") from None
    return await run.outcome()


def _places(text: str, marker: str) -> list[tuple[int, int]]:
    found, at = [], text.find(marker) if marker else -1
    while at >= 0:
        found.append((at, at + len(marker)))
        at = text.find(marker, at + len(marker))
    return found
