"""Accepts guessed parameter names in helper calls, and answers other wrong calls with the right one."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable
from typing import Any

from .registry import Helper

__all__ = ["ARGUMENT_ALIASES", "with_argument_hints"]

ARGUMENT_ALIASES: dict[str, tuple[str, ...]] = {
    "pattern": ("query", "regex"),
    "max_hits": ("limit", "n", "k", "top_k", "max", "max_results", "max_matches"),
    "context": ("window", "context_chars"),
    "lines": ("window", "context", "n", "line_count"),
    "where": ("hit", "hits", "offset", "position", "place", "span"),
    "text": ("quote", "passage", "sentence"),
    "within": ("where", "document", "span", "section", "inside", "region"),
    "query": ("pattern", "text", "question", "statement"),
    "k": ("n", "top_k", "limit", "max_hits", "max_results"),
    "max_chars": ("size", "chunk_size", "chunk_chars", "max_size"),
    "by": ("unit", "split_by"),
    "pages": ("page", "slice", "slices", "document", "image", "images"),
    "answers": ("results", "findings", "items"),
    "key": ("by", "keys"),
    "params": ("parameters", "args", "values"),
    "prompt": ("question", "query", "task"),
    "slice": ("text", "context", "chunk", "source"),
    "slices": ("chunks", "texts", "contexts", "items"),
    "prompts": ("questions", "queries", "tasks"),
    "source": ("text", "context", "slice"),
    "sources": ("texts", "contexts", "slices"),
    "value": ("answer", "result"),
    "evidence": ("citations", "quotes", "sources"),
}
"""Names that models use instead of a parameter's own. A guessed name is accepted if it stands for exactly one
parameter of the helper that is not given otherwise."""


def with_argument_hints(helper: Helper, function: Callable[..., Any]) -> Callable[..., Any]:
    """Wrap `function` so that wrong arguments raise TypeError with the right call of `helper`."""
    names = tuple(inspect.signature(function).parameters)

    @functools.wraps(function)
    def call(*args: Any, **given: Any) -> Any:
        for name in [name for name in given if name not in names]:
            meant = [
                own
                for own in names[len(args) :]
                if name in ARGUMENT_ALIASES.get(own, ()) and own not in given
            ]
            if len(meant) != 1:
                raise TypeError(f"{helper.name}() takes no {name!r}. Call {helper.call}.")
            given[meant[0]] = given.pop(name)
        try:
            return function(*args, **given)
        except TypeError as error:
            if error.__traceback__ is None or error.__traceback__.tb_next is not None:
                raise
            # The call itself is wrong: the helper has not run.
            said = str(error).rpartition(".")[2]
            raise TypeError(f"{said}. Call {helper.call}.") from None

    # Where `help` finds it.
    call.entry = helper  # type: ignore[attr-defined]
    return call
