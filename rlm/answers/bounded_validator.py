"""Applies a JSON Schema to a value. Both may be hostile: any check ends within its seconds of computing.

jsonschema's validator does it. Each keyword looks at a clock before it is applied. Keywords that could take
long at once work differently here: regular expressions are RE2's, equal items are found by a hash, and
alternatives do not keep their faults. Nothing is fetched: a reference names a part of the same schema.

All alternatives are tried, because pydantic tries all members of a union, without a limit: what passes here
in time is read by pydantic in time, too.
"""

from __future__ import annotations

import json
import math
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from functools import lru_cache
from typing import Any

import re2
from jsonschema import Draft202012Validator, FormatChecker, ValidationError
from jsonschema.validators import extend
from jsonschema_specifications import REGISTRY  # type: ignore[import-untyped]
from referencing import Registry
from referencing.exceptions import Unresolvable
from referencing.jsonschema import DRAFT202012

__all__ = ["CHECKED", "KEYWORDS", "TooLong", "find_fault", "find_schema_fault", "limited"]

_MAX_MATCHING = 200_000_000
"""Steps of one regular expression, of about 10 ns each: the size of its program times the text's length."""

_MOMENT = 0.02
"""Seconds of computing that a check may take at once."""

_turn = threading.Lock()
_clock: ContextVar[_Clock] = ContextVar("clock")

Check = Callable[[Any, Any, Any, Any], Iterator[ValidationError] | None]


class TooLong(Exception):
    """The check was not done in time."""


class _Clock:
    """The time of one check. With `takes_turns`, only one check at a time computes for longer than a moment:
    long ones do not hold up short ones, nor together the event loop."""

    def __init__(self, seconds: float, takes_turns: bool) -> None:
        now = time.thread_time()
        self._end = now + seconds
        self._moment = now + (_MOMENT if takes_turns else seconds)
        self._has_turn = False

    def look(self) -> None:
        """Wait for the turn, if it is time for that. Raises TooLong."""
        now = time.thread_time()
        if now > self._end:
            raise TooLong
        if now > self._moment and not self._has_turn:
            _turn.acquire()
            self._has_turn = True

    def close(self) -> None:
        """Give the turn to the next check."""
        if self._has_turn:
            _turn.release()


@contextmanager
def limited(seconds: float, *, takes_turns: bool) -> Iterator[None]:
    """Let the checks within take `seconds` of this thread's computing. After that they raise TooLong. Only
    threads that may wait for others can take turns, which an event loop cannot."""
    clock = _Clock(seconds, takes_turns)
    token = _clock.set(clock)
    try:
        yield
    finally:
        _clock.reset(token)
        clock.close()


def find_fault(schema: Any, value: Any) -> str | None:
    """Return the first fault of a value with its place, or None. `schema` has passed `find_schema_fault`.

    Raises TooLong, RecursionError, or ArithmeticError or ValueError for numbers that cannot be compared.
    """
    fault = next(_Validator(schema, registry=Registry()).iter_errors(value), None)
    return None if fault is None else f"{_place_of(fault) or 'the value'}: {fault.message[:300]}"


def find_schema_fault(
    schema: Mapping[str, Any], *, strict: bool = False, resolve: bool = True, patterns: bool = True
) -> str | None:
    """Return why `schema` is not a JSON Schema of draft 2020-12 that refers only to itself, or None.

    `strict`: every keyword must be a known one or begin with "x-". `resolve` is False for a part of a schema,
    which may refer to other parts. Without `patterns` it may have regular expressions that RE2 does not know:
    they are not applied. Raises TooLong or RecursionError.
    """
    formats = FormatChecker(formats=())
    validator = _Validator(_STRICT if strict else _LENIENT, registry=Registry(), format_checker=formats)
    resolver = Registry().resolver_with_root(DRAFT202012.create_resource(schema))
    known: set[str] = set()
    pending: list[str] = []

    @formats.checks("regex", raises=ValueError)
    def is_pattern(pattern: object) -> bool:
        if patterns and isinstance(pattern, str):
            _compile(pattern)
        return True

    @formats.checks("uri-reference")
    def collect(reference: object) -> bool:
        if resolve and isinstance(reference, str) and reference not in known:
            known.add(reference)
            pending.append(reference)
        return True

    parts: list[Any] = [schema]
    while parts:
        fault = next(validator.iter_errors(parts.pop()), None)
        if fault is not None:
            return _explain(fault)
        while pending:
            reference = pending.pop()
            try:
                if not reference.startswith("#"):
                    raise Unresolvable(reference)
                # It may stand where the metaschema expects no schema.
                parts.append(resolver.lookup(reference).contents)
            except (Unresolvable, TypeError, ValueError):
                return f"{reference!r:.200} is not in the schema, and nothing is fetched"
    return None


