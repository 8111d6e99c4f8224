"""Providers and servers that speak Chat Completions, each known by its entry in the registry."""

from __future__ import annotations

from typing import Any

from rlm.models.base import Request
from rlm.models.catalog.names import parse_name
from rlm.models.http.endpoint import Endpoint
from rlm.models.options import ModelOptions
from rlm.models.providers.openai import OpenAIModel
from rlm.models.registry import PROVIDERS

__all__ = ["CompatibleModel"]


class CompatibleModel(OpenAIModel):
    """A model of a provider other than OpenAI, or of a server that the user runs. `name` has the provider's
    prefix."""

    def __init__(
        self, model: str, endpoint: Endpoint, *, name: str, options: ModelOptions | None = None
    ) -> None:
        super().__init__(model, endpoint, name=name, options=options)
        self._refused = PROVIDERS[parse_name(name).provider].refuses

    def body(self, request: Request) -> dict[str, Any]:
        body = super().body(request)
        for field in self._refused:
            body.pop(field, None)
        return body
