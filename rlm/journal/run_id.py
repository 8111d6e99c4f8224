"""The names of runs."""

from __future__ import annotations

import secrets
from datetime import UTC, datetime

__all__ = ["new_run_id"]

# no letters that are read for digits, no vowels that make words
_ALPHABET = "23456789bcdfghjkmnpqrstvwxz"
_LETTERS = 6


def new_run_id(now: datetime | None = None) -> str:
    """A new name such as `20260131-142501-k3f9xz`: UTC time to the second, so that names sort by it, and
    six random characters, so that a batch started in one second has no two alike."""
    moment = (now or datetime.now(UTC)).astimezone(UTC)
    return f"{moment:%Y%m%d-%H%M%S}-" + "".join(secrets.choice(_ALPHABET) for _ in range(_LETTERS))
