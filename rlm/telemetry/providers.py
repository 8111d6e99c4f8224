"""The names of providers by the conventions for generative AI."""

from __future__ import annotations

from rlm.errors import ConfigurationError
from rlm.models.catalog.names import parse_name
from rlm.models.registry import PROVIDERS

__all__ = ["find_provider"]


def find_provider(model: str) -> str:
    """Return the name of the provider of `model`, or `rlm` for models that ask no provider."""
    try:
        spec = PROVIDERS.get(parse_name(model).provider)
    except ConfigurationError:  # a caller's own model may have any name
        spec = None
    return "rlm" if spec is None else spec.telemetry_name
