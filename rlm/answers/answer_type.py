"""Reads the type that an answer must have and the JSON value of a reply, and checks the one by the other."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from inspect import isfunction
from typing import Any, Literal

from rlm.errors import UsageError
from rlm.sandbox.host.daemon_thread import run_in_daemon_thread
from rlm.sandbox.host.requests import is_nested_deeper
from rlm.sandbox.in_kernel.schema_types import json_schema_of

__all__ = ["MAX_VALUE_CHARS", "AnswerType", "SchemaError", "parse_reply", "size_of"]

_MAX_SCHEMA_CHARS = 20_000
"""The schema is a part of every child's prompt."""
SECONDS = 2.0
"""Seconds of computing to read a schema, and to check a value."""

MAX_VALUE_CHARS = 1_000_000
"""Characters of a checked value as JSON."""
_MAX_DEPTH = 100
"""Levels of lists and objects within each other, in a schema and in a checked value."""
_FENCE = re.compile(r"```(?:json)?[ \t]*\n", re.IGNORECASE)
_CLOSING_FENCE = re.compile(r"^[ \t]*+```", re.MULTILINE)


class SchemaError(Exception):
    """An invalid schema, or an answer that does not match one. The message is one line for a model."""


Author = Literal["cell", "caller", "pydantic"]


class AnswerType:
    """The type of an answer: a JSON Schema of draft 2020-12 that refers only to itself. `text` is it in a
    prompt.

    `given` is such a schema or its short form (`{"name": str, "tags": [str]}`), or a type that pydantic
    supports: a model, a dataclass, `list[int]`. Raises UsageError for anything else.
    """

    def __init__(self, given: Any) -> None:
        self._adapter: Any = None
        try:
            if isinstance(given, (Mapping, list)):
                self.schema, self.text = _read(json_schema_of(given), "caller")
            else:
                self._adapter = _adapter_of(given)
                self.schema, self.text = _read(self._adapter.json_schema(), "pydantic")
        except TypeError as error:
            raise UsageError(str(error)) from error
        except SchemaError as error:
            raise UsageError(f"schema: {error}") from error

    @classmethod
    async def of_cell(cls, given: Any) -> AnswerType:
        """Read a schema that a model wrote, off the event loop. An unknown keyword is a mistake of it.
        Raises SchemaError."""
        made = cls.__new__(cls)
        made._adapter = None
        made.schema, made.text = await run_in_daemon_thread(lambda: _read(given, "cell"), name="rlm-schema")
        return made

    @property
    def is_text(self) -> bool:
        """Return whether a plain text is a valid answer."""
        try:
            self._check("text")
        except SchemaError:
            return False
        return True

    async def check(self, value: Any) -> None:
        """Raise SchemaError, with the place of the fault, if a JSON value is not of this type, or if that is
        not known in 2 s of computing."""
        await run_in_daemon_thread(lambda: self._check(value, takes_turns=True), name="rlm-schema")

    async def read(self, reply: str) -> Any:
        """Return the JSON value in a reply. Raises SchemaError if it is not of this type."""
        value = parse_reply(reply)
        await self.check(value)
        return value

    def parsed(self, value: Any) -> Any:
        """Convert a checked value to the caller's Python type, if there is one."""
        if self._adapter is None:
            return value
        from pydantic import ValidationError

        try:
            return self._adapter.validate_json(json.dumps(value))
        except ValidationError as error:
            first = error.errors(include_url=False, include_input=False)[0]
            place = "".join(f"[{step!r}]" for step in first["loc"]) or "the value"
            raise SchemaError(
                f"The value does not match the schema at {place}: {first['msg'][:300]}"
            ) from error

    def _check(self, value: Any, *, takes_turns: bool = False) -> None:
        from rlm.answers.bounded_validator import TooLong, find_fault, limited

        size_of(value)
        try:
            with limited(SECONDS, takes_turns=takes_turns):
                fault = find_fault(self.schema, value)
        except TooLong as error:
            raise SchemaError(
                f"The value could not be checked against the schema in {SECONDS:g} s. Give a smaller value."
            ) from error
        except RecursionError as error:
            raise SchemaError("The value is nested too deeply.") from error
        except (ArithmeticError, ValueError) as error:
            # For example `multipleOf` with a number of 400 digits.
            raise SchemaError(f"The value cannot be compared with the schema: {error!s:.200}") from error
        if fault is not None:
            raise SchemaError(f"The value does not match the schema at {fault}")
        self.parsed(value)


def _adapter_of(given: Any) -> Any:
    """Return pydantic's adapter of a type that JSON can represent. Raises UsageError."""
    from pydantic import TypeAdapter
    from pydantic.errors import PydanticUserError

    try:
        if isfunction(given):
            raise PydanticUserError("a function is not a type", code=None)
        adapter = TypeAdapter(given)
        adapter.json_schema()
    except PydanticUserError as error:
        first = str(error).splitlines()[0]
        raise UsageError(
            f"schema {given!r} is not a type that JSON can represent ({first}). Give a pydantic model or a "
            "JSON Schema"
        ) from error
    return adapter


