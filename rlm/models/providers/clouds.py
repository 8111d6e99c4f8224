"""Models on Azure, Amazon Bedrock and Vertex AI. The SDKs of OpenAI and Anthropic find credentials, sign the
requests and make their URLs; our session sends them, with the same limits and retries as for every provider.
"""

from __future__ import annotations

import asyncio
import base64
import os
import struct
import threading
from abc import abstractmethod
from collections.abc import Callable, Mapping
from dataclasses import replace
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any

from rlm.errors import ConfigurationError
from rlm.models.http.endpoint import Endpoint, encode_json
from rlm.models.http.errors import Unsigned
from rlm.models.http.model import HttpModel
from rlm.models.http.reply_limits import MAX_EVENT, ReplyTooLarge, parse_json
from rlm.models.http.wire_messages import field
from rlm.models.providers.anthropic import AnthropicModel
from rlm.models.providers.openai import OpenAIModel
from rlm.version import install_command

if TYPE_CHECKING:
    import httpx2

__all__ = ["EventStreamDecoder", "make_azure_model", "make_bedrock_model", "make_vertex_model"]

_MakeClient = Callable[..., Any]
"""Makes the client of an SDK, with the arguments that all clients get."""
_PRELUDE = struct.Struct(">II")
_LEAST_FRAME = 16
_SCOPE = "https://www.googleapis.com/auth/cloud-platform"
_NO_CREDENTIALS = "run `gcloud auth application-default login`, or set GOOGLE_APPLICATION_CREDENTIALS"
_VERTEX_HOSTS = {
    "global": "https://aiplatform.googleapis.com/v1",
    "us": "https://aiplatform.us.rep.googleapis.com/v1",
    "eu": "https://aiplatform.eu.rep.googleapis.com/v1",
}
"""The servers of locations that are no region."""


class _CloudModel(HttpModel):
    """Sends requests as the client of an SDK makes and signs them. The client itself connects to nothing, and
    `make_client` makes it with the first request."""

    prefix = ""

    def __init__(self, make_client: _MakeClient, *arguments: Any, **named: Any) -> None:
        super().__init__(*arguments, **named)
        self._make_client = make_client
        self._client: Any = None

    async def route(self, body: dict[str, Any]) -> tuple[str, dict[str, str], bytes]:
        try:
            if self._client is None:
                self._client = await asyncio.to_thread(self._import_client)
            import httpx2

            options = {"headers": dict(self.calls.headers)} if self.calls.headers else {}
            made = await self._client.post(self.path, cast_to=httpx2.Response, body=body, options=options)
        except Exception as error:  # the boundary to a library of credentials: nothing was sent yet
            raise Unsigned from error
        request = made.request
        headers = {name: value for name, value in request.headers.items() if name != "connection"}
        return str(request.url), headers, request.content

    @abstractmethod
    def _import_client(self) -> Any:
        """Import the SDK and return its client."""


def _make_recorder() -> httpx2.AsyncClient:
    """Return an HTTP client that answers each request itself, so that it can be read from the answer."""
    import httpx2

    def answer(request: httpx2.Request) -> httpx2.Response:
        return httpx2.Response(200, json={}, request=request)

    # Said here, too: a signature covers the encodings that a request accepts.
    headers = {"accept-encoding": "gzip, deflate"}
    return httpx2.AsyncClient(transport=httpx2.MockTransport(answer), headers=headers, trust_env=False)


def _without_ambient(sdk: Any, kept: tuple[str, ...] = ()) -> dict[str, Any]:
    """Return headers that cancel those of the SDK's `…_CUSTOM_HEADERS`, which are meant for its maker and
    which it would send to any cloud. `kept` are names, in small letters, that the SDK sets itself."""
    lines = os.environ.get(f"{sdk.__name__.upper()}_CUSTOM_HEADERS", "").split("\n")
    names = (line.partition(":")[0].strip() for line in lines if ":" in line)
    return {name: sdk.Omit() for name in names if name.lower() not in kept}


class _AnthropicCloud(_CloudModel, AnthropicModel):
    """The Messages API of a cloud."""

    def _import_client(self) -> Any:
        import anthropic

        headers = _without_ambient(anthropic)
        return self._make_client(
            http_client=_make_recorder(), max_retries=0, open_telemetry=False, default_headers=headers
        )


class _OpenAICloud(_CloudModel, OpenAIModel):
    """The Chat Completions of a cloud."""

    def _import_client(self) -> Any:
        import openai

        headers = _without_ambient(openai, ("authorization", "api-key"))
        client = self._make_client(http_client=_make_recorder(), max_retries=0, default_headers=headers)
        client.organization = client.project = None
        return client


def make_azure_model(model: str, endpoint: Endpoint, **named: Any) -> HttpModel:
    """Return the model of a deployment: behind the API with versions, which is addressed by its name, or
    without OPENAI_API_VERSION behind the newer one."""
    root = endpoint.base_url.removesuffix("/openai")
    version = endpoint.setting("api_version")
    if not version:
        return OpenAIModel(model, replace(endpoint, base_url=f"{root}/openai/v1"), **named)

    def make_client(**usual: Any) -> Any:
        from openai import AsyncAzureOpenAI

        is_token = endpoint.key_variable == "AZURE_OPENAI_AD_TOKEN"
        key: Any = {"azure_ad_token" if is_token else "api_key": endpoint.key}
        return AsyncAzureOpenAI(azure_endpoint=root, api_version=version, **key, **usual)

    return _OpenAICloud(make_client, model, endpoint, **named)


