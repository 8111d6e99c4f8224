"""What can go wrong in one attempt, and the error and remedy that a user reads: one table for all providers.

An exception of an HTTP library holds the request, and the request holds the key. So a failed attempt becomes
an `AttemptFailure` at the boundary. The ModelError made from it has no cause and no context.
"""

from __future__ import annotations

import re
import ssl
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime
from math import isfinite
from socket import gaierror
from typing import Literal, NamedTuple

from rlm.errors import ModelError, ModelProtocolError, ModelRejected, ModelUnavailable
from rlm.models.base import RetryReason, TokenUsage
from rlm.models.http.endpoint import Endpoint
from rlm.models.http.reply_limits import ReplyTooLarge
from rlm.models.http.wire_messages import field as get
from rlm.models.http.wire_messages import list_in, text_in

__all__ = [
    "AttemptFailure",
    "ErrorMapper",
    "FailureKind",
    "StatusFailure",
    "TransportFailure",
    "Unsigned",
    "error_in",
    "read_error",
]

FailureKind = Literal["unreachable", "silent", "invalid", "dropped"]


class StatusFailure(Exception):
    """The server answered with a status other than success. `body` is its JSON, else its text. The names in
    `headers` are looked up in any case."""

    def __init__(self, status: int, headers: Mapping[str, str], body: object) -> None:
        super().__init__(status)
        self.status = status
        self.headers = headers
        self.body = body


class TransportFailure(Exception):
    """No whole response arrived. The connection was not made (unreachable), nothing more came in time
    (silent), no request can be made from the URL and the headers (invalid), or the connection ended too soon
    (dropped). The cause says why."""

    def __init__(self, kind: FailureKind) -> None:
        super().__init__(kind)
        self.kind = kind


class Unsigned(Exception):
    """A cloud's library has no credentials for a request. The cause says why."""


_DETAIL_CHARS = 200
_LEAST_SECRET = 8
"""Characters of a header's value that may be a secret. A shorter one is blanked nowhere."""
_SECRETS = re.compile(r"(?i)\b(?:bearer\s+|(?:sk|key|pk|gsk|hf|tgp)[-_]|AKIA|ASIA|AIza|ya29\.)[\w.\-*]{8,}")
_TOO_LONG = re.compile(
    r"(?i)context.?(length|window|size)|maximum context|prompt is too long|too many (input )?tokens"
    r"|exceeds? the (available )?context|reduce the length|exceeds? the maximum number of (input )?tokens"
)
_TOO_LONG_KIND = "context_length_exceeded"
_NAMES_SCHEMA = re.compile(
    r"(?i)response.?format|output_(?:config|format)|json.?schema|structured.?output|response.?(?:json.?)?schema"
    r"|\bguided|grammar|text\.format|invalid schema"
)
_SCHEMA_STATUSES = frozenset({400, 404, 415, 422, 500, 501})

# Names of errors within a stream, where the HTTP status is already 200.
_STATUS_OF_KIND = {
    "invalid_request_error": 400,
    "authentication_error": 401,
    "billing_error": 402,
    "permission_error": 403,
    "not_found_error": 404,
    "request_too_large": 413,
    _TOO_LONG_KIND: 413,
    "rate_limit_error": 429,
    "rate_limit_exceeded": 429,
    "insufficient_quota": 429,
    "api_error": 500,
    "server_error": 500,
    "timeout_error": 504,
    "overloaded_error": 529,
    # Bedrock's, within its stream of events
    "validationException": 400,
    "accessDeniedException": 403,
    "resourceNotFoundException": 404,
    "modelTimeoutException": 408,
    "throttlingException": 429,
    "internalServerException": 500,
    "modelStreamErrorException": 500,
    "serviceUnavailableException": 503,
}
_NO_CREDIT = {"insufficient_quota", "billing_error"}


class _Row(NamedTuple):
    """An error and its remedy. With a `reason`, a retry may succeed. `quotes` adds the provider's words."""

    error: type[ModelError]
    what: str
    remedy: str
    reason: RetryReason | None = None
    quotes: bool = True


def _rejected(what: str, remedy: str, *, quotes: bool = True) -> _Row:
    return _Row(ModelRejected, what, remedy, quotes=quotes)


def _unavailable(what: str, remedy: str, reason: RetryReason | None = None) -> _Row:
    return _Row(ModelUnavailable, what, remedy, reason)


def _broken(what: str, remedy: str, reason: RetryReason | None = None) -> _Row:
    return _Row(ModelProtocolError, what, remedy, reason)


