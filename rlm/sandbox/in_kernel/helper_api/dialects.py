"""The names of other RLM systems for models that know their dialects, made from the helpers.

`context`, `llm_query`, `llm_query_batched`, `llm_batch`, `rlm_query`, `rlm_query_batched`, `FINAL`,
`FINAL_VAR`, `SUBMIT`, `answer`. Every dialect has all of them.
Every call has the bounds of the helper behind it.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, TypeVar

from ..context_handle.handle import Handle
from .children import UnknownSubModel
from .helpers import Finalized, Helpers

__all__ = ["DialectNames"]

_Answers = TypeVar("_Answers")


class DialectNames:
    """The names in one kernel. `before` and `after` are called around each cell."""

    def __init__(self, helpers: Helpers, handle: Handle, namespace: dict[str, Any]) -> None:
        self._helpers = helpers
        self._handle = handle
        self._namespace = namespace
        self._answer: dict[str, Any] = {"content": "", "ready": False}

    def namespace(self) -> dict[str, Any]:
        """Return the functions by name."""
        return {
            "llm_query": self.llm_query,
            "llm_query_batched": self.llm_query_batched,
            "llm_batch": self.llm_query_batched,
            "rlm_query": self.rlm_query,
            "rlm_query_batched": self.rlm_query_batched,
            "FINAL": self.FINAL,
            "FINAL_VAR": self.FINAL_VAR,
            "SUBMIT": self.SUBMIT,
        }

    def variables(self) -> dict[str, Any]:
        """Return the variables that exist from the start."""
        return {"context": None, "answer": self._answer}

    def before(self, info: Any) -> None:
        """Fill `context` for the first cell that names it: before, nothing of the text is in the kernel."""
        code = info.raw_cell or ""
        if "context" in code and self._namespace.get("context") is None:
            try:
                self._namespace["context"] = self._handle.read_all()
            except ValueError as error:
                print(f"`context` is not filled: {error}")  # noqa: T201

    def after(self, _: Any) -> None:
        """Submit `answer` once its `ready` is true."""
        answer = self._namespace.get("answer")
        if not isinstance(answer, dict) or not answer.get("ready"):
            return
        answer["ready"] = False
        try:
            self.FINAL(answer.get("content"))
        except Finalized:
            pass
        except (TypeError, ValueError) as error:
            print(f"`answer` was not accepted: {error}")  # noqa: T201

    def llm_query(self, prompt: str, model: str | None = None) -> str:
        return self._routed(model, self._helpers.sub_query, prompt)

    def llm_query_batched(self, prompts: Sequence[str], model: str | None = None) -> Sequence[str]:
        return self._routed(model, self._helpers.sub_query_map, list(prompts))

    def rlm_query(self, prompt: str, model: str | None = None) -> str:
        return self._routed(model, self._helpers.sub_rlm, prompt)

    def rlm_query_batched(self, prompts: Sequence[str], model: str | None = None) -> Sequence[str]:
        return self._routed(model, self._helpers.sub_rlm_batch, list(prompts))

    def _routed(self, model: str | None, ask: Callable[..., _Answers], asked: Any) -> _Answers:
        """Ask the sub-model of that name, or the default one if this run has none of that name: who knows the
        dialect may name any model."""
        try:
            return ask(asked, model=model)
        except UnknownSubModel:
            return ask(asked)

    def FINAL(self, value: Any) -> None:  # noqa: N802 - the name models know
        self._helpers.finalize(value)

    def FINAL_VAR(self, name: Any) -> None:  # noqa: N802 - the name models know
        if not isinstance(name, str):
            self.FINAL(name)
        name = name.strip("\"' ")
        if name not in self._namespace:
            raise NameError(f"there is no variable {name!r} to finalize: SHOW_VARS() lists them")
        self.FINAL(self._namespace[name])

    def SUBMIT(self, *values: Any, **outputs: Any) -> None:  # noqa: N802 - the name models know
        """Submit one value as it is, and several as a list or by their names."""
        if bool(values) == bool(outputs):
            raise TypeError("give SUBMIT the answer: SUBMIT(answer)")
        given = list(values or outputs.values())
        self.FINAL(given[0] if len(given) == 1 else outputs or given)