def _aws_credentials(endpoint: Endpoint) -> Mapping[str, Any]:
    """Return the key, the pair of keys or the profile, by the names of OpenAI's class. Without any, the SDK
    asks AWS's own chain of credentials."""
    if not endpoint.key_remedy:
        return {"api_key": endpoint.key}
    if endpoint.setting("access_key"):
        return {
            "aws_access_key_id": endpoint.setting("access_key"),
            "aws_secret_access_key": endpoint.setting("secret_key"),
            "aws_session_token": endpoint.setting("session_token") or None,
        }
    return {"aws_profile": endpoint.setting("profile") or None}


class _BedrockMessagesModel(_AnthropicCloud):
    """A model of Anthropic's on Bedrock, which streams the Messages API in frames of its own."""

    stream_type = "vnd.amazon.eventstream"

    def make_decoder(self) -> EventStreamDecoder:
        return EventStreamDecoder()


def make_bedrock_model(model: str, endpoint: Endpoint, **named: Any) -> HttpModel:
    """Return the model with this id, inference profile or ARN: over the Messages API if it is Anthropic's,
    else over Bedrock's Chat Completions. Raises ConfigurationError if AWS's library is not installed, or if
    there is half a pair of keys."""
    name = named.get("name") or model
    if find_spec("boto3") is None:
        raise ConfigurationError(f"{name} needs the extra `bedrock`: {install_command('bedrock')}")
    if bool(endpoint.setting("access_key")) != bool(endpoint.setting("secret_key")):
        raise ConfigurationError(
            f"{name} needs both AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY: set both, or neither"
        )
    given, region = _aws_credentials(endpoint), endpoint.setting("region")
    if endpoint.key_remedy:
        keys = "AWS_BEARER_TOKEN_BEDROCK, or AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY, or AWS_PROFILE"
        endpoint = replace(endpoint, key_remedy=f"set {keys}")

    def make_messages_client(**usual: Any) -> Any:
        from anthropic import AsyncAnthropicBedrock

        names = {"aws_access_key_id": "aws_access_key", "aws_secret_access_key": "aws_secret_key"}
        renamed = {names.get(key, key): value for key, value in given.items()}
        return AsyncAnthropicBedrock(base_url=endpoint.base_url, aws_region=region, **renamed, **usual)

    def make_chat_client(**usual: Any) -> Any:
        from openai import AsyncBedrockOpenAI

        url = f"{endpoint.base_url.rstrip('/')}/openai/v1"
        return AsyncBedrockOpenAI(base_url=url, aws_region=region, **given, **usual)

    # A profile's ARN does not tell the vendor: most are of Anthropic's models.
    if "anthropic." in model or model.startswith("arn:"):
        return _BedrockMessagesModel(make_messages_client, model, endpoint, **named)
    return _OpenAICloud(make_chat_client, model, endpoint, **named)


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
            event = {"type": "error", "error": {"type": str(kind), "message": str(text)}}
            return [encode_json(event).encode()]
        data = field(value, "bytes")
        return [base64.b64decode(data)] if isinstance(data, str) else []


class _GoogleTokens:
    """Access tokens from the application default credentials. One is renewed shortly before it expires."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._credentials: Any = None

    async def get(self) -> str:
        """Return a valid token. Raises what Google's library raises."""
        return await asyncio.to_thread(self._renew)

    def _renew(self) -> str:
        import google.auth
        from google.auth.transport.requests import Request

        with self._lock:
            if self._credentials is None:
                self._credentials, _ = google.auth.default(scopes=[_SCOPE])
            if not self._credentials.valid:
                self._credentials.refresh(Request())
            return str(self._credentials.token)


def make_vertex_model(model: str, endpoint: Endpoint, **named: Any) -> HttpModel:
    """Return a model of the project: over Anthropic's API if it is a Claude, else over Vertex's Chat
    Completions. Raises ConfigurationError if Google's library is needed and not installed."""
    if endpoint.key_remedy:
        if find_spec("google") is None or find_spec("google.auth") is None:
            name = named.get("name") or model
            raise ConfigurationError(f"{name} needs the extra `vertex`: {install_command('vertex')}")
        endpoint = replace(endpoint, key_remedy=_NO_CREDENTIALS)
    project, location = endpoint.setting("project"), endpoint.setting("location")
    if endpoint.base_url == f"https://{location}-aiplatform.googleapis.com/v1":
        endpoint = replace(endpoint, base_url=_VERTEX_HOSTS.get(location, endpoint.base_url))

    def make_messages_client(**usual: Any) -> Any:
        from anthropic import AsyncAnthropicVertex

        token = None if endpoint.key_remedy else endpoint.key
        return AsyncAnthropicVertex(
            project_id=project, region=location, base_url=endpoint.base_url, access_token=token, **usual
        )

    def make_chat_client(**usual: Any) -> Any:
        from openai import AsyncOpenAI

        place = f"projects/{project}/locations/{location}/endpoints/openapi"
        # The SDK asks for the token of each request: one of the application default credentials is renewed.
        key = _GoogleTokens().get if endpoint.key_remedy else endpoint.key
        return AsyncOpenAI(api_key=key, base_url=f"{endpoint.base_url.rstrip('/')}/{place}", **usual)

    bare = model.removeprefix("anthropic/")
    if bare.startswith("claude"):
        return _AnthropicCloud(make_messages_client, bare, endpoint, **named)
    full = model if "/" in model else f"google/{model}"
    return _OpenAICloud(make_chat_client, full, endpoint, **named)