def _read(given: Any, author: Author) -> tuple[Mapping[str, Any], str]:
    """Return the JSON Schema that `given` is or stands for, and its text. Raises SchemaError.

    An unknown keyword is a mistake of a cell, and of another tool's from a caller. What pydantic writes has
    regular expressions of its own, which only pydantic checks.
    """
    # jsonschema takes 50 ms to import, and most runs have no schema.
    from rlm.answers import bounded_validator as validator

    _text_of(given)
    try:
        with validator.limited(SECONDS, takes_turns=author == "cell"):
            schema = _expand(given, "it")
            schema.pop("$id", None)  # a name to fetch it by
            text = _text_of(schema)
            fault = validator.find_schema_fault(
                schema, strict=author == "cell", patterns=author != "pydantic"
            )
            if fault is None:
                # Shows references without an end before any reply is paid for.
                validator.find_fault(schema, None)
    except validator.TooLong as error:
        raise SchemaError(f"it takes more than {SECONDS:g} s of computing. Make it simpler") from error
    except RecursionError as error:
        raise SchemaError("it is nested too deeply, or refers to itself without an end") from error
    if fault is not None:
        raise SchemaError(f"it is no JSON Schema: {fault}")
    if schema and not validator.CHECKED & set(schema):
        raise SchemaError(f"it says nothing of a value: no key of it ({', '.join(schema)}) is a keyword")
    return schema, text


def _text_of(given: Any) -> str:
    if is_nested_deeper(given, _MAX_DEPTH):
        raise SchemaError(f"it is nested deeper than {_MAX_DEPTH} levels. Flatten it")
    try:
        text = json.dumps(given, ensure_ascii=False, allow_nan=False)
    except (TypeError, ValueError) as error:
        raise SchemaError(f"it is not JSON: {error}") from error
    if len(text) > _MAX_SCHEMA_CHARS:
        raise SchemaError(f"it has {len(text):,} characters; {_MAX_SCHEMA_CHARS:,} are the limit")
    return text


_JSON_TYPES = ("string", "integer", "number", "boolean", "array", "object", "null")
_PYTHON_TYPES = ("str", "int", "float", "bool", "list", "dict", "None")
_TYPES = dict(zip(_PYTHON_TYPES, _JSON_TYPES, strict=True)) | dict(zip(_JSON_TYPES, _JSON_TYPES, strict=True))
_ACCEPTED = (
    "Give a JSON Schema, or types: 'str', 'int', 'float', 'bool', 'list', 'dict', None, ['str'] for a list "
    "of texts, {'name': 'str', 'tags': ['str']} for an object with these keys"
)


def _expand(given: Any, place: str) -> dict[str, Any]:
    """Return the JSON Schema that `given` is or stands for. All keys of an object are required.

    `{"a": "int"}` is an object, `["str"]` an array of texts, `"int"` and None are types. A mapping is a JSON
    Schema if all its keys are keywords and at least one has a value that fits.
    """
    from rlm.answers.bounded_validator import KEYWORDS

    if given is None:
        return {"type": "null"}
    if isinstance(given, str) and given in _TYPES:
        return {"type": _TYPES[given]}
    if isinstance(given, (list, tuple)):
        if len(given) != 1:
            raise SchemaError(f"{place} is a list of {len(given)} types, and a list has one. {_ACCEPTED}")
        return {"type": "array", "items": _expand(given[0], f"{place}[0]")}
    if not isinstance(given, Mapping):
        raise SchemaError(f"{place} is {given!r:.60}, which is no type. {_ACCEPTED}")
    if _is_schema(given):
        return dict(given)
    try:
        properties = {name: _expand(value, f"{place}[{name!r:.60}]") for name, value in given.items()}
    except SchemaError:
        if KEYWORDS & set(given):
            return dict(given)  # a JSON Schema with a fault: its own check tells
        raise
    return {"type": "object", "properties": properties, "required": list(given)}


def _is_schema(given: Mapping[str, Any]) -> bool:
    from rlm.answers.bounded_validator import CHECKED, KEYWORDS, find_schema_fault

    if set(given) != {"type"} and all(isinstance(one, str) and one in _TYPES for one in given.values()):
        return not given
    if not all(key in KEYWORDS or key.startswith(("$", "x-")) for key in given):
        return False
    return any(
        key in CHECKED and find_schema_fault({key: value}, resolve=False) is None
        for key, value in given.items()
    )


# The JSON value of a reply


def parse_reply(reply: str) -> Any:
    """Return the JSON value of a reply, or of its first fenced block.

    Raises SchemaError for anything else, and for a value that is too large, too deep, or not finite.
    """
    opened = _FENCE.search(reply)
    closed = None if opened is None else _CLOSING_FENCE.search(reply, opened.end())
    text = reply if opened is None or closed is None else reply[opened.end() : closed.start()]
    if len(text) > MAX_VALUE_CHARS:
        raise _too_large(len(text))
    try:
        value = _DECODER.decode(text)
    except (ValueError, RecursionError) as error:
        raise SchemaError(
            f"Your last answer was not JSON ({error}); answer with the JSON value alone."
        ) from error
    size_of(value)
    return value


def size_of(value: Any) -> int:
    """Return the characters of `value` as JSON. Raises SchemaError if it is too large or too deep, or has a
    number that JSON cannot hold."""
    if is_nested_deeper(value, _MAX_DEPTH):
        raise SchemaError(f"The value is nested deeper than {_MAX_DEPTH} levels. Flatten it.")
    try:
        size = len(json.dumps(value, ensure_ascii=False, allow_nan=False))
    except ValueError as error:
        raise SchemaError(f"The value has a number that JSON cannot hold ({error}).") from error
    if size > MAX_VALUE_CHARS:
        raise _too_large(size)
    return size


def _too_large(size: int) -> SchemaError:
    return SchemaError(
        f"The value has {size:,} characters as JSON; {MAX_VALUE_CHARS:,} are the limit. Give less."
    )


def _refuse_constant(name: str) -> None:
    raise ValueError(f"{name} is not JSON")


_DECODER = json.JSONDecoder(parse_constant=_refuse_constant)
