"""Models on Azure, Amazon Bedrock and Vertex AI: the bodies of Anthropic's and OpenAI's APIs, at other URLs
and with other credentials.

Credentials that are not a key come from the clouds' own libraries (botocore, google-auth), which find and
renew them as the clouds' own tools do.
"""

from __future__ import annotations

import asyncio
import base64
import struct
import threading
from dataclasses import replace
from importlib.util import find_spec
from typing import Any
from urllib.parse import quote

from rlm.errors import ConfigurationError
from rlm.models.http.endpoint import Endpoint, encode_json
from rlm.models.http.errors import Unsigned
from rlm.models.http.model import HttpModel
from rlm.models.http.reply_limits import MAX_EVENT, ReplyTooLarge, parse_json
from rlm.models.http.wire_messages import field
from rlm.models.options import ModelOptions
from rlm.models.providers.anthropic import API_VERSION, AnthropicModel
from rlm.models.providers.openai import OpenAIModel
from rlm.version import install_command

__all__ = ["EventStreamDecoder", "make_azure_model", "make_bedrock_model", "make_vertex_model"]

_PRELUDE = struct.Struct(">II")
_LEAST_FRAME = 16
_NO_CREDENTIALS = "run `gcloud auth application-default login`, or set GOOGLE_APPLICATION_CREDENTIALS"
_SCOPE = "https://www.googleapis.com/auth/cloud-platform"
_VERTEX_HOSTS = {
    "global": "https://aiplatform.googleapis.com/v1",
    "us": "https://aiplatform.us.rep.googleapis.com/v1",
    "eu": "https://aiplatform.eu.rep.googleapis.com/v1",
}
"""The servers of locations that are no region."""


class AzureModel(OpenAIModel):
    """A deployment on Azure, behind the API without versions."""

    prefix = "azure"
    takes_completion_limit = True


class AzureVersionedModel(AzureModel):
    """A deployment behind the API with versions, which is addressed by its name."""

    def headers(self) -> dict[str, str]:
        is_token = self._endpoint.key_variable == "AZURE_OPENAI_AD_TOKEN"
        return super().headers() if is_token else {"api-key": self._endpoint.key}

    def target(self, body: dict[str, Any]) -> tuple[str, dict[str, Any]]:
        deployment = f"{self._url.removesuffix('/openai')}/openai/deployments/{quote(self._model, safe='')}"
        version = quote(self._endpoint.setting("api_version"), safe="")
        return f"{deployment}{self.path}?api-version={version}", body


def make_azure_model(
    model: str, endpoint: Endpoint, *, name: str | None = None, options: ModelOptions | None = None
) -> HttpModel:
    """Return the model of a deployment. Without OPENAI_API_VERSION its API is the newer one."""
    if endpoint.setting("api_version"):
        return AzureVersionedModel(model, endpoint, name=name, options=options)
    root = endpoint.base_url.removesuffix("/openai")
    return AzureModel(model, replace(endpoint, base_url=f"{root}/openai/v1"), name=name, options=options)


class _CloudModel(HttpModel):
    """Gets the credentials of each request from a cloud's own library, unless a key is set."""

    prefix = ""
    _credentials: Any = None

    def __init__(
        self, model: str, endpoint: Endpoint, *, name: str | None = None, options: ModelOptions | None = None
    ) -> None:
        super().__init__(model, endpoint, name=name, options=options)
        self._lock = threading.Lock()

    async def authorize(self, url: str, content: bytes) -> dict[str, str]:
        if not self._endpoint.key_remedy:
            return self.headers()
        try:
            return self.headers() | await asyncio.to_thread(self._sign, url, content)
        except Exception as error:  # the boundary to a library of credentials: nothing was sent yet
            raise Unsigned from error

    def _sign(self, url: str, content: bytes) -> dict[str, str]:
        raise NotImplementedError


