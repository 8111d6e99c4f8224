"""The form that a block asks its children's answers to have: Python types as a JSON Schema, and instances.

pydantic does both and is imported when the first type is used that is none of the plainest. Code of a model
runs here, in the kernel. The driver gets a plain JSON Schema without references, which a small model reads
more easily.
"""

from __future__ import annotations

import dataclasses
import enum
import json
from collections.abc import Mapping
from typing import Any, get_args, is_typeddict

from .children import ChildResult

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
ACCEPTED = (
    "Give a JSON Schema, or types: {'name': str, 'tags': [str], 'kind': Literal['a', 'b'], "
    "'size': int | None, 'by': {'first': str}}, or a pydantic model or dataclass"
)
_MAX_PARTS = 2_000
"""Parts of one schema, once its references are replaced: they may double with each level."""
_ONE = ("items", "additionalProperties", "propertyNames", "not")
_MANY = ("anyOf", "oneOf", "allOf", "prefixItems")
_PLAIN = frozenset(
    {"type", "enum", "const", "required", "default", "description", "minimum", "maximum", "exclusiveMinimum"}
    | {"exclusiveMaximum", "minLength", "maxLength", "minItems", "maxItems", "minProperties", "maxProperties"}
)
_SCHEMA_KEYS = _PLAIN | {"items", "properties", "additionalProperties", "title"}
_TOLD = {"format": "format: {}", "pattern": "matches the pattern {}", "multipleOf": "a multiple of {}"}
"""Keywords that the model checks here. The child reads them in the description."""


class AnswerForm:
    """The form of answers. `schema` is the JSON Schema for the driver, or None.

    Raises TypeError for a schema that cannot be used, before anything is sent.
    """

    def __init__(self, schema: Any = None) -> None:
        self.schema = None if schema is None else json_schema_of(schema)
        self._given = schema
        self._adapters: dict[int, Any] = {}

    def refusal(self, result: ChildResult) -> str | None:
        """Return why an answer is refused, or None. Its value becomes an instance of the schema's model.

        A failed answer, and one that found nothing, is not judged.
        """
        if self._given is None or result.value is None:
            return None
        try:
            result.value = self._instances(self._given, result.value)
        except ValueError as error:
            result.value = None
            return f"it does not match the schema {error}" if result.answered else None
        return None

    def _instances(self, given: Any, value: Any) -> Any:
        """Return an answer with instances of the models that the schema `given` holds.

        Raises ValueError, with the place and the reason, for a value that a model refuses.
        """
        if isinstance(given, Mapping):
            fields, other, item = given, None, None
            if _is_json_schema(given):
                fields, other = given.get("properties", {}), given.get("additionalProperties")
                item = given.get("items")
            if isinstance(value, Mapping):
                return {name: self._instances(fields.get(name, other), one) for name, one in value.items()}
            return [self._instances(item, one) for one in value] if isinstance(value, list) else value
        if isinstance(given, (list, tuple)):
            is_list = given and isinstance(value, list)
            return [self._instances(given[0], one) for one in value] if is_list else value
        return self._instance(given, value) if _holds_model(given) else value

    def _instance(self, model: Any, value: Any) -> Any:
        from pydantic import TypeAdapter, ValidationError

        adapter = self._adapters.get(id(model))
        if adapter is None:
            adapter = self._adapters[id(model)] = TypeAdapter(model)
        try:
            return adapter.validate_json(json.dumps(value))
        except ValidationError as error:
            first = error.errors(include_url=False, include_input=False)[0]
            at = "".join(f"[{step!r}]" for step in first["loc"]) or "the value"
            raise ValueError(f"at {at}: {first['msg'][:300]}") from None


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
    return _of_type(given, place)


def _of_type(given: Any, place: str) -> Any:
    try:
        if given in _NAMES:
            return dict(_NAMES[given])
    except TypeError:  # it has no hash, so it is no type
        pass
    from pydantic import TypeAdapter
    from pydantic.errors import PydanticUserError

    try:
        return _inlined(TypeAdapter(given).json_schema(), place)
    except (PydanticUserError, NameError) as error:
        kind = f"{given!r:.80}"
        if not isinstance(given, type) and not get_args(given):
            article = "an" if type(given).__name__[0] in "aeiou" else "a"
            kind = f"{article} {type(given).__name__}"
        first = (str(error).splitlines() or [""])[0]
        raise TypeError(f"{place} is {kind}, which is no type of JSON ({first:.200}). {ACCEPTED}") from None


def _is_model(given: Any) -> bool:
    """Return whether `given` is a pydantic model, a dataclass, a TypedDict or an enum."""
    if not isinstance(given, type):
        return False
    return (
        dataclasses.is_dataclass(given)
        or hasattr(given, "__pydantic_core_schema__")
        or issubclass(given, enum.Enum)
        or is_typeddict(given)
    )


def _inlined(schema: Mapping[str, Any], place: str) -> dict[str, Any]:
    """Return `schema` with each reference replaced by what it names. Leaves out what only a model checks.

    Raises TypeError if it contains itself, or becomes too large.
    """
    definitions = schema.get("$defs", {})
    parts = 0

    def inline(one: Any, open_names: tuple[str, ...]) -> Any:
        nonlocal parts
        parts += 1
        if parts > _MAX_PARTS:
            raise TypeError(f"{place} has more than {_MAX_PARTS:,} parts. Ask for less at once.")
        if not isinstance(one, Mapping):
            return one
        name = str(one.get("$ref", "")).removeprefix("#/$defs/")
        if name:
            if name in open_names:
                raise TypeError(
                    f"{place} contains itself ({name}). Give a flat type and build the tree in Python."
                )
            return inline({**definitions[name], **_without(one, "$ref")}, (*open_names, name))
        result: dict[str, Any] = {}
        for key, value in one.items():
            if key in _PLAIN:
                result[key] = value
            elif key in _ONE:
                result[key] = inline(value, open_names)
            elif key in _MANY:
                result[key] = [inline(inner, open_names) for inner in value]
            elif key == "properties":
                result[key] = {field: inline(inner, open_names) for field, inner in value.items()}
        told = [form.format(one[key]) for key, form in _TOLD.items() if key in one]
        if told:
            result["description"] = "; ".join([*filter(None, [one.get("description")]), *told])
        return result

    inlined = inline(_without(schema, "$defs"), ())
    assert isinstance(inlined, dict)
    return inlined


def _is_json_schema(schema: Mapping[str, Any]) -> bool:
    """Return whether a mapping is a JSON Schema that holds a model, and no object of named types."""
    return schema.get("type") in ("array", "object") and set(schema) <= _SCHEMA_KEYS


def _holds_model(given: Any) -> bool:
    if isinstance(given, Mapping):
        return any(map(_holds_model, given.values()))
    if isinstance(given, (list, tuple)):
        return any(map(_holds_model, given))
    return _is_model(given) or any(map(_holds_model, get_args(given)))


def _without(one: Mapping[str, Any], name: str) -> dict[str, Any]:
    return {key: value for key, value in one.items() if key != name}
