"""Questions asked without an event loop, and `completion` as users of `rlms` know it."""

from __future__ import annotations

import asyncio
from abc import ABC, abstractmethod
from collections.abc import Coroutine, Mapping
from typing import TYPE_CHECKING, Any, TypeVar

from rlm.errors import UsageError
from rlm.prompts.templates import table
from rlm.results import RunResult

if TYPE_CHECKING:
    from rlm.documents import Context

__all__ = ["Completions"]

_LONGEST_QUESTION = 4_000
"""Characters. A longer prompt without a question is a text that holds one."""

_T = TypeVar("_T")


class Completions(ABC):
    """The ways to ask `run` a question that differ only in how they are called."""

    @abstractmethod
    async def run(
        self, task: str, context: Context | None = None, *, schema: Any = None, run_id: str | None = None
    ) -> RunResult:
        """Answer `task` over `context`."""

    @abstractmethod
    async def aclose(self) -> None:
        """Close the models' connections."""

    def run_sync(self, task: str, context: Context | None = None, *, schema: Any = None) -> RunResult:
        """Call `run` without an event loop. Raises UsageError inside one (a notebook): await `run` there."""
        _refuse_loop("run_sync", "run")
        return asyncio.run(self._then_close(self.run(task, context, schema=schema)))

    async def acompletion(
        self, prompt: Context, root_prompt: str | None = None, *, schema: Any = None
    ) -> RunResult:
        """Answer `root_prompt` over the text `prompt`, as `RLM.acompletion` of rlms does: `run` with its
        arguments in another order.

        Without a `root_prompt`, the prompt holds the question: a short text is the question; of messages
        (`{"role": …, "content": …}`) it is the last one; in a longer text the model looks for it. Raises what
        `run` raises."""
        if root_prompt is not None:
            return await self.run(root_prompt, prompt, schema=schema)
        task, context = _question_in(prompt)
        return await self.run(task, context, schema=schema)

    def completion(self, prompt: Context, root_prompt: str | None = None, *, schema: Any = None) -> RunResult:
        """Call `acompletion` without an event loop. Raises UsageError inside one (a notebook): await
        `acompletion` there."""
        _refuse_loop("completion", "acompletion")
        return asyncio.run(self._then_close(self.acompletion(prompt, root_prompt, schema=schema)))

    async def _then_close(self, running: Coroutine[Any, Any, _T]) -> _T:
        try:
            return await running
        finally:
            await self.aclose()


def _refuse_loop(name: str, other: str) -> None:
    try:
        asyncio.get_running_loop()
    except RuntimeError:
        return
    raise UsageError(f"{name} was called inside an event loop (a notebook?): use `await rlm.{other}(...)`")


def _question_in(prompt: Context) -> tuple[str, Context | None]:
    """Return the question that a prompt holds, and the text to answer it from."""
    if isinstance(prompt, str) and len(prompt) <= _LONGEST_QUESTION:
        from rlm.documents import sources_of

        sources_of(prompt)  # refuses a path
        return prompt, None
    if isinstance(prompt, list | tuple) and prompt and all(map(_is_message, prompt)):
        *earlier, last = prompt
        question = last["content"]
        if len(question) <= _LONGEST_QUESTION:
            return question, earlier or None
        return table("tasks.toml")["question_within"], [*earlier, last] if earlier else question
    return table("tasks.toml")["question_within"], prompt


def _is_message(value: Any) -> bool:
    return isinstance(value, Mapping) and "role" in value and isinstance(value.get("content"), str)
