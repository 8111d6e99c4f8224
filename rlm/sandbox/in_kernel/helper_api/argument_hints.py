"""Accepts guessed parameter names in helper calls, and answers other wrong calls with the right one."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable
from typing import Any

from .registry import ARGUMENT_ALIASES, Helper

__all__ = ["with_argument_hints"]


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
