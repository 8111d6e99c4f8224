"""The base class of every model that is reached over HTTP."""

from __future__ import annotations

import asyncio
import json
import threading
from abc import ABC, abstractmethod
from collections.abc import Iterable
from dataclasses import replace
from typing import TYPE_CHECKING, Any, ClassVar
from weakref import WeakKeyDictionary

from rlm.errors import ConfigurationError
from rlm.models.base import (
    Model,
    ModelWindow,
    Reply,
    ReplyListener,
    Request,
)
from rlm.models.call_settings import CallSettings, Effort
from rlm.models.catalog.addresses import is_loopback
from rlm.models.catalog.families import effort_of_tokens, family_of, thinking_room
from rlm.models.catalog.info import DEFAULT_WINDOW, ModelInfo, reported_info, window_of
from rlm.models.catalog.names import parse_name
from rlm.models.http.accumulator import StreamAccumulator
from rlm.models.http.concessions import Concessions
from rlm.models.http.endpoint import Endpoint, encode_json
from rlm.models.http.errors import AttemptFailure, ErrorMapper
from rlm.models.http.fact_finder import find_facts
from rlm.models.http.proxy import proxy_to
from rlm.models.http.rate_limit import limiter_of
from rlm.models.http.retry import with_retries
from rlm.models.http.sessions import SessionLease, import_http
from rlm.models.http.streaming import EventDecoder, StreamDecoder, collect_reply
from rlm.models.options import ModelOptions
from rlm.models.registry import PROVIDERS
from rlm.models.structured import PortableSchema, merged, portable

if TYPE_CHECKING:
    from rlm.models.http.session import HttpResponse, HttpSession

__all__ = ["HttpModel", "import_early", "learn"]

_MAX_CONCESSIONS = 6
"""Times that one request is sent with something less, before its refusal counts."""


