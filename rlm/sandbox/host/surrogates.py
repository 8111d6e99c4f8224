"""Finds lone surrogates in the arguments of a call.

A Python string may hold half of a surrogate pair, which is not a character. No encoding, database or model
takes it.
"""

from __future__ import annotations

__all__ = ["find_lone_surrogate", "may_hold_surrogates"]


def may_hold_surrogates(frame: bytes) -> bool:
    """Return whether the strings of a JSON text may hold a lone surrogate. Raw UTF-8 cannot hold one."""
    return b"\\ud" in frame or b"\\uD" in frame


def find_lone_surrogate(value: object) -> str | None:
    """Return an excerpt around the first lone surrogate in the strings of a JSON value, or None."""
    waiting = [value]
    while waiting:
        one = waiting.pop()
        if isinstance(one, dict):
            waiting += one.keys()
            waiting += one.values()
        elif isinstance(one, list):
            waiting += one
        elif isinstance(one, str):
            try:
                one.encode()
            except UnicodeEncodeError as error:
                return one[max(0, error.start - 10) : error.start + 10]
    return None