_LATER = "try again later, or with fewer calls at a time"
_NETWORK = "check the network and the provider's status"
_API = "check that the base URL is that of this provider's API"
_ERRORS: dict[int | str, _Row] = {
    300: _rejected("{url} redirects", "set the base URL to where the API really is", quotes=False),
    400: _rejected("{address} refuses the request", "correct what it names, or choose another model"),
    # Never quote the provider where it refuses the key: some repeat parts of it.
    401: _rejected(
        "the key in {variable} is refused by {address}", "set {variable} to a valid key", quotes=False
    ),
    402: _rejected(
        "the account has no credit left", "add credit with the provider, or set {variable} to another key"
    ),
    403: _rejected("the key in {variable} may not use this model", "ask for access, or choose another model"),
    404: _rejected("{address} knows no model {model!r}", "check the model's name{v1_hint}"),
    408: _unavailable("{address} timed out", _LATER, "timeout"),
    409: _unavailable("{address} reports a conflict", _LATER, "conflict"),
    413: _rejected(
        "the prompt is longer than the model takes",
        "send smaller slices, or choose a model with a larger window",
    ),
    429: _unavailable("{address} limits the rate of requests", _LATER, "rate_limited"),
    500: _unavailable("{address} has an internal error", _LATER, "server_error"),
    503: _unavailable("{address} is overloaded", _LATER, "overloaded"),
    504: _unavailable("{address} timed out", _LATER, "timeout"),
    529: _unavailable("{address} is overloaded", _LATER, "overloaded"),
    "no key": _rejected("{address} wants a key, and none is set for it", "{key_remedy}"),
    "no credentials": _rejected("no credentials for {address}", "{credentials_remedy}"),
    "silent": _unavailable("{address} fell silent", _NETWORK, "timeout"),
    "dropped": _unavailable("{address} ended the reply before it was whole", _NETWORK, "dropped"),
    "invalid": _rejected("no valid HTTP request can be made for {url}", "check the base URL and {variable}"),
    "certificate": _unavailable(
        "the certificate of {address} is not trusted",
        "set ca_file to the PEM file of the authority that signed it",
    ),
    "unknown host": _unavailable("the host of {address} is not known", "{reach_remedy}", "unreachable"),
    "refused": _unavailable("nothing listens at {address}", "{reach_remedy}", "unreachable"),
    "unreachable": _unavailable("{address} can't be reached", "{reach_remedy}", "unreachable"),
    "garbled": _broken("{address} sent what its protocol does not allow ({given})", _API, "garbled"),
    "too large": _broken("{address} sent {given}, more than a reply holds", _API),
    "wrong type": _broken(
        "{url} answers with {given!r}, not with a stream of events", "check the base URL{v1_hint}"
    ),
    "no batch": _rejected(
        "the batch {given} is not known to the provider (404)",
        "use the key of the account that sent it, or rlm runs waiting --forget to send its calls again",
    ),
    "no result": _broken("the batch ended without a result for this request", "ask again"),
    "unanswered": _unavailable(
        "the batch {given} before this request was answered", "ask again later, or without --slow"
    ),
    "batch too small": _broken(
        "a request of {given} bytes is larger than a batch may be", "send smaller slices"
    ),
}
"""All errors, by HTTP status or by a word of ours. A status that is not here has the hundreds of its own."""


_CAUSES: tuple[tuple[type[BaseException], str], ...] = (
    (ssl.SSLError, "certificate"),
    (gaierror, "unknown host"),
    (ConnectionRefusedError, "refused"),
    (BaseException, "unreachable"),
)
_REFUSALS = (400, 404, 413, 422)
"""Statuses of a request that may pass without one of its fields."""


@dataclass(frozen=True, slots=True)
class AttemptFailure:
    """One failed attempt. `reason` is None when a retry would fail the same way. `retry_after` is the
    provider's own wish, in seconds. `spent` is what it will charge for an incomplete reply. `status` is the
    HTTP status, 0 without one. `refusal` is what a server says is wrong with the request itself, if it does.
    `refuses_schema` tells that the schema of the reply may be what was refused."""

    error: type[ModelError]
    what: str
    remedy: str
    reason: RetryReason | None = None
    retry_after: float | None = None
    spent: TokenUsage = field(default_factory=TokenUsage)
    refusal: str = ""
    refuses_schema: bool = False
    status: int = 0

    def final(self, attempts: int, seconds: float, spent: TokenUsage | None = None) -> ModelError:
        """Return the error to raise when no attempt is left. `spent` is the usage of all attempts."""
        tried = f" ({attempts} attempts in {seconds:.1f} s)" if attempts > 1 else ""
        return self.error(f"{self.what}{tried}; {self.remedy}", spent=spent)


