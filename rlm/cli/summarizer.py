"""A model as a synchronous function that summarizes a history."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager

from rlm.models import resolve
from rlm.models.base import Message, Request

__all__ = ["summarizer"]

_WINDOW_PARTS = 8  # a summary takes at most an eighth of the model's window


@contextmanager
def summarizer(model: str, env: Mapping[str, str]) -> Iterator[Callable[[str], str]]:
    """Give a function from prompt to summary that asks `model`. It must not run inside an event loop.

    Raises ConfigurationError for a bad name or a missing key. The function raises ModelError.
    """
    resolved = resolve(model, env)
    max_tokens = min(resolved.window.output, resolved.window.context // _WINDOW_PARTS)

    def summarize(prompt: str) -> str:
        request = Request("summary", (Message("user", prompt),), max_tokens, task="")
        return runner.run(resolved.generate(request)).text

    with asyncio.Runner() as runner:
        try:
            yield summarize
        finally:
            runner.run(resolved.aclose())
