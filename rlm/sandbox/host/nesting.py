"""How deeply a value is nested."""

from __future__ import annotations

__all__ = ["is_nested_deeper"]


def is_nested_deeper(value: object, limit: int) -> bool:
    """Return whether lists and dicts are nested more than `limit` deep.

    Without recursion: later code, such as a JSON encoder, may recurse through the value.
    """
    level = [value]
    for _ in range(limit + 1):
        level = [
            inner
            for one in level
            if isinstance(one, (list, dict))
            for inner in (one.values() if isinstance(one, dict) else one)
        ]
        if not level:
            return False
    return True
