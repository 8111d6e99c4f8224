"""Check the words of a supervisor and of a broker. A broker may be as hostile as its kernel."""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Mapping
from typing import Any

from rlm.sandbox.in_kernel import wire
from rlm.sandbox.launch.outputs import (
    MESSAGE_LIMIT,
    REPORT_LIMIT,
    RESULT_LIMIT,
    STREAM_LIMITS,
    TRACEBACK_LIMIT,
)

__all__ = ["checked_event"]

_NAME = 200
_DETAIL = 10_000
_MAX_LAYERS = 100
_MAX_SECONDS = 1e9
_MAX_COMPUTED = 3_600.0  # seconds in one report
_MAX_NUMBER = 2**53
_MAX_LEVEL = 3


def checked_event(message: Mapping[str, Any], events: Collection[str]) -> dict[str, Any]:
    """Return an event with the fields of its kind, and no others. Texts are cut to their limits.

    `events` are the kinds that the sender may send. Raises WireError for another one, and for a field that is
    missing, of another type, or out of range.
    """
    kind = message.get("event")
    fields = _FIELDS[kind] if isinstance(kind, str) and kind in events else None
    if fields is None:
        raise wire.WireError("an unknown event")
    try:
        return {"event": kind, **{name: check(message[name]) for name, check in fields.items()}}
    except (KeyError, ValueError) as error:
        raise wire.WireError(f"a malformed {kind} ({error})") from error


def _text(limit: int) -> Callable[[Any], str]:
    def check(value: Any) -> str:
        if not isinstance(value, str):
            raise ValueError("no text")
        return value[:limit]

    return check


def _optional_text(limit: int) -> Callable[[Any], str | None]:
    text = _text(limit)
    return lambda value: None if value is None else text(value)


def _number(most: int) -> Callable[[Any], int]:
    def check(value: Any) -> int:
        if not isinstance(value, int) or isinstance(value, bool) or not 0 <= value <= most:
            raise ValueError("no number in its range")
        return value

    return check


def _seconds(value: Any) -> float:
    # Compared before it is converted: a whole number may have thousands of digits.
    if isinstance(value, bool) or not isinstance(value, int | float) or not 0 <= value <= _MAX_SECONDS:
        raise ValueError("no seconds")
    seconds = float(value)
    if not math.isfinite(seconds):
        raise ValueError("no seconds")
    return seconds


def _computed_seconds(value: Any) -> float:
    seconds = _seconds(value)
    if seconds > _MAX_COMPUTED:
        raise ValueError("more than can be computed in that time")
    return seconds


def _flag(value: Any) -> bool:
    if not isinstance(value, bool):
        raise ValueError("no flag")
    return value


def _layers(value: Any) -> dict[str, str]:
    if not isinstance(value, dict) or len(value) > _MAX_LAYERS:
        raise ValueError("no layers")
    text = _text(_DETAIL)
    return {name[:_NAME]: text(reason) for name, reason in value.items()}


def _some_layers(value: Any) -> dict[str, str]:
    layers = _layers(value)
    if not layers:
        raise ValueError("no layer is named")
    return layers


_FIELDS: Mapping[str, Mapping[str, Callable[[Any], Any]]] = {
    "confined": {"level": _number(_MAX_LEVEL), "layers": _layers},
    "computing": {"seconds": _computed_seconds},
    "connected": {},
    "ended": {},
    "interrupted": {},
    "refused": {"failed": _some_layers},
    "failed": {"detail": _text(_DETAIL)},
    "died": {"detail": _text(_DETAIL), "complaint": _text(_DETAIL)},
    "result": {
        "id": _number(_MAX_NUMBER),
        "ok": _flag,
        "stdout": _text(STREAM_LIMITS["stdout"]),
        "stderr": _text(STREAM_LIMITS["stderr"]),
        "result": _optional_text(RESULT_LIMIT),
        "report": _text(REPORT_LIMIT),
        "seconds": _seconds,
        "ename": _text(_NAME),
        "evalue": _text(MESSAGE_LIMIT),
        "traceback": _text(TRACEBACK_LIMIT),
    },
}
