"""Map the failure of one attempt to plain data that holds nothing of the provider's exception.

An SDK's exception holds the request, and the request holds the key. So a failed attempt becomes an
`AttemptFailure` at the boundary. The ModelError made from it has no cause and no context.
"""

from __future__ import annotations

import re
import ssl
from collections.abc import Mapping
from dataclasses import field, replace
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime
from math import isfinite
from socket import gaierror

from rlm.errors import ModelError, ModelProtocolError, ModelRejected, ModelUnavailable
from rlm.lazy_dataclass import dataclass
from rlm.models.base import TokenUsage
from rlm.models.http.clients.failures import TransportFailure, walk_chain
from rlm.models.http.endpoint import Endpoint
from rlm.models.http.reply_limits import ReplyTooLarge
from rlm.models.listener import RetryReason

__all__ = ["AttemptFailure", "ErrorMapper"]

_DETAIL_CHARS = 200
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
_SERVER_ERROR: tuple[RetryReason, str] = ("server_error", "has an internal error")
_RETRIED: dict[int, tuple[RetryReason, str]] = {
    408: ("timeout", "timed out"),
    409: ("conflict", "reports a conflict"),
    429: ("rate_limited", "limits the rate of requests"),
    503: ("overloaded", "is overloaded"),
    504: ("timeout", "timed out"),
    529: ("overloaded", "is overloaded"),
}
"""Statuses after which the same request may succeed. Every other one from 500 on is a server error."""
_NO_CREDIT = {"insufficient_quota", "billing_error"}
_NO_KEY, _ANY = 0, 400
_REJECTED: dict[int, tuple[str, str]] = {
    _NO_KEY: ("{address} wants a key, and none is set for it", "{key_remedy}"),
    401: ("the key in {variable} is refused by {address}", "set {variable} to a valid key"),
    402: (
        "the account has no credit left",
        "add credit with the provider, or set {variable} to another key",
    ),
    403: ("the key in {variable} may not use this model", "ask for access, or choose another model"),
    404: ("{address} knows no model {model!r}", "check the model's name{v1_hint}"),
    413: (
        "the prompt is longer than the model takes",
        "send smaller slices, or choose a model with a larger window",
    ),
    _ANY: ("{address} refuses the request", "correct what it names, or choose another model"),
}
"""What other statuses mean, and the remedy."""


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
    """Describes failures of the model `name` at `endpoint`: in one line, the remedy last, never with the
    key."""

    def __init__(self, name: str, model: str, endpoint: Endpoint, proxy: str | None = None) -> None:
        self._name = name
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
        failure = self._map_status(status, kinds, detail, headers)
        return replace(failure, status=status, refuses_schema=_may_refuse_schema(status, kinds, detail))

    def map_stream_error(self, kinds: tuple[str, ...], detail: str) -> AttemptFailure:
        """Map an error event within a stream. An unknown kind counts as an error of the server, because the
        request had been accepted."""
        statuses = [_STATUS_OF_KIND[kind] for kind in kinds if kind in _STATUS_OF_KIND]
        statuses += [int(kind) for kind in kinds if kind.isdigit() and 400 <= int(kind) < 600]
        return self.map_status(statuses[0] if statuses else 500, kinds=kinds, detail=detail, headers={})

    def map_transport(self, failure: TransportFailure) -> AttemptFailure:
        """Map a connection that was not made, or that ended before the response was whole."""
        match failure.kind:
            case "unreachable":
                chain = list(walk_chain(failure))
                if any(isinstance(link, ssl.SSLError) for link in chain):
                    return self._describe_certificate()
                return self._describe_unreachable(chain)
            case "silent":
                return self._make_retryable("timeout", f"{self._endpoint.address} fell silent")
            case "invalid":
                return AttemptFailure(
                    ModelRejected,
                    f"{self._name}: no valid HTTP request can be made for {self._endpoint.base_url}",
                    f"check the base URL and {self._endpoint.key_variable}",
                )
            case "dropped":
                return self.map_dropped()

    def map_dropped(self) -> AttemptFailure:
        """Map a connection or a stream that ended before the reply was complete."""
        return self._make_retryable(
            "dropped", f"{self._endpoint.address} ended the reply before it was whole"
        )

    def map_unsigned(self, error: BaseException) -> AttemptFailure:
        """Map a request that could not be sent, because the provider's own library has no credentials for
        it."""
        lines = str(error).strip().splitlines() or [type(error).__name__]
        return AttemptFailure(
            ModelRejected,
            f"{self._name}: no credentials for {self._endpoint.address}{self._quote(lines[0])}",
            self._endpoint.key_remedy or f"check {self._endpoint.key_variable}",
            # A library of credentials asks a server of its own, and says where that may work later.
            "server_error" if getattr(error, "retryable", False) else None,
        )

    def map_garbled(self, error: Exception) -> AttemptFailure:
        """Map a reply that cannot be parsed."""
        kind = type(error).__name__
        return AttemptFailure(
            ModelProtocolError,
            f"{self._name}: {self._endpoint.address} sent what its protocol does not allow ({kind})",
            "check that the base URL is that of this provider's API",
            "garbled",
        )

    def map_too_large(self, error: ReplyTooLarge) -> AttemptFailure:
        """Map a reply that no honest server sends. It is not asked for again."""
        return AttemptFailure(
            ModelProtocolError,
            f"{self._name}: {self._endpoint.address} sent {error}, more than a reply holds",
            "check that the base URL is that of this provider's API",
        )

    def map_wrong_type(self, content_type: str) -> AttemptFailure:
        """Map a success that is not a stream of events, most often a web page."""
        return AttemptFailure(
            ModelProtocolError,
            f"{self._name}: {self._endpoint.base_url} answers with {self._clean(content_type)!r}, "
            "not with a stream of events",
            f"check the base URL{self._v1_hint()}",
        )

    def _map_status(
        self, status: int, kinds: tuple[str, ...], detail: str, headers: Mapping[str, str]
    ) -> AttemptFailure:
        retried = _RETRIED.get(status, _SERVER_ERROR if status >= 500 else None)
        if retried is not None and not _NO_CREDIT.intersection(kinds):
            reason, what = retried
            return AttemptFailure(
                ModelUnavailable,
                f"{self._name}: {self._endpoint.address} {what} ({status}){self._quote(detail)}",
                "try again later, or with fewer calls at a time",
                reason,
                _read_retry_after(headers),
            )
        if 300 <= status < 400:
            return AttemptFailure(
                ModelRejected,
                f"{self._name}: {self._endpoint.base_url} redirects ({status})",
                "set the base URL to where the API really is",
            )
        return self._reject(status, kinds, detail)

    def _reject(self, status: int, kinds: tuple[str, ...], detail: str) -> AttemptFailure:
        meant = status
        if status in {401, 403} and self._endpoint.key_remedy:
            meant = _NO_KEY
        elif _NO_CREDIT.intersection(kinds):
            meant = 402
        elif status not in {401, 402, 403, 404} and (_TOO_LONG_KIND in kinds or _TOO_LONG.search(detail)):
            meant = 413
        what, remedy = _REJECTED.get(meant, _REJECTED[_ANY])
        names = {
            "address": self._endpoint.address,
            "variable": self._endpoint.key_variable,
            "key_remedy": self._endpoint.key_remedy,
            "model": self._model,
            "v1_hint": self._v1_hint(),
        }
        # Never quote the provider where it refuses the key: some repeat parts of it.
        quoted = "" if meant == 401 else self._quote(detail)
        what = f"{self._name}: {what.format(**names)} ({status}){quoted}"
        return AttemptFailure(ModelRejected, what, remedy.format(**names))

    def _make_retryable(self, reason: RetryReason, what: str) -> AttemptFailure:
        return AttemptFailure(
            ModelUnavailable, f"{self._name}: {what}", "check the network and the provider's status", reason
        )

    def _describe_unreachable(self, chain: list[BaseException]) -> AttemptFailure:
        address = self._endpoint.address
        if any(isinstance(link, gaierror) for link in chain):
            what = f"the host of {address} is not known"
        elif any(isinstance(link, ConnectionRefusedError) for link in chain):
            what = f"nothing listens at {address}"
        else:
            what = f"{address} can't be reached"
        if self._endpoint.local:
            remedy = "start the server there, or correct the base URL"
        else:
            remedy = "check the base URL and the network" + (", and the proxy" if self._proxied else "")
        return AttemptFailure(ModelUnavailable, f"{self._name}: {what}", remedy, "unreachable")

    def _describe_certificate(self) -> AttemptFailure:
        return AttemptFailure(
            ModelUnavailable,
            f"{self._name}: the certificate of {self._endpoint.address} is not trusted",
            "set ca_file to the PEM file of the authority that signed it",
        )

    def _v1_hint(self) -> str:
        endpoint = self._endpoint
        ours = endpoint.private and endpoint.takes_v1 and not endpoint.base_url.endswith("/v1")
        return " (most servers want it to end in /v1)" if ours else ""

    def _quote(self, detail: str) -> str:
        cleaned = self._clean(detail)
        return f": {cleaned}" if cleaned else ""

    def strip_secrets(self, text: str) -> str:
        """Return `text` without the key or anything that looks like one."""
        return _SECRETS.sub("***", text.replace(self._endpoint.key, "***"))

    def _clean(self, text: str) -> str:
        """Return a provider's message on one line, shortened, without the key or anything that looks like
        one."""
        text = self.strip_secrets(text)
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
