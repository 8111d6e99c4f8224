"""A model that answers within 24 hours, at half the price."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Protocol, runtime_checkable
from weakref import WeakKeyDictionary

from rlm.errors import ConfigurationError
from rlm.journal.provider_batches import BatchLedger
from rlm.models.base import Model, ModelWindow, Reply, Request
from rlm.models.batching.gatherer import Gatherer
from rlm.models.batching.policy import BatchingPolicy, OnBatches
from rlm.models.call_settings import CallSettings
from rlm.models.http.batches import BatchApi
from rlm.models.http.rate_limit import Limiter
from rlm.models.http.retry import with_retries
from rlm.models.listener import OnRetry
from rlm.models.options import RetryPolicy
from rlm.models.registry import PROVIDERS

__all__ = ["BatchModel", "SlowModel", "batch_api_of", "make_slow"]

_DAY = 86_400.0


@runtime_checkable
class BatchModel(Protocol):
    """A model whose provider may have a batch API."""

    def batch_api(self) -> BatchApi | None:
        """Return the batch API, or None if the model's server has none."""


class SlowModel:
    """Implements Model. Calls are gathered into batches of the provider; `store` records the batches, so that
    a resumed run finds its replies there. Use `make_slow` to make one."""

    def __init__(
        self,
        model: Model,
        api: BatchApi,
        store: str | Path,
        *,
        policy: BatchingPolicy | None = None,
        on_batches: OnBatches | None = None,
        on_retry: OnRetry | None = None,
    ) -> None:
        self.inner = model
        """The model that answers at once."""
        self.price_share = api.price_share
        self.collects_later = True
        self._api = api
        self._store = store
        self._policy = policy or BatchingPolicy()
        self._on_batches = on_batches
        self._on_retry = on_retry
        self._gatherers: WeakKeyDictionary[asyncio.AbstractEventLoop, Gatherer] = WeakKeyDictionary()
        waits = self._policy.longest_poll
        self._retry = RetryPolicy(self._policy.attempts, base=waits, cap=10 * waits, total=_DAY)

    def __repr__(self) -> str:
        return f"SlowModel({self.inner!r})"

    @property
    def name(self) -> str:
        return self.inner.name

    @property
    def window(self) -> ModelWindow:
        return self.inner.window

    @property
    def calls(self) -> CallSettings:
        """The settings of its calls."""
        return getattr(self.inner, "calls", CallSettings())

    async def generate(self, request: Request) -> Reply:
        """Return the reply, which may take up to 24 hours. A request that failed within its batch for a
        reason that passes is sent again in another one. Raises ModelError and JournalError."""
        gatherer = self._gatherer()
        return await with_retries(
            lambda: gatherer.ask(request),
            self._retry,
            limiter=Limiter(1),
            has_answered=lambda: True,
            on_retry=self._on_retry,
        )

    async def aclose(self) -> None:
        """Stop waiting for the batches. They stay at the provider."""
        gatherer = self._gatherers.pop(asyncio.get_running_loop(), None)
        if gatherer is not None:
            await gatherer.aclose()
        await self.inner.aclose()

    def _gatherer(self) -> Gatherer:
        loop = asyncio.get_running_loop()
        if loop not in self._gatherers:
            self._gatherers[loop] = Gatherer(
                self.name,
                self._api,
                BatchLedger(self._store),
                self._policy,
                on_batches=self._on_batches,
                on_retry=self._on_retry,
            )
        return self._gatherers[loop]


def make_slow(
    model: Model,
    store: str | Path,
    *,
    policy: BatchingPolicy | None = None,
    on_batches: OnBatches | None = None,
    on_retry: OnRetry | None = None,
) -> SlowModel:
    """Return `model` over its provider's batch API. Raises ConfigurationError if there is none."""
    if isinstance(model, SlowModel):
        return model
    api = batch_api_of(model)
    return SlowModel(model, api, store, policy=policy, on_batches=on_batches, on_retry=on_retry)


def batch_api_of(model: Model) -> BatchApi:
    """Return the batch API of a model's provider. Raises ConfigurationError if there is none."""
    api = model.batch_api() if isinstance(model, BatchModel) else None
    if api is None:
        forms = ", ".join(f"{prefix}:NAME" for prefix, spec in PROVIDERS.items() if spec.has_batches)
        raise ConfigurationError(
            f"{model.name} has no batch API, which --slow needs: choose {forms} for every model of the run, "
            "or leave --slow out"
        )
    return api
