"""Options of a connection to a provider: timeouts, proxy, certificates, retries."""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import dataclass, field

from rlm.errors import ConfigurationError
from rlm.models.call_settings import CallSettings
from rlm.models.catalog.info import ModelInfo

__all__ = ["ModelOptions", "RetryPolicy"]

_UNREACHABLE_ATTEMPTS = 3
_UNREACHABLE_SECONDS = 10.0


@dataclass(frozen=True, slots=True)
class RetryPolicy:
    """When to retry and when to stop. All times are in seconds.

    The wait before attempt n+1 is random between 0 and `base * 2**(n-1)`, at most `cap`. The provider's
    Retry-After, at most `retry_after_cap`, is added to it. No attempt begins after `total`. An endpoint that
    has never answered is given up after 3 attempts or 10 seconds.
    """

    attempts: int = 6
    base: float = 0.5
    cap: float = 30.0
    total: float = 300.0
    retry_after_cap: float = 60.0

    def pause(self, failed: int, retry_after: float | None) -> float:
        """Return the seconds to wait after `failed` attempts. The whole range is random ("full jitter"), so
        that calls which failed together do not come back together."""
        # Beyond 2**64 any bound is over the cap, and a float would overflow.
        bound = min(self.cap, self.base * 2.0 ** min(failed - 1, 64))
        return self.honored(retry_after) + random.uniform(0.0, bound)  # noqa: S311

    def honored(self, retry_after: float | None) -> float:
        """Return the seconds of a provider's Retry-After that are waited."""
        return min(retry_after or 0.0, self.retry_after_cap)

    def is_over(self, failed: int, seconds: float, *, has_answered: bool) -> bool:
        """Return whether to give up after `failed` attempts. The next one would begin after `seconds`."""
        attempts, total = self.attempts, self.total
        if not has_answered:
            attempts, total = min(attempts, _UNREACHABLE_ATTEMPTS), min(total, _UNREACHABLE_SECONDS)
        return failed >= attempts or seconds > total


@dataclass(frozen=True, slots=True)
class ModelOptions:
    """Settings of one model's connection.

    `idle_seconds` limits the silence within a reply; reasoning models may send nothing for minutes.
    `concurrency` limits the requests in flight at the endpoint, for all its models together; it falls while
    the provider reports rate limits. `proxy` is a URL and replaces the environment's proxies. `ca_file` is a
    PEM file of certificates to trust in addition to the system's. `info` is what the user says of
    the model: it goes before what its server or the catalogue says. `calls` are the settings of each request.
    `on_refused` is called from the event loop and must not block. It gets a line about a setting or a key
    that is not sent, once for each.
    """

    idle_seconds: float = 300.0
    concurrency: int = 16
    proxy: str | None = None
    ca_file: str | None = None
    retry: RetryPolicy = field(default_factory=RetryPolicy)
    info: ModelInfo = field(default_factory=ModelInfo)
    calls: CallSettings = field(default_factory=CallSettings)
    on_refused: Callable[[str], None] | None = None

    def __post_init__(self) -> None:
        if self.idle_seconds <= 0:
            raise ConfigurationError("a model's time limit must be above 0 seconds: raise it")
        if self.concurrency < 1:
            raise ConfigurationError("a model needs a concurrency of at least 1: raise it")
