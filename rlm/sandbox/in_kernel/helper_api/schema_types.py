"""The form that a block asks its children's answers to have: Python types as a JSON Schema."""

from __future__ import annotations

import types
from collections.abc import Mapping, Sequence
from typing import Annotated, Any, Literal, Union, get_args, get_origin

from .children import ChildResult
from .typed_values import is_model, model_schema, reader_of

__all__ = ["AnswerForm", "json_schema_of"]

_MAX_DEPTH = 50
_NAMES: Mapping[Any, dict[str, Any]] = {
    str: {"type": "string"},
    int: {"type": "integer"},
    float: {"type": "number"},
    bool: {"type": "boolean"},
    list: {"type": "array"},
    tuple: {"type": "array"},
    dict: {"type": "object"},
    type(None): {"type": "null"},
    Any: {},
}
_ARRAYS = (list, set, frozenset, tuple, Sequence)
ACCEPTED = (
    "Give a JSON Schema, or types: {'name': str, 'tags': [str], 'kind': Literal['a', 'b'], "
    "'size': int | None, 'by': {'first': str}}, or a pydantic model or dataclass"
)


class AnswerForm:
    """The form of answers. `schema` is the JSON Schema for the driver, or None.

    Raises TypeError for a schema that cannot be used, before anything is sent.
    """

    def __init__(self, schema: Any = None) -> None:
        self.schema = None if schema is None else json_schema_of(schema)
        self._reader = None if schema is None else reader_of(schema)

    def refusal(self, result: ChildResult) -> str | None:
        """Return why an answer is refused, or None. Its value becomes an instance of the schema's model.

        A failed answer, and one that found nothing, is not judged.
        """
        if self._reader is None or result.value is None:
            return None
        try:
            result.value = self._reader(result.value)
        except ValueError as error:
            result.value = None
            return f"it does not match the schema {error}" if result.answered else None
        return None


def json_schema_of(schema: Any) -> Any:
    """Return `schema` with each Python type in it replaced by its JSON Schema.

    A schema without types is returned as it is: dicts, lists, texts, numbers, None. Raises TypeError that
    names the place of anything else, and what is accepted.
    """
    return _convert(schema, "schema", 0)


def _convert(given: Any, place: str, level: int) -> Any:
    if level > _MAX_DEPTH:
        raise TypeError(f"{place[:100]} is nested deeper than {_MAX_DEPTH} levels. {ACCEPTED}")
    if given is None or isinstance(given, (str, bool, int, float)):
        return given
    if isinstance(given, Mapping):
        wrong = next((key for key in given if not isinstance(key, str)), None)
        if wrong is not None:
            raise TypeError(f"{place} has the key {wrong!r}, which is no str. {ACCEPTED}")
        return {key: _convert(value, f"{place}[{key!r}]", level + 1) for key, value in given.items()}
    if isinstance(given, (list, tuple)):
        return [_convert(value, f"{place}[{number}]", level + 1) for number, value in enumerate(given)]
    return _of_type(given, place, level)


def _of_type(given: Any, place: str, level: int) -> Any:
    try:
        if given in _NAMES:
            return dict(_NAMES[given])
    except TypeError:  # it has no hash, so it is no type
        pass
    if is_model(given):
        return model_schema(given, place)
    origin, inside = get_origin(given), get_args(given)
    if origin is Annotated:
        return model_schema(given, place)
    if origin is Literal:
        return {"enum": list(inside)}
    if origin in (Union, types.UnionType):
        return {"anyOf": [_convert_type(one, place, level) for one in inside]}
    if origin is dict and inside[0] is str:
        return {"type": "object", "additionalProperties": _convert_type(inside[1], place, level)}
    if origin is tuple:
        inside = inside[:1] if len(inside) == 2 and inside[1] is ... else ()
    if origin in _ARRAYS and len(inside) == 1:
        return {"type": "array", "items": _convert_type(inside[0], place, level)}
    kind = f"the type {given.__name__}" if isinstance(given, type) and origin is None else f"{given!r:.80}"
    if origin is None and not isinstance(given, type):
        article = "an" if type(given).__name__[0] in "aeiou" else "a"
        kind = f"{article} {type(given).__name__}"
    raise TypeError(f"{place} is {kind}, which is no type of JSON. {ACCEPTED}")


def _convert_type(given: Any, place: str, level: int) -> Any:
    """Return the JSON Schema of a type within another one, where None stands for null."""
    return _convert(type(None) if given is None else given, place, level + 1)
