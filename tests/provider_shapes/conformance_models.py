"""Make the models of every provider in the registry, for tests/rlm/models/conformance.

A variant is the name of a model. Where a provider speaks several protocols, each has a variant.
"""

from __future__ import annotations

from functools import cache
from typing import Any
from urllib.parse import urlsplit

from rlm.models.call_settings import CallSettings
from rlm.models.options import ModelOptions, RetryPolicy
from rlm.models.registry import PROVIDERS
from rlm.models.resolution import resolve

__all__ = ["FRAMED", "PROTOCOLS", "QUICK", "VARIANTS", "is_first_of_its_class", "make_variant", "protocol_of"]

QUICK = RetryPolicy(attempts=3, base=0.001, cap=0.002, retry_after_cap=0.01)

PROTOCOLS = {
    "/chat/completions": "chat_completions",
    "/v1/messages": "messages",
    "/responses": "responses",
    "/api/chat": "ollama",
}
"""The protocol of each path that a provider's requests go to. A new one needs recordings and a line here."""

_RESPONSES = "openai:m over responses"
_OTHERS = {"openai": [_RESPONSES], "vertex": ["vertex:claude-m"]}
FRAMED = frozenset({"bedrock"})
"""Providers whose SDK signs requests for an address of its own; tests/rlm/models/named tries them."""


def make_variant(variant: str, url: str, *, key: str = "sk-test-0123456789", **options: Any) -> Any:
    """Return the model `variant`, whose gateway is the server at `url`."""
    name, _, api = variant.partition(" over ")
    spec = PROVIDERS[name.partition(":")[0]]
    path = "" if "{" in spec.base_url else urlsplit(spec.base_url).path
    env = {spec.key_variable: key, spec.base_url_variable: url + path}
    for variables in spec.settings.values():
        env.setdefault(variables[0], "2026-10-01" if "VERSION" in variables[0] else "one")
    if api:
        options["calls"] = CallSettings(api=api)  # type: ignore[arg-type]
    return resolve(name, env, ModelOptions(**options))


def is_first_of_its_class(variant: str) -> bool:
    """Return whether no variant before it is of the same class: the others differ in facts only."""
    kind = type(_example_of(variant))
    return variant == next(one for one in VARIANTS if type(_example_of(one)) is kind)


def protocol_of(variant: str) -> str:
    """Return the name of the protocol that a variant speaks."""
    return PROTOCOLS[_example_of(variant).path]


@cache
def _example_of(variant: str) -> Any:
    return make_variant(variant, "http://127.0.0.1:9")


VARIANTS = [
    name for prefix in PROVIDERS if prefix not in FRAMED for name in (f"{prefix}:m", *_OTHERS.get(prefix, ()))
]
