"""The base class of every model that is reached over HTTP."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import Any, ClassVar

from rlm.models.base import ModelWindow, Reply, Request
from rlm.models.catalog.windows import window_of
from rlm.models.http.endpoint import Endpoint
from rlm.models.http.error_mapping import AttemptFailure, ErrorMapper
from rlm.models.http.proxy import proxy_to
from rlm.models.http.rate_limit import limiter_of
from rlm.models.http.retry import with_retries
from rlm.models.http.shared_clients import ClientLease, ClientPool
from rlm.models.http.streaming import StreamAccumulator, stream_completion
from rlm.models.listener import ReplyListener
from rlm.models.options import CallSettings, ModelOptions, OnRetry, RetryReason
from rlm.models.structured.portable_schema import PortableSchema
from rlm.models.structured.schema_mode import SchemaMode, merged

__all__ = ["HttpModel"]


class HttpModel(ABC):
    """Implements Model. A provider adds `body`, `accumulator` and its `clients`.

    Nothing is imported or connected before the first call. `model` is the provider's own name for the model;
    `name` is the one to show, by default `PREFIX:MODEL`.
    """

    prefix: ClassVar[str]
    clients: ClassVar[ClientPool]

    def __init__(
        self, model: str, endpoint: Endpoint, *, name: str | None = None, options: ModelOptions | None = None
    ) -> None:
        self._options = options or ModelOptions()
        self._model = model
        self._name = name or f"{self.prefix}:{model}"
        self._endpoint = endpoint
        self._lease = ClientLease(self.clients, endpoint, self._options)
        self._schema_mode = SchemaMode(endpoint, model)
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

    def schema_fields(self, schema: PortableSchema) -> dict[str, Any]:
        """Return the fields of a body that make the provider enforce `schema`: none if it cannot."""
        return {}

    @property
    def name(self) -> str:
        return self._name

    @property
    def provider_model(self) -> str:
        """Return the provider's own name for the model."""
        return self._model

    @property
    def endpoint(self) -> Endpoint:
        return self._endpoint

    @property
    def calls(self) -> CallSettings:
        """Return what every call asks for."""
        return self._options.calls

    @property
    def window(self) -> ModelWindow:
        return self._options.window or window_of(self._model)

    async def generate(self, request: Request) -> Reply:
        """Return one reply, collected from its stream, after any retries. Raises ModelError and nothing
        else."""
        body = self.body(request)
        shared = await self._lease.get()

        async def ask(asked: dict[str, Any]) -> Reply | AttemptFailure:
            return await stream_completion(
                shared,
                asked,
                self.accumulator(asked),
                self._mapper,
                max_output_tokens=request.max_output_tokens,
                listener=request.listener,
            )

        async def attempt() -> Reply | AttemptFailure:
            schema = self._schema_mode.schema_of(request)
            fields = {} if schema is None else self.schema_fields(schema)
            if schema is None or not fields:
                return await ask(body)
            result = await ask(merged(body, fields))
            if isinstance(result, Reply) or not result.refuses_schema:
                return result
            # A refusal costs nothing. The prompt holds the schema, too, so the reply can be had without.
            plain = await ask(body)
            if result.refuses_schema != "perhaps" or isinstance(plain, Reply):
                self._schema_mode.remember(schema, result)
            return plain

        return await with_retries(
            attempt,
            self._options.retry,
            limiter=limiter_of(self._endpoint, self._options.concurrency),
            has_answered=lambda: shared.has_answered,
            on_retry=_both(self._options.on_retry, request.listener),
        )

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
