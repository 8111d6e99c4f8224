"""Hears of a reply while a model makes it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Literal

from rlm.lazy_dataclass import dataclass

__all__ = ["OnRetry", "ReplyListener", "RetryReason"]

RetryReason = Literal[
    "unreachable", "dropped", "timeout", "rate_limited", "overloaded", "server_error", "conflict", "garbled"
]
"""Why an attempt is retried. `rate_limited` and `overloaded` ask for fewer requests at a time."""

OnRetry = Callable[[int, float, RetryReason], None]
"""Called before each wait with the number of the failed attempt (from 1), the seconds to wait, and the
reason."""


@dataclass(frozen=True, slots=True)
class ReplyListener:
    """What a request's caller wants to hear. The functions are called from the event loop and must not
    block.

    `on_tokens` gets the number of pieces (about a token each) that a reply has brought since its last call,
    at most once a second. `on_text` gets what the text of the reply has grown by, at most every 50 ms, and
    None when an attempt failed after text had come: what came so far is void.
    """

    on_tokens: Callable[[int], None] | None = None
    on_text: Callable[[str | None], None] | None = None
    on_retry: OnRetry | None = None
