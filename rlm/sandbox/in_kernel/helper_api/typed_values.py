"""Models and dataclasses as the type of an answer: their JSON Schema, and their instances.

pydantic does both and is imported when the first such type is used. Code of a model runs here, in the kernel.
The driver gets a plain JSON Schema without references, which a small model reads more easily.
"""

from __future__ import annotations

import dataclasses
import enum
import json
from collections.abc import Callable, Mapping
from typing import Any, get_args, is_typeddict

__all__ = ["inline_schema", "is_model", "model_schema", "reader_of"]

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


def is_model(given: Any) -> bool:
    """Return whether `given` is a pydantic model, a dataclass, a TypedDict or an enum."""
    if not isinstance(given, type):
        return False
    return (
        dataclasses.is_dataclass(given)
        or hasattr(given, "__pydantic_core_schema__")
        or issubclass(given, enum.Enum)
        or is_typeddict(given)
    )


def model_schema(given: Any, place: str) -> dict[str, Any]:
    """Return the JSON Schema of a model. Raises TypeError if JSON cannot hold it, or it contains itself."""
    from pydantic.errors import PydanticUserError

    try:
        schema = _adapter(given).json_schema()
    except (PydanticUserError, NameError) as error:
        first = (str(error).splitlines() or [""])[0]
        raise TypeError(f"{place} is {given!r:.80}, which is no type of JSON ({first:.200})") from None
    return inline_schema(schema, place)


def inline_schema(schema: Mapping[str, Any], place: str) -> dict[str, Any]:
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


def reader_of(schema: Any) -> Callable[[Any], Any] | None:
    """Return the function that turns an answer into instances of the models in `schema`. None: it has none.

    It raises ValueError, with the place and the reason, for a value that a model refuses.
    """
    if not _holds_model(schema):
        return None
    if isinstance(schema, Mapping) and _is_json_schema(schema):
        return _reader_of_json_schema(schema)
    if isinstance(schema, Mapping):
        readers = {key: reader_of(inner) for key, inner in schema.items()}
        return lambda value: {key: _read(readers.get(key), inner) for key, inner in value.items()}
    if isinstance(schema, (list, tuple)):
        reader = reader_of(schema[0])
        return lambda value: [_read(reader, inner) for inner in value]
    adapter = _adapter(schema)

    def read(value: Any) -> Any:
        from pydantic import ValidationError

        try:
            return adapter.validate_json(json.dumps(value))
        except ValidationError as error:
            first = error.errors(include_url=False, include_input=False)[0]
            at = "".join(f"[{step!r}]" for step in first["loc"]) or "the value"
            raise ValueError(f"at {at}: {first['msg'][:300]}") from None

    return read


def _is_json_schema(schema: Mapping[str, Any]) -> bool:
    """Return whether a mapping is a JSON Schema that holds a model, and no object of named types."""
    return schema.get("type") in ("array", "object") and set(schema) <= _SCHEMA_KEYS


def _reader_of_json_schema(schema: Mapping[str, Any]) -> Callable[[Any], Any]:
    """Return the reader of the models under `items`, `properties` and `additionalProperties`."""
    item, other = (reader_of(schema.get(name)) for name in ("items", "additionalProperties"))
    fields = {name: reader_of(inner) for name, inner in schema.get("properties", {}).items()}

    def read(value: Any) -> Any:
        if isinstance(value, list):
            return [_read(item, inner) for inner in value]
        if isinstance(value, Mapping):
            return {name: _read(fields.get(name, other), inner) for name, inner in value.items()}
        return value

    return read


def _read(reader: Callable[[Any], Any] | None, value: Any) -> Any:
    return value if reader is None else reader(value)


def _holds_model(given: Any) -> bool:
    if isinstance(given, Mapping):
        return any(map(_holds_model, given.values()))
    if isinstance(given, (list, tuple)):
        return any(map(_holds_model, given))
    return is_model(given) or any(map(_holds_model, get_args(given)))


def _adapter(given: Any) -> Any:
    from pydantic import TypeAdapter

    return TypeAdapter(given)


def _without(one: Mapping[str, Any], name: str) -> dict[str, Any]:
    return {key: value for key, value in one.items() if key != name}