def _explain(fault: Any) -> str:
    place = _place_of(fault)
    if fault.validator == "not":
        return f"{place} is not supported. Use additionalProperties or items"
    if fault.validator == "additionalProperties":
        names = ", ".join(map(repr, sorted(set(fault.instance) - KEYWORDS)))
        return f"{place or 'it'} has {names:.200}, which is no keyword of JSON Schema"
    return f"{place or 'it'} is wrong: {fault.cause or fault.message!s:.300}"


def _place_of(fault: ValidationError) -> str:
    """Return the place of a fault as subscripts: "['a'][0]"."""
    return "".join(f"[{step!r}]" for step in fault.absolute_path)[:300]


@lru_cache(maxsize=128)
def _compile(pattern: str) -> Any:
    options = re2.Options()
    options.log_errors = False
    try:
        return re2.compile(pattern, options)
    except re2.error as error:
        reason = error.args[0].decode() if error.args and isinstance(error.args[0], bytes) else error
        raise ValueError(f"{pattern!r} is not a regular expression of RE2: {reason}") from error


def _matches(pattern: str, text: str) -> bool:
    _clock.get().look()
    try:
        compiled = _compile(pattern)
    except ValueError:
        return True
    if compiled.programsize * len(text) > _MAX_MATCHING:
        raise TooLong
    return compiled.search(text) is not None


def _pattern(validator: Any, pattern: str, value: Any, _schema: Any) -> Iterator[ValidationError]:
    if isinstance(value, str) and not _matches(pattern, value):
        yield ValidationError(f"{value!r} does not match {pattern!r}")


def _pattern_properties(
    validator: Any, patterns: Mapping[str, Any], value: Any, _schema: Any
) -> Iterator[ValidationError]:
    if isinstance(value, dict):
        for pattern, subschema in patterns.items():
            for name in value:
                if _matches(pattern, name):
                    yield from validator.descend(value[name], subschema, path=name, schema_path=pattern)


def _additional_properties(
    validator: Any, subschema: Any, value: Any, schema: Any
) -> Iterator[ValidationError]:
    if isinstance(value, dict):
        patterns, known = schema.get("patternProperties", ()), schema.get("properties", ())
        rest = {
            name: inner
            for name, inner in value.items()
            if name not in known and not any(_matches(pattern, name) for pattern in patterns)
        }
        yield from Draft202012Validator.VALIDATORS["additionalProperties"](validator, subschema, rest, {})


def _unique_items(_validator: Any, wanted: bool, value: Any, _schema: Any) -> Iterator[ValidationError]:
    if not wanted or not isinstance(value, list):
        return
    if len({json.dumps(item, sort_keys=True) for item in value}) < len(value):
        yield ValidationError(f"{value!r} has non-unique elements")


def _alternatives(most: float) -> Check:
    """Return the check that at least one of the schemas holds, and no more than `most`."""

    def check(validator: Any, subschemas: Any, value: Any, _schema: Any) -> Iterator[ValidationError]:
        # Counted to the last fault of each, as pydantic does.
        count = sum(not sum(1 for _ in validator.descend(value, subschema)) for subschema in subschemas)
        if not count:
            yield ValidationError(f"{value!r} is not valid under any of the given schemas")
        elif count > most:
            yield ValidationError(f"{value!r} is valid under {count} of the given schemas, not under one")

    return check


def _timed(check: Check) -> Check:
    def run(validator: Any, given: Any, value: Any, schema: Any) -> Iterator[ValidationError] | None:
        _clock.get().look()
        return check(validator, given, value, schema)

    return run


_CHECKS: Mapping[str, Check] = {
    **Draft202012Validator.VALIDATORS,
    "pattern": _pattern,
    "patternProperties": _pattern_properties,
    "additionalProperties": _additional_properties,
    "uniqueItems": _unique_items,
    "anyOf": _alternatives(math.inf),
    "oneOf": _alternatives(1),
}
_Validator: Any = extend(  # type: ignore[no-untyped-call]
    Draft202012Validator, {name: _timed(check) for name, check in _CHECKS.items()}
)

_META = Draft202012Validator.META_SCHEMA
_VOCABULARIES = [REGISTRY.resolver(_META["$id"]).lookup(part["$ref"]).contents for part in _META["allOf"]]
KEYWORDS = frozenset(name for part in (_META, *_VOCABULARIES) for name in part["properties"])
"""Every keyword of the draft, those that only describe included."""
CHECKED = frozenset(Draft202012Validator.VALIDATORS)
"""Keywords that say something of a value."""

_NEVER = {"not": True}
# The anchor of the metaschema makes the vocabularies apply these to each schema within a schema.
_LENIENT = {
    **_META,
    "$id": _META["$id"] + "-of-answers",
    # jsonschema has no bound for their memory.
    "properties": {**_META["properties"], "unevaluatedItems": _NEVER, "unevaluatedProperties": _NEVER},
}
_STRICT = {
    **_LENIENT,
    "$id": _META["$id"] + "-of-children",
    "properties": {**dict.fromkeys(KEYWORDS, True), **_LENIENT["properties"]},
    "patternProperties": {"^x-": True},
    "additionalProperties": False,
}