class HttpModel(ABC):
    """Implements Model. A provider adds `path`, `body` and `accumulator`, and what differs of the
    rest.

    Nothing is imported or connected before the first call. `model` is the provider's own name for the model;
    `name` is the one to show, by default `PREFIX:MODEL`.
    """

    prefix: ClassVar[str]
    path: ClassVar[str]
    """Where calls go, below the base URL."""
    stream_type: ClassVar[str] = "event-stream"
    """A part of the media type of a reply's stream."""

    def __init__(
        self, model: str, endpoint: Endpoint, *, name: str | None = None, options: ModelOptions | None = None
    ) -> None:
        self._options = options or ModelOptions()
        self._model = model
        self._name = name or f"{self.prefix}:{model}"
        self._provider = _find_provider(self._name, self.prefix)
        self._endpoint = endpoint
        self._lease = SessionLease(endpoint, self._options)
        proxy, secrets = proxy_to(endpoint, self._options), self.calls.headers.values()
        self.mapper = ErrorMapper(self._name, model, endpoint, proxy, secrets)
        self._concessions = Concessions(self.calls.body)
        self._told: set[str] = set()

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self._name!r})"

    @abstractmethod
    def body(self, request: Request) -> dict[str, Any]:
        """Build the JSON body that asks for a streamed reply to `request`, of at most `self.room(request)`
        tokens. Send `request_body` instead: it has what the user adds, and not what the server refused."""

    def make_decoder(self) -> StreamDecoder:
        """Return what decodes a reply's stream."""
        return EventDecoder()

    @abstractmethod
    def accumulator(self, body: dict[str, Any]) -> StreamAccumulator:
        """Return a new accumulator for the events of one reply to `body`. It keeps no more text than the
        output limit in `body` allows (`BoundedText`)."""

    def headers(self) -> dict[str, str]:
        """Return the headers of every request, the key among them."""
        return {"Authorization": f"Bearer {self._endpoint.key}"}

    async def route(self, body: dict[str, Any]) -> tuple[str, dict[str, str], bytes]:
        """Return the URL, the headers and the content of the request that carries `body`. Raises Unsigned
        where it needs credentials that are not there."""
        return self._url + self.path, self.headers(), encode_json(body).encode()

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
    def _url(self) -> str:
        return self._endpoint.base_url.rstrip("/")

    @property
    def endpoint(self) -> Endpoint:
        return self._endpoint

    @property
    def calls(self) -> CallSettings:
        """Return what every call asks for."""
        return self._options.calls

    @property
    def facts(self) -> ModelInfo | None:
        """Return what the server reports of this model; None if it was not asked, or reports nothing."""
        return reported_info.get(self._name)

    @property
    def window(self) -> ModelWindow:
        """Return the window without the room for thinking: field by field what the user says, else what the
        server, else what the catalogue says."""
        whole, most = self._whole_window, self._most
        thinking = thinking_room(self._model, self.calls, whole.context)
        output = self.calls.output or whole.output
        if most is not None:
            # Both count against the provider's limit, and thinking must leave the text its room.
            most = max(most, whole.output)
            thinking = min(thinking, most // 2)
            output = min(output, most - thinking)
        return replace(whole, context=whole.context - thinking, output=output, thinking=thinking)

    @property
    def _whole_window(self) -> ModelWindow:
        window = self._listed_window
        if self.facts is not None:
            window = self.facts.apply_to_window(window)
        return self._options.info.apply_to_window(window)

    @property
    def _most(self) -> int | None:
        """Return the most tokens that the provider allows for a reply and its thinking; None if unknown."""
        listed = self._listed_window.output
        return None if listed <= DEFAULT_WINDOW.output else listed

    @property
    def _listed_window(self) -> ModelWindow:
        return window_of(self._model, self._provider)

    def room(self, request: Request) -> int:
        """Return the output limit to send: the tokens of the reply's text and of its thinking."""
        thinking = self.window.thinking if request.thinking is None else request.thinking
        room = request.max_output_tokens + thinking
        return room if self._most is None else min(room, max(self._most, request.max_output_tokens))

    def effort(self, request: Request) -> Effort | None:
        """Return the effort to ask for: none at all if the user allows no thinking, else that of the request,
        of the user, or nearest to the user's number of tokens. None leaves it to the provider."""
        calls = self.calls
        if calls.thinking == 0:
            return "none"
        takes_effort = calls.thinking is not None and family_of(self._model).style != "none"
        return (
            request.effort
            or calls.effort
            or (effort_of_tokens(calls.thinking or 0) if takes_effort else None)
        )

    def request_body(self, request: Request, limit: int | None = None) -> dict[str, Any]:
        """Return the body to send. `limit` is that of a Concession."""
        return self._concessions.apply(merged(self.body(request), self.calls.body), limit)

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
            reported_info[self._name] = facts

    async def generate(self, request: Request) -> Reply:
        """Return one reply, collected from its stream, after any retries. Raises ModelError and nothing
        else."""
        session = await self._lease.get()
        self._tell(self._endpoint.note)
        return await with_retries(
            lambda: self._attempt(session, request),
            self._options.retry,
            limiter=limiter_of(self._endpoint, self._options.concurrency),
            has_answered=lambda: session.has_answered,
            on_retry=None if request.listener is None else request.listener.on_retry,
        )

    async def _attempt(self, session: HttpSession, request: Request) -> Reply | AttemptFailure:
        """Send the request. If the server refuses a field that is not needed, send it again without: a
        refusal costs nothing."""
        limit: int | None = None
        fields = self._schema_fields_of(request)
        refused = None
        for remaining in reversed(range(_MAX_CONCESSIONS + 1)):
            plain = self.request_body(request, limit)
            body = merged(plain, fields)
            result = await self._send(session, request, body)
            if isinstance(result, Reply):
                if refused is not None and len(_refused_schemas) < _MAX_REFUSED:
                    _refused_schemas.add(refused)
                return result
            if fields and remaining and result.refuses_schema and "effort" not in result.refusal:
                # The prompt holds the schema, too. If the reply comes without, the schema was the reason.
                refused, fields = self._schema_key(fields), {}
                continue
            if not remaining or not result.refusal:
                return result
            if self.request_body(request, limit) != plain:
                continue  # another call has learned of this refusal meanwhile
            conceded = self._concessions.learn(body, result.refusal)
            if conceded is None:
                return result
            limit = conceded.limit
            self.tell_refused(conceded.what, f"{self._endpoint.address} refuses it")
        raise AssertionError("the last attempt returns")

    def _schema_fields_of(self, request: Request) -> dict[str, Any]:
        """Return the fields that make the provider enforce the schema of the reply: none if there is none, if
        it cannot or has refused to; a user's own fields win."""
        schema = None if request.schema is None else portable(request.schema)
        fields = {} if schema is None else self.schema_fields(schema)
        is_refused = bool(set(fields) & set(self.calls.body)) or self._schema_key(fields) in _refused_schemas
        return {} if is_refused else fields

    def _schema_key(self, fields: dict[str, Any]) -> tuple[str, str, str]:
        return self._endpoint.base_url, self._model, json.dumps(fields)

    async def _send(
        self, session: HttpSession, request: Request, body: dict[str, Any]
    ) -> Reply | AttemptFailure:
        try:
            url, headers, content = await self.route(body)
            response = await session.send(url, headers, content, extra_headers=self.calls.headers)
        except Exception as error:  # the boundary to the provider: it may send anything
            return self.mapper.map_exception(error)
        return await collect_reply(
            response,
            self.make_decoder(),
            self.stream_type,
            self.accumulator(body),
            self.mapper,
            max_output_tokens=self.room(request),
            listener=request.listener or ReplyListener(),
        )

    async def exchange(self, path: str, headers: dict[str, str], **sent: Any) -> HttpResponse:
        """Send a request to another path of the provider, as HttpSession.send does."""
        session = await self._lease.get()
        return await session.send(self._url + path, self.headers() | headers, **sent)

    def tell_refused(self, what: str, reason: str) -> None:
        """Tell the connection's owner, once, of a setting that is not sent."""
        self._tell(f"{self._name} is asked without {what}: {reason}")

    def _tell(self, line: str) -> None:
        if line and line not in self._told and self._options.on_refused is not None:
            self._options.on_refused(line)
        self._told.add(line)

    async def aclose(self) -> None:
        """Release this model's connections; the last model to do so closes them. Safe to call twice."""
        await self._lease.aclose()


_MAX_REFUSED = 1_000
_refused_schemas: set[tuple[str, str, str]] = set()
"""Refused schemas, by base URL, model and fields. They hold for all models of this process: a server would
else be asked in vain by each run."""
_answered: set[tuple[str, str]] = set()
"""Models, by name and base URL, whose servers have answered. The others are asked again by the next run."""
_asking: WeakKeyDictionary[
    asyncio.AbstractEventLoop, dict[tuple[str, str], asyncio.Future[ModelInfo | None]]
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


def import_early(models: Iterable[Model]) -> None:
    """Start a thread that imports what the first calls of `models` need, and return at once. Meanwhile a run
    loads its input and starts its kernel."""
    called = (getattr(model, "inner", model) for model in models)
    if any(isinstance(model, HttpModel) for model in called):
        # A daemon, so that a run which ends before its first call does not wait for it.
        threading.Thread(target=import_http, daemon=True).start()
