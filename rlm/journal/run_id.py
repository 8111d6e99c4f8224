"""The names of runs."""

from __future__ import annotations

import secrets
from datetime import UTC, datetime

__all__ = ["new_run_id"]

# No letters that look like digits, and no vowels that could form words.
_ALPHABET = "23456789bcdfghjkmnpqrstvwxz"
_LETTERS = 6


def new_run_id(now: datetime | None = None) -> str:
    """Return a new name such as `20260131-142501-k3f9xz`.

    The UTC time makes names sort by age. The six random characters keep the names of a batch distinct.
    """
    moment = (now or datetime.now(UTC)).astimezone(UTC)
    return f"{moment:%Y%m%d-%H%M%S}-" + "".join(secrets.choice(_ALPHABET) for _ in range(_LETTERS))
