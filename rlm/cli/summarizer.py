"""A model as a synchronous function that summarizes a history."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from rlm.models.base import Message, Model, Request

__all__ = ["summarizer"]

_WINDOW_PARTS = 8  # a summary takes at most an eighth of the model's window


@contextmanager
def summarizer(model: Model) -> Iterator[tuple[Callable[[str], str], int]]:
    """Give a function from prompt to summary that asks `model`, and the tokens that its prompt may have. It
    must not run inside an event loop. The function raises ModelError.
    """
    max_tokens = min(model.window.output, model.window.context // _WINDOW_PARTS)

    def summarize(prompt: str) -> str:
        request = Request("summary", (Message("user", prompt),), max_tokens, task="")
        return runner.run(model.generate(request)).text

    with asyncio.Runner() as runner:
        try:
            yield summarize, model.window.context - max_tokens
        finally:
            runner.run(model.aclose())
