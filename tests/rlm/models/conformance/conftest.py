"""Provide the models of all providers, on a server of ours."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from typing import Any
from urllib.parse import urlsplit

import pytest

from rlm.models.options import ModelOptions, RetryPolicy
from rlm.models.registry import PROVIDERS
from rlm.models.resolution import resolve
from rlm.models.structured import schema_mode

QUICK = RetryPolicy(attempts=3, base=0.001, cap=0.002, retry_after_cap=0.01)


@pytest.fixture(autouse=True)
def no_refusals(monkeypatch: pytest.MonkeyPatch) -> None:
    """Forget which servers refused a schema: a port may be used again by another test's server."""
    monkeypatch.setattr(schema_mode, "_refusals", set())


@pytest.fixture
async def make_provider(provider_server: Any) -> AsyncIterator[Callable[..., Any]]:
    """Yield `make_provider(prefix, url, key=..., **options)`. It returns the provider's model `m`, whose
    gateway is the server at `url`, and whose retries hardly wait. They are closed before the server."""
    made: list[Any] = []

    def make(prefix: str, url: str, *, key: str = "sk-test-0123456789", **options: Any) -> Any:
        spec = PROVIDERS[prefix]
        env = {spec.key_variable: key, spec.base_url_variable: url + urlsplit(spec.base_url).path}
        made.append(resolve(f"{prefix}:m", env, options=ModelOptions(**{"retry": QUICK, **options})))
        return made[-1]

    yield make
    for model in made:
        await model.aclose()
