"""Decides how long a provider should keep the root's messages in its prompt cache.

A cache of five minutes costs 1.25 times the price of the input that is written, one of an hour 2 times. Each
reading renews it. Children of one batch keep their shared prefix warm themselves, so only the root can lose
its cache: while a wide batch runs, it is not asked. A lost cache is written again as a whole, so the longer
one pays as soon as one round takes more than five minutes.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import replace

from rlm.models.base import Message

__all__ = ["CacheLifetime"]

_SHORT = 240.0
"""Seconds between two rounds after which a short cache may be gone, with a margin of a minute."""
_SECONDS_A_CHILD = 5.0


class CacheLifetime:
    """The waits between the rounds of one root. `calls` are those of a pass over its whole input, of which
    `concurrency` are in flight."""

    def __init__(self, calls: float, concurrency: int) -> None:
        self._is_long = calls / concurrency * _SECONDS_A_CHILD > _SHORT
        self._last: float | None = None

    def mark(self, messages: Sequence[Message]) -> tuple[Message, ...]:
        """Return the messages of the next round. The stable ones are marked to be kept for long if a round
        took long, or is expected to."""
        now = time.monotonic()
        self._is_long = self._is_long or (self._last is not None and now - self._last > _SHORT)
        self._last = now
        if not self._is_long:
            return tuple(messages)
        return tuple(replace(one, long_lived=True) if one.stable else one for one in messages)
