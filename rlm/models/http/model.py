"""The base class of every model that is reached over HTTP."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import Any, ClassVar

from rlm.models.base import ModelWindow, Reply, Request
from rlm.models.catalog.windows import window_of
from rlm.models.http.batches import BatchApi
from rlm.models.http.batches.connection import BatchConnection
from rlm.models.http.endpoint import Endpoint
from rlm.models.http.error_mapping import ErrorMapper
from rlm.models.http.proxy import proxy_to
from rlm.models.http.rate_limit import limiter_of
from rlm.models.http.retry import with_retries
from rlm.models.http.shared_clients import ClientLease, ClientPool
from rlm.models.http.streaming import StreamAccumulator, stream_completion
from rlm.models.listener import ReplyListener
from rlm.models.options import ModelOptions, OnRetry, RetryReason

__all__ = ["HttpModel"]


class HttpModel(ABC):
    """Implements Model. A provider adds `body`, `accumulator` and its `clients`.

    Nothing is imported or connected before the first call. `model` is the provider's own name for the model;
    `name` is the one to show, by default `PREFIX:MODEL`.
    """

    prefix: ClassVar[str]
    clients: ClassVar[ClientPool]
    batches: ClassVar[type[BatchApi] | None] = None
    """The provider's batch API, if it has one."""

    def __init__(
        self, model: str, endpoint: Endpoint, *, name: str | None = None, options: ModelOptions | None = None
    ) -> None:
        self._options = options or ModelOptions()
        self._model = model
        self._name = name or f"{self.prefix}:{model}"
        self._endpoint = endpoint
        self._lease = ClientLease(self.clients, endpoint, self._options)
        self._mapper = ErrorMapper(self._name, model, endpoint, proxy_to(endpoint, self._options))

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self._name!r})"

    @abstractmethod
    def body(self, request: Request) -> dict[str, Any]:
        """Build the JSON body that asks for a streamed reply to `request`."""

    @abstractmethod
    def accumulator(self, body: dict[str, Any]) -> StreamAccumulator:
        """Return a new accumulator for the events of one reply to `body`. It keeps no more text than the
        output limit in `body` allows (`BoundedText`)."""

    @property
    def name(self) -> str:
        return self._name

    @property
    def window(self) -> ModelWindow:
        return self._options.window or window_of(self._model)

    async def generate(self, request: Request) -> Reply:
        """Return one reply, collected from its stream, after any retries. Raises ModelError and nothing
        else."""
        body = self.body(request)
        shared = await self._lease.get()
        return await with_retries(
            lambda: stream_completion(
                shared,
                body,
                self.accumulator(body),
                self._mapper,
                max_output_tokens=request.max_output_tokens,
                listener=request.listener,
            ),
            self._options.retry,
            limiter=limiter_of(self._endpoint, self._options.concurrency),
            has_answered=lambda: shared.has_answered,
            on_retry=_both(self._options.on_retry, request.listener),
        )

    def batch_api(self) -> BatchApi | None:
        """Return the batch API of this model. None if the provider has none, or the server is not the
        provider's: nobody knows what it charges."""
        if self.batches is None or self._endpoint.private:
            return None
        connection = BatchConnection(self._lease, self._mapper)
        return self.batches(connection, self.body, self.accumulator)

    async def aclose(self) -> None:
        """Release this model's client; the last model to do so closes the connections. Safe to call twice."""
        await self._lease.aclose()


def _both(on_retry: OnRetry | None, listener: ReplyListener | None) -> OnRetry | None:
    """Return a function that tells the connection's owner and the request's caller of a retry."""
    heard = None if listener is None else listener.on_retry
    if on_retry is None or heard is None:
        return on_retry or heard

    def tell(attempt: int, wait: float, reason: RetryReason) -> None:
        on_retry(attempt, wait, reason)
        heard(attempt, wait, reason)

    return tell
