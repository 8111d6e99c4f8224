"""The base class of every model that is reached over HTTP."""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import replace
from typing import Any, ClassVar

from rlm.models.base import ModelWindow, Reply, Request
from rlm.models.call_settings import CallSettings
from rlm.models.catalog.families import thinking_room
from rlm.models.catalog.windows import window_of
from rlm.models.http.concessions import Concessions
from rlm.models.http.endpoint import Endpoint
from rlm.models.http.error_mapping import AttemptFailure, ErrorMapper
from rlm.models.http.proxy import proxy_to
from rlm.models.http.rate_limit import limiter_of
from rlm.models.http.retry import with_retries
from rlm.models.http.shared_clients import ClientLease, ClientPool, SharedClient
from rlm.models.http.streaming import StreamAccumulator, stream_completion
from rlm.models.listener import ReplyListener
from rlm.models.options import ModelOptions, OnRetry, RetryReason
from rlm.models.structured.portable_schema import PortableSchema
from rlm.models.structured.schema_mode import SchemaMode, merged

__all__ = ["HttpModel"]

_MAX_CONCESSIONS = 6
"""Times that one request is sent with something less, before its refusal counts."""


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
        self._concessions = Concessions(self.calls.extra_body)
        self._told: set[str] = set()

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self._name!r})"

    @abstractmethod
    def body(self, request: Request) -> dict[str, Any]:
        """Build the JSON body that asks for a streamed reply to `request`, of at most `self.room(request)`
        tokens. Send `request_body` instead: it has what the user adds, and not what the server refused."""

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
    def calls(self) -> CallSettings:
        """Return the settings of each request."""
        return self._options.calls

    @property
    def window(self) -> ModelWindow:
        known = self._options.window or window_of(self._model)
        output = self.calls.max_output_tokens or known.output
        thinking = thinking_room(self._model, self.calls, known.context)
        return replace(
            known,
            context=known.context - thinking,
            output=min(output, known.output) if known.known and self._options.window is None else output,
            thinking=thinking,
        )

    def room(self, request: Request) -> int:
        """Return the output limit to send: the tokens of the reply's text and of its thinking."""
        thinking = self.window.thinking if request.thinking is None else request.thinking
        room = request.max_output_tokens + thinking
        listed = window_of(self._model)
        return min(room, max(listed.output, request.max_output_tokens)) if listed.known else room

    def request_body(self, request: Request, limit: int | None = None) -> dict[str, Any]:
        """Return the body to send. `limit` is that of a Concession."""
        return self._concessions.apply(self.body(request) | dict(self.calls.extra_body), limit)

    async def generate(self, request: Request) -> Reply:
        """Return one reply, collected from its stream, after any retries. Raises ModelError and nothing
        else."""
        shared = await self._lease.get()
        return await with_retries(
            lambda: self._attempt(shared, request),
            self._options.retry,
            limiter=limiter_of(self._endpoint, self._options.concurrency),
            has_answered=lambda: shared.has_answered,
            on_retry=_both(self._options.on_retry, request.listener),
        )

    async def _attempt(self, shared: SharedClient, request: Request) -> Reply | AttemptFailure:
        """Send the request. If the server refuses a field that is not needed, send it again without."""
        limit: int | None = None
        enforced = self._enforceable(request)
        doubted: tuple[PortableSchema, AttemptFailure] | None = None
        for remaining in reversed(range(_MAX_CONCESSIONS + 1)):
            body = self.request_body(request, limit)
            asked = body if enforced is None else merged(body, self.schema_fields(enforced))
            result = await stream_completion(
                shared,
                asked,
                self.accumulator(asked),
                self._mapper,
                max_output_tokens=self.room(request),
                headers=self.calls.extra_headers,
                listener=request.listener,
            )
            if isinstance(result, Reply):
                if enforced is None and doubted is not None:
                    self._schema_mode.remember(*doubted)
                return result
            if enforced is not None and result.refuses_schema and remaining:
                # A refusal costs nothing, and the prompt holds the schema, too.
                doubted, enforced = (enforced, result), None
                if result.refuses_schema != "perhaps":
                    self._schema_mode.remember(*doubted)
                continue
            if not result.refusal or not remaining:
                return result
            if self._request_changed(body, request, limit):
                continue  # another call has learned of this refusal meanwhile
            conceded = self._concessions.learn(body, result.refusal)
            if conceded is None:
                return result
            limit = conceded.limit
            self.tell_refused(conceded.what, f"{self._endpoint.address} refuses it")
        raise AssertionError("the last attempt returns")

    def _enforceable(self, request: Request) -> PortableSchema | None:
        """Return what the provider is asked to enforce. A user's own fields count before ours."""
        schema = self._schema_mode.schema_of(request)
        fields = {} if schema is None else self.schema_fields(schema)
        return schema if fields and not set(fields) & set(self.calls.extra_body) else None

    def _request_changed(self, body: dict[str, Any], request: Request, limit: int | None) -> bool:
        return self.request_body(request, limit) != body

    def tell_refused(self, what: str, reason: str) -> None:
        """Tell the connection's owner, once, of a setting that is not sent."""
        if what not in self._told and self._options.on_refused is not None:
            self._options.on_refused(f"{self._name} is asked without {what}: {reason}")
        self._told.add(what)

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
