"""A model as the summariser of a history: a prompt in, a summary out, for callers that don't await."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager

from rlm.models import resolve
from rlm.models.base import Message, Request

__all__ = ["summarizer"]

_SHARE_OF_WINDOW = 8  # a summary is asked to be no longer than an eighth of what the model could read


@contextmanager
def summarizer(model: str, env: Mapping[str, str]) -> Iterator[Callable[[str], str]]:
    """Answers prompts with the model of that name while the block lasts. Raises ConfigurationError (name,
    key) at once; what the provider raises comes out of the call. Not for use inside an event loop."""
    asked = resolve(model, env)
    most = min(asked.window.output, asked.window.context // _SHARE_OF_WINDOW)

    def summarize(prompt: str) -> str:
        request = Request("summary", (Message("user", prompt),), most, task="")
        return runner.run(asked.generate(request)).text

    with asyncio.Runner() as runner:
        try:
            yield summarize
        finally:
            runner.run(asked.aclose())
