"""Models on Google's Vertex AI: Anthropic's over the SDK's own class, all others (Gemini, and the open models
that Google serves) over Vertex's Chat Completions.

Requests carry an access token: the one of GOOGLE_OAUTH_ACCESS_TOKEN, else one that Google's own library gets
from the application default credentials, and renews.
"""

from __future__ import annotations

import asyncio
from dataclasses import replace
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any

from rlm.errors import ConfigurationError
from rlm.models.http.clients.shared_clients import ClientPool, SdkRoute
from rlm.models.http.endpoint import Endpoint
from rlm.models.http.model import HttpModel
from rlm.models.options import ModelOptions
from rlm.models.providers.anthropic import AnthropicModel
from rlm.models.providers.openai import OpenAIModel
from rlm.version import install_command

if TYPE_CHECKING:
    import httpx2
    from anthropic import AsyncAnthropicVertex
    from openai import AsyncOpenAI

__all__ = ["make_vertex_model"]

_SCOPE = "https://www.googleapis.com/auth/cloud-platform"
_REMEDY = "run `gcloud auth application-default login`, or set GOOGLE_APPLICATION_CREDENTIALS"
_HOSTS = {
    "global": "https://aiplatform.googleapis.com/v1",
    "us": "https://aiplatform.us.rep.googleapis.com/v1",
    "eu": "https://aiplatform.eu.rep.googleapis.com/v1",
}
"""The servers of locations that are no region."""


def make_vertex_model(
    model: str, endpoint: Endpoint, *, name: str | None = None, options: ModelOptions | None = None
) -> HttpModel:
    """Return a model of the project. Raises ConfigurationError if Google's library is needed and not
    installed."""
    if endpoint.key_remedy:
        if find_spec("google") is None or find_spec("google.auth") is None:
            raise ConfigurationError(f"{name or model} needs the extra `vertex`: {install_command('vertex')}")
        endpoint = replace(endpoint, key_remedy=_REMEDY)
    location = endpoint.setting("location")
    if endpoint.base_url == f"https://{location}-aiplatform.googleapis.com/v1":
        endpoint = replace(endpoint, base_url=_HOSTS.get(location, endpoint.base_url))
    if model.removeprefix("anthropic/").startswith("claude"):
        return VertexAnthropicModel(model.removeprefix("anthropic/"), endpoint, name=name, options=options)
    full = model if "/" in model else f"google/{model}"
    return VertexOpenAIModel(full, endpoint, name=name, options=options)


def _make_anthropic(endpoint: Endpoint, http: httpx2.AsyncClient) -> AsyncAnthropicVertex:
    from anthropic import AsyncAnthropicVertex

    from rlm.models.http.clients.sdk import without_ambient_headers

    return AsyncAnthropicVertex(
        project_id=endpoint.setting("project"),
        region=endpoint.setting("location"),
        base_url=endpoint.base_url,
        access_token=None if endpoint.key_remedy else endpoint.key,
        max_retries=0,
        open_telemetry=False,
        default_headers=without_ambient_headers("anthropic"),
        http_client=http,
    )


def _make_openai(endpoint: Endpoint, http: httpx2.AsyncClient) -> AsyncOpenAI:
    from openai import AsyncOpenAI

    from rlm.models.http.clients.sdk import without_ambient_headers

    project, location = endpoint.setting("project"), endpoint.setting("location")
    client = AsyncOpenAI(
        api_key=_Tokens().get if endpoint.key_remedy else endpoint.key,
        base_url=f"{endpoint.base_url}/projects/{project}/locations/{location}/endpoints/openapi",
        max_retries=0,
        default_headers=without_ambient_headers("openai", kept=("authorization", "api-key")),
        http_client=http,
    )
    client.organization = client.project = None
    return client


class _Tokens:
    """Access tokens from the application default credentials. One is renewed shortly before it expires."""

    def __init__(self) -> None:
        self._credentials: Any = None
        self._lock = asyncio.Lock()

    async def get(self) -> str:
        """Return a valid token. Raises what Google's library raises."""
        async with self._lock:
            return await asyncio.to_thread(self._renew)

    def _renew(self) -> str:
        import google.auth
        from google.auth.transport.requests import Request

        if self._credentials is None:
            self._credentials, _ = google.auth.default(scopes=[_SCOPE])
        if not self._credentials.valid:
            self._credentials.refresh(Request())
        return str(self._credentials.token)


class VertexAnthropicModel(AnthropicModel):
    """A model of Anthropic's on Vertex AI."""

    prefix = "vertex"
    clients = ClientPool("/v1/messages", SdkRoute("anthropic", _make_anthropic))


class VertexOpenAIModel(OpenAIModel):
    """A model of Google's or another vendor's on Vertex AI."""

    prefix = "vertex"
    clients = ClientPool("/chat/completions", SdkRoute("openai", _make_openai))
