"""Answers a wrong call of a helper with the right one."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable
from typing import Any

from .registry import Helper

__all__ = ["with_argument_hints"]


def with_argument_hints(helper: Helper, function: Callable[..., Any]) -> Callable[..., Any]:
    """Wrap `function` so that wrong arguments raise TypeError with the right call of `helper`.

    The docstring of the result is what Python's `help` prints in a cell.
    """
    names = frozenset(inspect.signature(function).parameters)

    @functools.wraps(function)
    def call(*args: Any, **given: Any) -> Any:
        for name in given:
            if name not in names:
                raise TypeError(f"{helper.name}() takes no {name!r}. Call {helper.call}.")
        try:
            return function(*args, **given)
        except TypeError as error:
            if error.__traceback__ is None or error.__traceback__.tb_next is not None:
                raise
            # The call itself is wrong: the helper has not run.
            said = str(error).rpartition(".")[2]
            raise TypeError(f"{said}. Call {helper.call}.") from None

    call.__doc__ = f"{inspect.getdoc(function)}\n\nExample:\n{helper.example}"
    # Without annotations, as the prompt shows it.
    call.__signature__ = _bare(inspect.signature(function))  # type: ignore[attr-defined]
    return call


def _bare(signature: inspect.Signature) -> inspect.Signature:
    parameters = [one.replace(annotation=one.empty) for one in signature.parameters.values()]
    return signature.replace(parameters=parameters, return_annotation=signature.empty)
