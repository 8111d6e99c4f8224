"""How providers are reached: time limits, proxy, certificates, retries."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Literal

from rlm.errors import ConfigurationError
from rlm.models.base import ModelWindow

__all__ = ["ModelOptions", "OnRetry", "RetryPolicy", "RetryReason"]

RetryReason = Literal[
    "unreachable", "dropped", "timeout", "rate_limited", "overloaded", "server_error", "conflict", "garbled"
]
"""Why an attempt is made again. `rate_limited` and `overloaded` are the provider's way to say: slower."""

OnRetry = Callable[[int, float, RetryReason], None]
"""Told before each wait: the number of the attempt that failed (from 1), seconds to wait, why."""


@dataclass(frozen=True, slots=True)
class RetryPolicy:
    """When to try again and when to stop. Seconds throughout.

    The wait before attempt n+1 is random between 0 and `base * 2**(n-1)`, at most `cap`; a Retry-After
    comes on top of it, at most `retry_after_cap`. No attempt begins after `total`. While the endpoint
    has never answered, `unreachable_attempts` and `unreachable_total` hold instead.
    """

    attempts: int = 6
    base: float = 0.5
    cap: float = 30.0
    total: float = 300.0
    retry_after_cap: float = 60.0
    unreachable_attempts: int = 3
    unreachable_total: float = 10.0

    def __post_init__(self) -> None:
        if self.attempts < 1 or self.unreachable_attempts < 1:
            raise ConfigurationError("a retry policy needs at least 1 attempt: raise attempts")
        if min(self.base, self.cap, self.total, self.retry_after_cap, self.unreachable_total) < 0:
            raise ConfigurationError("a retry policy holds a negative time: use 0 or more seconds")


@dataclass(frozen=True, slots=True)
class ModelOptions:
    """Settings of one model's connection.

    `connect_seconds` bounds the making of a connection, `idle_seconds` the silence within a reply (models
    that reason may send nothing for minutes). `concurrency` is the most requests that its provider is sent at
    a time, by all models of that endpoint together; it falls while the provider asks for less. `proxy`
    is a URL, else the environment's proxies hold.
    `ca_file` is a PEM file of certificates to trust beside the system's. `window` overrides the shipped
    table. `on_retry` is called from the event loop and must not block.
    """

    connect_seconds: float = 10.0
    idle_seconds: float = 300.0
    concurrency: int = 16
    proxy: str | None = None
    ca_file: str | None = None
    retry: RetryPolicy = field(default_factory=RetryPolicy)
    window: ModelWindow | None = None
    on_retry: OnRetry | None = None

    def __post_init__(self) -> None:
        if self.connect_seconds <= 0 or self.idle_seconds <= 0:
            raise ConfigurationError("a model's time limit must be above 0 seconds: raise it")
        if self.concurrency < 1:
            raise ConfigurationError("a model needs a concurrency of at least 1: raise it")
