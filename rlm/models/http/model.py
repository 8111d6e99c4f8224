"""The base class of every model that is reached over HTTP."""

from __future__ import annotations

import asyncio
from abc import ABC, abstractmethod
from collections.abc import Iterable
from dataclasses import replace
from typing import Any, ClassVar
from weakref import WeakKeyDictionary

from rlm.errors import ConfigurationError
from rlm.models.base import Model, ModelWindow, Reply, Request
from rlm.models.catalog.addresses import is_loopback
from rlm.models.catalog.names import parse_name
from rlm.models.catalog.server_facts import ServerFacts, facts_of_name, remember_facts
from rlm.models.catalog.windows import DEFAULT_WINDOW, window_of
from rlm.models.http.batches import BatchApi
from rlm.models.http.batches.connection import BatchConnection
from rlm.models.http.endpoint import Endpoint
from rlm.models.http.error_mapping import AttemptFailure, ErrorMapper
from rlm.models.http.fact_finder import find_facts
from rlm.models.http.proxy import proxy_to
from rlm.models.http.rate_limit import limiter_of
from rlm.models.http.retry import with_retries
from rlm.models.http.shared_clients import ClientLease, ClientPool
from rlm.models.http.streaming import StreamAccumulator, stream_completion
from rlm.models.listener import ReplyListener
from rlm.models.options import CallSettings, ModelOptions, OnRetry, RetryReason
from rlm.models.registry import PROVIDERS
from rlm.models.structured.portable_schema import PortableSchema
from rlm.models.structured.schema_mode import SchemaMode, merged

__all__ = ["HttpModel", "learn"]


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
        self._provider = _find_provider(self._name, self.prefix)
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
    def facts(self) -> ServerFacts | None:
        """Return what the server reports of this model; None if it was not asked, or reports nothing."""
        return facts_of_name(self._name)

    @property
    def window(self) -> ModelWindow:
        """Return the user's window, else the server's, else the catalog's. A window of the options that is
        not `known` sets the limit of the output alone."""
        given = self._options.window
        if given is not None and given.known:
            return given
        listed = window_of(self._model, self._provider)
        found = None if self.facts is None else self.facts.window(listed if listed.known else DEFAULT_WINDOW)
        window = found or listed
        return window if given is None else replace(window, output=min(given.output, window.context))

    async def learn(self, *, only_here: bool = False) -> None:
        """Ask the server for the facts of this model, if servers of its kind report any and it was not asked
        before. `only_here` asks no other machine. Takes at most some seconds, and raises nothing."""
        spec = PROVIDERS.get(self._provider)
        kind = "server" if self._endpoint.self_run else spec.facts if spec is not None else ""
        asked = (self._name, self._endpoint.base_url)
        if not kind or asked in _answered or (only_here and not is_loopback(self._endpoint.base_url)):
            return
        asking = _asking.setdefault(asyncio.get_running_loop(), {})
        if asked not in asking:
            found = find_facts(self._endpoint, self._model, self._provider, kind, self._options)
            asking[asked] = asyncio.ensure_future(found)
        try:
            # Shielded: runs that begin together wait for the same answer.
            facts = await asyncio.shield(asking[asked])
        finally:
            if asked in asking and asking[asked].done():
                del asking[asked]
        if facts is not None:
            _answered.add(asked)
            remember_facts(self._name, facts)

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


_answered: set[tuple[str, str]] = set()
"""Models, by name and base URL, whose servers have answered. The others are asked again by the next run."""
_asking: WeakKeyDictionary[
    asyncio.AbstractEventLoop, dict[tuple[str, str], asyncio.Future[ServerFacts | None]]
] = WeakKeyDictionary()


def _find_provider(name: str, prefix: str) -> str:
    """Return the provider of a model. A model that was made without `resolve` may have any name."""
    try:
        return parse_name(name).provider
    except ConfigurationError:
        return prefix


async def learn(models: Iterable[Model], *, only_here: bool = False) -> None:
    """Ask the servers of these models for their facts, all at a time."""
    asked = {id(model): model for model in models if isinstance(model, HttpModel)}
    await asyncio.gather(*(model.learn(only_here=only_here) for model in asked.values()))