class _BedrockModel(_CloudModel):
    prefix = "bedrock"

    def _sign(self, url: str, content: bytes) -> dict[str, str]:
        from boto3 import Session  # type: ignore[import-untyped]
        from botocore.auth import SigV4Auth
        from botocore.awsrequest import AWSRequest

        setting = self._endpoint.setting
        with self._lock:
            self._credentials = (
                self._credentials
                or Session(
                    profile_name=None if setting("access_key") else setting("profile") or None,
                    aws_access_key_id=setting("access_key") or None,
                    aws_secret_access_key=setting("secret_key") or None,
                    aws_session_token=setting("session_token") or None,
                ).get_credentials()
            )
            if self._credentials is None:
                raise LookupError("AWS's library finds none")
            credentials = self._credentials.get_frozen_credentials()
        request = AWSRequest("POST", url, headers={"Content-Type": "application/json"}, data=content)
        SigV4Auth(credentials, "bedrock", setting("region")).add_auth(request)
        return {name: str(value) for name, value in request.headers.items()}


class BedrockMessagesModel(_BedrockModel, AnthropicModel):
    """A model of Anthropic's on Bedrock, which streams the Messages API in frames of its own."""

    stream_type = "vnd.amazon.eventstream"

    def make_decoder(self) -> EventStreamDecoder:
        return EventStreamDecoder()

    def target(self, body: dict[str, Any]) -> tuple[str, dict[str, Any]]:
        sent = {name: value for name, value in body.items() if name not in ("model", "stream")}
        url = f"{self._url}/model/{quote(self._model, safe=':')}/invoke-with-response-stream"
        return url, sent | {"anthropic_version": API_VERSION}


class BedrockChatModel(_BedrockModel, OpenAIModel):
    """A model of another vendor on Bedrock, over its Chat Completions."""

    path = "/openai/v1/chat/completions"


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
        keys = "AWS_BEARER_TOKEN_BEDROCK, or AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY, or AWS_PROFILE"
        endpoint = replace(endpoint, key_remedy=f"set {keys}")
    # A profile's ARN does not tell the vendor: most are of Anthropic's models.
    is_messages = "anthropic." in model or model.startswith("arn:")
    make = BedrockMessagesModel if is_messages else BedrockChatModel
    return make(model, endpoint, name=name, options=options)


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


class _VertexModel(_CloudModel):
    prefix = "vertex"

    @property
    def _place(self) -> str:
        setting = self._endpoint.setting
        return f"{self._url}/projects/{setting('project')}/locations/{setting('location')}"

    def _sign(self, url: str, content: bytes) -> dict[str, str]:
        import google.auth
        from google.auth.transport.requests import Request

        with self._lock:
            if self._credentials is None:
                self._credentials, _ = google.auth.default(scopes=[_SCOPE])
            if not self._credentials.valid:  # renewed shortly before it expires
                self._credentials.refresh(Request())
            return {"Authorization": f"Bearer {self._credentials.token}"}


class VertexMessagesModel(_VertexModel, AnthropicModel):
    """A model of Anthropic's on Vertex AI."""

    def target(self, body: dict[str, Any]) -> tuple[str, dict[str, Any]]:
        sent = {name: value for name, value in body.items() if name != "model"}
        url = f"{self._place}/publishers/anthropic/models/{quote(self._model, safe='@')}:streamRawPredict"
        return url, sent | {"anthropic_version": API_VERSION}


class VertexChatModel(_VertexModel, OpenAIModel):
    """A model of Google's or another vendor's on Vertex AI."""

    def target(self, body: dict[str, Any]) -> tuple[str, dict[str, Any]]:
        return f"{self._place}/endpoints/openapi{self.path}", body


def make_vertex_model(
    model: str, endpoint: Endpoint, *, name: str | None = None, options: ModelOptions | None = None
) -> HttpModel:
    """Return a model of the project. Raises ConfigurationError if Google's library is needed and not
    installed."""
    if endpoint.key_remedy:
        if find_spec("google") is None or find_spec("google.auth") is None:
            raise ConfigurationError(f"{name or model} needs the extra `vertex`: {install_command('vertex')}")
        endpoint = replace(endpoint, key_remedy=_NO_CREDENTIALS)
    location = endpoint.setting("location")
    if endpoint.base_url == f"https://{location}-aiplatform.googleapis.com/v1":
        endpoint = replace(endpoint, base_url=_VERTEX_HOSTS.get(location, endpoint.base_url))
    if model.removeprefix("anthropic/").startswith("claude"):
        return VertexMessagesModel(model.removeprefix("anthropic/"), endpoint, name=name, options=options)
    full = model if "/" in model else f"google/{model}"
    return VertexChatModel(full, endpoint, name=name, options=options)