class ErrorMapper:
    """Describes failures of the model `name` at `endpoint`: in one line, the remedy last, never with the key
    or one of the other `secrets`."""

    def __init__(
        self,
        name: str,
        model: str,
        endpoint: Endpoint,
        proxy: str | None = None,
        secrets: Iterable[str] = (),
    ) -> None:
        self._name = name
        self._secrets = (endpoint.key, *(secret for secret in secrets if len(secret) >= _LEAST_SECRET))
        self._model = model
        self._endpoint = endpoint
        self._proxied = proxy is not None

    @property
    def name(self) -> str:
        """The name of the model."""
        return self._name

    def map_status(
        self, status: int, *, kinds: tuple[str, ...] = (), detail: str = "", headers: Mapping[str, str]
    ) -> AttemptFailure:
        """Map an HTTP status other than success. `kinds` are the error's type and code in the body."""
        is_too_long = _TOO_LONG_KIND in kinds or _TOO_LONG.search(detail) is not None
        key: int | str = status if status in _ERRORS else max(300, min(status // 100 * 100, 500))
        if status in {401, 403} and self._endpoint.key_remedy:
            key = "no key"
        elif _NO_CREDIT.intersection(kinds):
            key = 402
        elif key == 400 and is_too_long:
            key = 413
        failure = self.describe(key, status=status, detail=detail)
        return replace(
            failure,
            status=status,
            retry_after=None if failure.reason is None else _read_retry_after(headers),
            refuses_schema=_may_refuse_schema(status, kinds, detail),
        )

    def map_stream_error(self, kinds: tuple[str, ...], detail: str) -> AttemptFailure:
        """Map an error event within a stream. An unknown kind counts as an error of the server, because the
        request had been accepted."""
        statuses = [_STATUS_OF_KIND[kind] for kind in kinds if kind in _STATUS_OF_KIND]
        statuses += [int(kind) for kind in kinds if kind.isdigit() and 400 <= int(kind) < 600]
        return self.map_status(statuses[0] if statuses else 500, kinds=kinds, detail=detail, headers={})

    def map_exception(self, error: Exception) -> AttemptFailure:
        """Map what sending a request, or reading its response, raised: anything, because a provider may send
        anything."""
        if isinstance(error, StatusFailure):
            kinds, detail = read_error(error.body)
            failure = self.map_status(error.status, kinds=kinds, detail=detail, headers=error.headers)
            if error.status not in _REFUSALS:
                return failure
            refusal = " ".join(_words(error.body))[:_REFUSAL_CHARS]
            return replace(failure, refusal=self._strip_secrets(refusal or detail))
        if isinstance(error, TransportFailure):
            return self._map_transport(error)
        if isinstance(error, ReplyTooLarge):  # no honest server sends it, so it is not asked for again
            return self.describe("too large", given=str(error))
        if isinstance(error, Unsigned):
            cause = error.__cause__ or error
            lines = str(cause).strip().splitlines() or [type(cause).__name__]
            failure = self.describe("no credentials", detail=lines[0])
            # A library of credentials asks a server of its own, and says where that may work later.
            return replace(failure, reason="server_error") if getattr(cause, "retryable", False) else failure
        return self.describe("garbled", given=type(error).__name__)

    def _map_transport(self, failure: TransportFailure) -> AttemptFailure:
        if failure.kind != "unreachable":
            return self.describe(failure.kind)
        links = list(_walk_chain(failure))
        return self.describe(
            next(name for kind, name in _CAUSES if any(isinstance(link, kind) for link in links))
        )

    def map_wrong_type(self, content_type: str) -> AttemptFailure:
        """Map a success that is not a stream of events, most often a web page."""
        return self.describe("wrong type", given=self._clean(content_type))

    def describe(
        self, key: int | str, *, status: int = 0, detail: str = "", given: str = ""
    ) -> AttemptFailure:
        """Return the failure of a row of the table. `detail` are the provider's words."""
        row, endpoint = _ERRORS[key], self._endpoint
        reach = "check the base URL and the network" + (", and the proxy" if self._proxied else "")
        names = {
            "address": endpoint.address,
            "url": endpoint.base_url,
            "variable": endpoint.key_variable,
            "key_remedy": endpoint.key_remedy,
            "credentials_remedy": endpoint.key_remedy or f"check {endpoint.key_variable}",
            "reach_remedy": "start the server there, or correct the base URL" if endpoint.local else reach,
            "model": self._model,
            "v1_hint": self._v1_hint(),
            "given": given,
        }
        what = f"{self._name}: {row.what.format(**names)}" + (f" ({status})" if status else "")
        quoted = self._clean(detail) if row.quotes else ""
        what += f": {quoted}" if quoted else ""
        return AttemptFailure(row.error, what, row.remedy.format(**names), row.reason)

    def _v1_hint(self) -> str:
        endpoint = self._endpoint
        ours = endpoint.private and endpoint.takes_v1 and not endpoint.base_url.endswith("/v1")
        return " (most servers want it to end in /v1)" if ours else ""

    def _strip_secrets(self, text: str) -> str:
        """Return `text` without the secrets or anything that looks like one."""
        for secret in self._secrets:
            text = text.replace(secret, "***")
        return _SECRETS.sub("***", text)

    def _clean(self, text: str) -> str:
        """Return a provider's message on one line, shortened, without the key or anything that looks like
        one."""
        text = self._strip_secrets(text)
        text = "".join(character if character.isprintable() else " " for character in text)
        text = " ".join(text.split()).rstrip(".;")
        return text if len(text) <= _DETAIL_CHARS else text[: _DETAIL_CHARS - 1] + "…"


def _may_refuse_schema(status: int, kinds: tuple[str, ...], detail: str) -> bool:
    """Return whether a refusal can be about the schema that the reply must follow: it names it, or gives no
    reason."""
    if status not in _SCHEMA_STATUSES:
        return False
    is_silent = status in {400, 422} and not detail.strip()
    return is_silent or _NAMES_SCHEMA.search(" ".join((detail, *kinds))) is not None


def _read_retry_after(headers: Mapping[str, str]) -> float | None:
    """Return the seconds of `retry-after-ms` or `retry-after` (seconds or an HTTP date), or None if absent or
    invalid."""
    milliseconds, text = headers.get("retry-after-ms"), headers.get("retry-after")
    try:
        if milliseconds is not None:
            seconds = float(milliseconds) / 1000
        elif text is not None and text.strip()[:1].isdigit():
            seconds = float(text)
        elif text is not None:
            date = parsedate_to_datetime(text)
            seconds = (date.replace(tzinfo=date.tzinfo or UTC) - datetime.now(UTC)).total_seconds()
        else:
            return None
    except (ValueError, OverflowError):
        return None
    return seconds if isfinite(seconds) and seconds > 0 else None


_KIND_CHARS, _MESSAGE_CHARS, _REFUSAL_CHARS = 100, 10_000, 4_000
_REFUSAL_FIELDS = frozenset(
    {"message", "msg", "param", "loc", "code", "type", "detail", "details", "error", "errors"}
)
"""Fields of an error's body that tell what was refused, and quote nothing of the request."""


def error_in(event: object) -> object:
    """Return the error that an event of a stream reports, in any of the protocols; else None."""
    if get(event, "error") or get(event, "type") == "error":
        return event
    return get(event, "response") if get(event, "type") == "response.failed" else None


def read_error(answer: object) -> tuple[tuple[str, ...], str]:
    """Return the kinds of a server's error, and its message."""
    if isinstance(answer, list):  # Google's compatible servers send a list of one error
        answer = answer[0] if answer else None
    error = get(answer, "error") or answer
    fields = (get(error, "code"), get(error, "type"), get(error, "details", "error_code"))
    kinds = tuple(str(kind)[:_KIND_CHARS] for kind in fields if isinstance(kind, str | int) and kind)
    message = error if isinstance(error, str) else text_in(error, "message") or text_in(error, "detail")
    # Servers that are made with FastAPI send a list, which names the field first.
    for first in list_in(error, "detail")[:1] if not message else ():
        place = ".".join(str(step)[:_KIND_CHARS] for step in list_in(first, "loc")[:10])
        message = ": ".join(filter(None, (place if get(first, "msg") else "", text_in(first, "msg"))))
    return kinds, message[:_MESSAGE_CHARS]


def _words(value: object) -> Iterator[str]:
    if isinstance(value, str | int):
        yield str(value)[:_REFUSAL_CHARS]
    elif isinstance(value, list):
        for one in value[:20]:
            yield from _words(one)
    elif isinstance(value, Mapping):
        for key in value:
            if key in _REFUSAL_FIELDS:
                yield from _words(value[key])


def _walk_chain(error: BaseException) -> Iterator[BaseException]:
    """Yield `error` and its causes, outermost first."""
    seen: set[int] = set()
    link: BaseException | None = error
    while link is not None and id(link) not in seen:
        seen.add(id(link))
        yield link
        # A connection to several addresses fails with a group of errors.
        for inner in getattr(link, "exceptions", ()):
            yield from _walk_chain(inner)
        link = link.__cause__ or link.__context__
