"""OpenAI's models on Azure, over the SDK's own class.

With OPENAI_API_VERSION a model's name is that of its deployment, and the version goes with each request.
Without it the endpoint's newer API is used (`/openai/v1`), which has no versions and speaks plain Chat
Completions.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from rlm.models.http.clients.shared_clients import ClientPool, SdkRoute
from rlm.models.http.endpoint import Endpoint
from rlm.models.http.model import HttpModel
from rlm.models.options import ModelOptions
from rlm.models.providers.openai import OpenAIModel

if TYPE_CHECKING:
    import httpx2
    from openai import AsyncAzureOpenAI

__all__ = ["make_azure_model"]

_TOKEN_VARIABLE = "AZURE_OPENAI_AD_TOKEN"  # noqa: S105


def make_azure_model(
    model: str, endpoint: Endpoint, *, name: str | None = None, options: ModelOptions | None = None
) -> HttpModel:
    """Return the model of a deployment. Its API follows from whether a version is set."""
    if endpoint.setting("api_version"):
        return AzureModel(model, endpoint, name=name, options=options)
    root = endpoint.base_url.removesuffix("/openai")
    return AzureV1Model(model, replace(endpoint, base_url=f"{root}/openai/v1"), name=name, options=options)


def _make_client(endpoint: Endpoint, http: httpx2.AsyncClient) -> AsyncAzureOpenAI:
    from openai import AsyncAzureOpenAI

    from rlm.models.http.clients.sdk import without_ambient_headers

    is_token = endpoint.key_variable == _TOKEN_VARIABLE
    client = AsyncAzureOpenAI(
        azure_endpoint=endpoint.base_url.removesuffix("/openai"),
        api_version=endpoint.setting("api_version"),
        api_key=None if is_token else endpoint.key,
        azure_ad_token=endpoint.key if is_token else None,
        max_retries=0,
        default_headers=without_ambient_headers("openai", kept=("authorization", "api-key")),
        http_client=http,
    )
    client.organization = client.project = None
    return client


class AzureV1Model(OpenAIModel):
    """A deployment behind the API without versions."""

    prefix = "azure"
    takes_completion_limit = True


class AzureModel(AzureV1Model):
    """A deployment behind the API with versions."""

    clients = ClientPool("/chat/completions", SdkRoute("openai", _make_client))
