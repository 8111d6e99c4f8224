"""Parse JSON, and read a recipe's input from it. Errors name the path: `$.packs[3].score`."""

from __future__ import annotations

import json
from collections.abc import Callable, Collection, Mapping, Sequence
from typing import Any, TypeVar

from rlm.prompts.errors import InputError

__all__ = ["Record", "parse_json"]

T = TypeVar("T")

_REQUIRED = object()
_MAX_DEPTH = 100
_KINDS: tuple[tuple[type, str], ...] = (
    (bool, "true or false"),
    (str, "a text"),
    (int, "a whole number"),
    (float, "a number"),
    (Mapping, "an object"),
    (Sequence, "a list"),
)


def _kind(value: object) -> str:
    if value is None:
        return "null"
    return next((name for kind, name in _KINDS if isinstance(value, kind)), type(value).__name__)


def parse_json(data: str | bytes) -> Any:
    """Return the value of a JSON text in UTF-8, UTF-16 or UTF-32.

    Raises ValueError, with one short line, for anything else, and for values that are nested more than 100
    deep: code that walks them would exceed the interpreter's limit of recursion.
    """
    too_deep = f"it is nested more than {_MAX_DEPTH} deep"
    try:
        value = json.loads(data)
    except RecursionError:
        raise ValueError(too_deep) from None
    except json.JSONDecodeError:
        raise
    except UnicodeDecodeError as error:
        raise ValueError(f"it is not UTF-8 ({error.reason} at byte {error.start:,})") from None
    except ValueError:
        raise ValueError("it holds a number with too many digits") from None
    level = [value]
    for _ in range(_MAX_DEPTH):
        level = [
            inner
            for one in level
            if isinstance(one, dict | list)
            for inner in (one.values() if isinstance(one, dict) else one)
            if isinstance(inner, dict | list)
        ]
        if not level:
            return value
    raise ValueError(too_deep)


class Record:
    """An object of the input, at `path`. Every method raises InputError for an invalid value.

    A missing or null key gets its default. A key without a default is required.
    """

    def __init__(self, value: object, path: str = "$", *, what: str = "an object") -> None:
        if not isinstance(value, Mapping):
            raise InputError(path, f"is {_kind(value)}", f"give {what}")
        self.value: Mapping[str, Any] = value
        self.path = path

    def text(self, key: str, default: Any = _REQUIRED) -> str:
        return str(self._check(key, default, lambda value: isinstance(value, str), "a text"))

    def text_or_none(self, key: str) -> str | None:
        return None if self.value.get(key) is None else self.text(key)

    def flag(self, key: str, default: bool) -> bool:
        return bool(self._check(key, default, lambda value: isinstance(value, bool), "true or false"))

    def whole(self, key: str, default: Any = _REQUIRED, *, minimum: int | None = None) -> int:
        wanted = "a whole number" if minimum is None else f"a whole number of at least {minimum}"
        return int(
            self._check(
                key,
                default,
                lambda value: (
                    isinstance(value, int)
                    and not isinstance(value, bool)
                    and (minimum is None or value >= minimum)
                ),
                wanted,
            )
        )

    def whole_or_none(self, key: str, *, minimum: int | None = None) -> int | None:
        return None if self.value.get(key) is None else self.whole(key, minimum=minimum)

    def choice(self, key: str, options: Collection[str], default: Any = _REQUIRED) -> str:
        wanted = f"one of {', '.join(options)}"
        return str(
            self._check(key, default, lambda value: isinstance(value, str) and value in options, wanted)
        )

    def each(self, key: str, read: Callable[[Any, str], T]) -> tuple[T, ...]:
        """Return `read(value, path)` for every entry of the list under `key`. Empty if the key is missing."""
        values = self._check(
            key,
            (),
            lambda value: isinstance(value, Sequence) and not isinstance(value, str | bytes),
            "a list",
        )
        path = f"{self.path}.{key}"
        return tuple(read(value, f"{path}[{place}]") for place, value in enumerate(values))

    def under(self, key: str) -> Record:
        """Return the object under `key`, or an empty one."""
        value = self.value.get(key)
        return Record({} if value is None else value, f"{self.path}.{key}")

    def unknown_keys(self, known: Collection[str]) -> tuple[str, ...]:
        """Return a warning for every key that is not in `known`."""
        return tuple(
            f"{self.path}.{key} is unknown and was ignored; known keys: {', '.join(known)}"
            for key in self.value
            if key not in known
        )

    def _check(self, key: str, default: Any, good: Callable[[Any], bool], wanted: str) -> Any:
        value = self.value.get(key)
        if value is None:
            if default is _REQUIRED:
                raise InputError(f"{self.path}.{key}", "is missing", f"give {wanted}")
            return default
        if not good(value):
            shown = f"is {value!r}" if isinstance(value, int | float) else f"is {_kind(value)}"
            if isinstance(value, str):
                shown = f"is {value[:40]!r}"
            raise InputError(f"{self.path}.{key}", shown, f"give {wanted}")
        return value
