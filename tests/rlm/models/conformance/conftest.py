"""Provide the models of all providers, on a server of ours."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from typing import Any

import pytest
from conformance_models import QUICK, make_variant

from rlm.models.http import model as http_model


@pytest.fixture(autouse=True)
def no_refusals(monkeypatch: pytest.MonkeyPatch) -> None:
    """Forget which servers refused a schema: a port may be used again by another test's server."""
    monkeypatch.setattr(http_model, "_refused_schemas", set())


@pytest.fixture
async def make_provider(provider_server: Any) -> AsyncIterator[Callable[..., Any]]:
    """Yield `make_provider(variant, url, key=..., **options)`. It returns the model of a variant, whose
    gateway is the server at `url`, and whose retries hardly wait. They are closed before the server."""
    made: list[Any] = []

    def make(variant: str, url: str, *, key: str = "sk-test-0123456789", **options: Any) -> Any:
        made.append(make_variant(variant, url, key=key, **{"retry": QUICK, **options}))
        return made[-1]

    yield make
    for model in made:
        await model.aclose()
