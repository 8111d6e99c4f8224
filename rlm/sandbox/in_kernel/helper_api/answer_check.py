"""The form that a block asks its children's answers to have: a schema, and a function that judges them."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import Any

from .children import ChildResult
from .schema_types import json_schema_of
from .typed_values import reader_of

__all__ = ["AnswerForm"]

Check = Callable[[Any, int], Any]

_MAX_REASON = 500
_FORM = "check=lambda value, index: None, or a message that says what is wrong"


class AnswerForm:
    """The form of answers. `schema` is the JSON Schema for the driver, or None.

    Raises TypeError for a schema or a check that cannot be used, before anything is sent.
    """

    def __init__(self, schema: Any = None, check: Any = None) -> None:
        self.schema = None if schema is None else json_schema_of(schema)
        self._reader = None if schema is None else reader_of(schema)
        self._check = _check_of(check)

    def refusal(self, result: ChildResult, index: int) -> str | None:
        """Return why an answer is refused, or None. Its value becomes an instance of the schema's model.

        A failed answer, and one that found nothing, is not judged.
        """
        if self._reader is not None and result.value is not None:
            try:
                result.value = self._reader(result.value)
            except ValueError as error:
                result.value = None
                return f"it does not match the schema {error}" if result.answered else None
        if self._check is None or not result.answered:
            return None
        return _refusal(self._check, str(result) if self.schema is None else result.value, index)


def _check_of(given: Any) -> Check | None:
    """Return `given` as a function of an answer and its position. Raises TypeError for anything else."""
    if given is None:
        return None
    if not callable(given):
        raise TypeError(f"check must be a function, not {given!r:.40}: {_FORM}")
    if inspect.iscoroutinefunction(given):
        raise TypeError(f"check must be a plain function, not an async one: {_FORM}")
    try:
        signature = inspect.signature(given)
    except ValueError:  # some built-in functions have none
        return lambda value, index: given(value)
    for arguments in ((None, 0), (None,)):
        try:
            signature.bind(*arguments)
        except TypeError:
            continue
        return given if len(arguments) == 2 else lambda value, index: given(value)
    raise TypeError(f"check must take the answer and its position: {_FORM}")


def _refusal(check: Check, value: Any, index: int) -> str | None:
    """Return why `check` refuses an answer, or None. A ValueError or a failed assertion refuses, too.

    Any other error is a mistake in the check itself and is raised.
    """
    try:
        said = check(value, index)
    except (ValueError, AssertionError) as error:
        said = str(error) or f"it raised {type(error).__name__}"
    if said is None or said is True or said == "":
        return None
    if said is False:
        return "it returned False"
    if isinstance(said, (list, tuple)) and all(isinstance(one, str) for one in said):
        return "; ".join(said)[:_MAX_REASON] or None
    if not isinstance(said, str):
        raise TypeError(f"check returned {said!r:.40}: {_FORM}")
    return said[:_MAX_REASON]
