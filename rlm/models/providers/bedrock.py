"""Models on Amazon Bedrock, over the SDKs' own classes: Anthropic's models over the Messages API, which
Bedrock streams in frames of its own, and all others over Chat Completions.

Requests carry a bearer token, or are signed with the credentials of the environment, a profile or the
machine, which the SDK finds as AWS's own tools do.
"""

from __future__ import annotations

import base64
import struct
from dataclasses import replace
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any

from rlm.errors import ConfigurationError
from rlm.models.http.clients.shared_clients import ClientPool, SdkRoute
from rlm.models.http.endpoint import Endpoint
from rlm.models.http.model import HttpModel
from rlm.models.http.reply_limits import MAX_EVENT, ReplyTooLarge, parse_json
from rlm.models.http.wire_messages import field
from rlm.models.options import ModelOptions
from rlm.models.providers.anthropic import AnthropicModel
from rlm.models.providers.openai import OpenAIModel
from rlm.version import install_command

if TYPE_CHECKING:
    import httpx2
    from anthropic import AsyncAnthropicBedrock
    from openai import AsyncOpenAI

__all__ = ["EventStreamDecoder", "make_bedrock_model"]

_BEARER = "AWS_BEARER_TOKEN_BEDROCK"
_PRELUDE = struct.Struct(">II")
_LEAST_FRAME = 16


def make_bedrock_model(
    model: str, endpoint: Endpoint, *, name: str | None = None, options: ModelOptions | None = None
) -> HttpModel:
    """Return the model with this id, inference profile or ARN. Raises ConfigurationError if AWS's library is
    not installed, or if there is half a pair of keys."""
    if find_spec("boto3") is None:
        raise ConfigurationError(f"{name or model} needs the extra `bedrock`: {install_command('bedrock')}")
    if bool(endpoint.setting("access_key")) != bool(endpoint.setting("secret_key")):
        raise ConfigurationError(
            f"{name or model} needs both AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY: set both, or neither"
        )
    if endpoint.key_remedy:
        remedy = f"set {_BEARER}, or AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY, or AWS_PROFILE"
        endpoint = replace(endpoint, key_remedy=remedy)
    # A profile's ARN does not tell the vendor: most are of Anthropic's models.
    is_messages = "anthropic." in model or model.startswith("arn:")
    make = BedrockAnthropicModel if is_messages else BedrockOpenAIModel
    return make(model, endpoint, name=name, options=options)


def _credentials(endpoint: Endpoint) -> dict[str, Any]:
    """Return the arguments of Anthropic's class. Without any, it asks AWS's own chain of credentials."""
    if endpoint.key_variable == _BEARER and not endpoint.key_remedy:
        return {"api_key": endpoint.key}
    if endpoint.setting("access_key"):
        return {
            "aws_access_key": endpoint.setting("access_key"),
            "aws_secret_key": endpoint.setting("secret_key"),
            "aws_session_token": endpoint.setting("session_token") or None,
        }
    return {"aws_profile": endpoint.setting("profile") or None}


def _make_anthropic(endpoint: Endpoint, http: httpx2.AsyncClient) -> AsyncAnthropicBedrock:
    from anthropic import AsyncAnthropicBedrock

    from rlm.models.http.clients.sdk import without_ambient_headers

    return AsyncAnthropicBedrock(
        aws_region=endpoint.setting("region"),
        base_url=endpoint.base_url,
        max_retries=0,
        open_telemetry=False,
        default_headers=without_ambient_headers("anthropic"),
        http_client=http,
        **_credentials(endpoint),
    )


def _make_openai(endpoint: Endpoint, http: httpx2.AsyncClient) -> AsyncOpenAI:
    from openai import AsyncBedrockOpenAI

    from rlm.models.http.clients.sdk import without_ambient_headers

    given = _credentials(endpoint)
    client = AsyncBedrockOpenAI(
        aws_region=endpoint.setting("region"),
        base_url=f"{endpoint.base_url.rstrip('/')}/openai/v1",
        api_key=given.get("api_key"),
        aws_access_key_id=given.get("aws_access_key"),
        aws_secret_access_key=given.get("aws_secret_key"),
        aws_session_token=given.get("aws_session_token"),
        aws_profile=given.get("aws_profile"),
        max_retries=0,
        default_headers=without_ambient_headers("openai", kept=("authorization", "api-key")),
        http_client=http,
    )
    client.organization = client.project = None
    return client


class EventStreamDecoder:
    """Decodes AWS's frames (`application/vnd.amazon.eventstream`) into the events of the Messages API.

    AWS's own library checks and parses each frame. It would keep any amount of a frame that has not ended, so
    it gets only whole frames, and only those of a size that an event may have.
    """

    def __init__(self) -> None:
        from botocore.eventstream import EventStreamBuffer

        self._make_buffer = EventStreamBuffer
        self._rest = bytearray()

    def feed(self, chunk: bytes) -> list[bytes]:
        """Return the JSON of the events that end in `chunk`, in order. Raises ReplyTooLarge, and an error of
        AWS's library for a damaged frame."""
        self._rest += chunk
        events = []
        start = 0
        while len(self._rest) - start >= _PRELUDE.size:
            size, _ = _PRELUDE.unpack_from(self._rest, start)
            if size > MAX_EVENT:
                raise ReplyTooLarge(f"a frame of {size:,} bytes")
            if size < _LEAST_FRAME:
                raise ValueError("a frame that is shorter than its own frame")
            if len(self._rest) - start < size:
                break
            events += self._read_frame(bytes(self._rest[start : start + size]))
            start += size
        del self._rest[:start]
        return events

    def _read_frame(self, frame: bytes) -> list[bytes]:
        buffer = self._make_buffer()
        buffer.add_data(frame)
        (message,) = buffer
        headers = message.headers
        value = parse_json(message.payload) if message.payload else None
        if headers.get(":message-type") in ("exception", "error"):
            kind = headers.get(":exception-type") or headers.get(":error-code") or "error"
            text = field(value, "message") or headers.get(":error-message") or ""
            return [_dump({"type": "error", "error": {"type": str(kind), "message": str(text)}})]
        data = field(value, "bytes")
        return [base64.b64decode(data)] if isinstance(data, str) else []


def _dump(value: object) -> bytes:
    import json

    return json.dumps(value).encode()


class BedrockAnthropicModel(AnthropicModel):
    """A model of Anthropic's on Bedrock."""

    prefix = "bedrock"
    clients = ClientPool(
        "/v1/messages",
        SdkRoute("anthropic", _make_anthropic),
        stream_type="vnd.amazon.eventstream",
        make_decoder=EventStreamDecoder,
    )


class BedrockOpenAIModel(OpenAIModel):
    """A model of another vendor on Bedrock, over its Chat Completions."""

    prefix = "bedrock"
    clients = ClientPool("/chat/completions", SdkRoute("openai", _make_openai))
