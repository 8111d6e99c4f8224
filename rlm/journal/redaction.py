"""Redaction of secrets anywhere in a payload."""

from __future__ import annotations

import json
import mmap
import re
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

__all__ = ["BLANK", "Redaction", "secrets_of"]

BLANK = "[redacted]"
# Local servers accept any key, and people write `none`, `ollama`, `EMPTY`. Blanking such words would damage
# the journal and protect nothing.
_SHORTEST = 8


class Redaction:
    """The values that must never be written. Values under 8 characters are ignored."""

    def __init__(self) -> None:
        self._values: set[str] = set()
        self._pattern: re.Pattern[str] | None = None
        self._in_json: re.Pattern[str] | None = None

    def add(self, values: Iterable[str]) -> None:
        """Blank each of `values` from now on."""
        self._values.update(value for value in map(str.strip, values) if len(value) >= _SHORTEST)
        longest_first = sorted(self._values, key=len, reverse=True)  # one may be a prefix of another
        if longest_first:
            self._pattern = re.compile("|".join(map(re.escape, longest_first)))
            escaped = (json.dumps(value)[1:-1] for value in longest_first)
            self._in_json = re.compile("|".join(map(re.escape, escaped)))

    def occurs_in(self, file: Path) -> bool:
        """Return whether the file holds any of the values, in UTF-8. Raises OSError."""
        values = [value.encode("utf-8", "surrogateescape") for value in self._values]
        if not values or not file.stat().st_size:
            return False
        with file.open("rb") as stream, mmap.mmap(stream.fileno(), 0, access=mmap.ACCESS_READ) as body:
            return any(body.find(value) >= 0 for value in values)

    def may_occur_in(self, text: str) -> bool:
        """Return whether an ASCII JSON text may hold any of the values. Much faster than `blank`."""
        return self._in_json is not None and self._in_json.search(text) is not None

    def blank(self, value: Any) -> Any:
        """Return `value`, a JSON-like structure, with every secret in its strings and keys replaced."""
        pattern = self._pattern
        if pattern is None:
            return value
        if isinstance(value, str):
            return pattern.sub(BLANK, value)
        if isinstance(value, Mapping):
            return {self.blank(key): self.blank(item) for key, item in value.items()}
        if isinstance(value, (list, tuple)):
            return [self.blank(item) for item in value]
        return value


_SECRET_WORDS = ("KEY", "TOKEN", "SECRET", "PASSWORD", "AUTHORIZATION", "HEADERS")


def secrets_of(environment: Mapping[str, str]) -> list[str]:
    """Return the values of environment variables whose names suggest a secret.

    A name that ends in _HOST says where a key may go: blanking it would blank the servers in names of models.
    """
    return [
        value
        for name, value in environment.items()
        if any(word in name.upper() for word in _SECRET_WORDS)
        and not name.upper().endswith("_HOST")
        and value.strip()
    ]
