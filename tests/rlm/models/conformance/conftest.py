"""Provide what every conformance test needs."""

from __future__ import annotations

import pytest

from rlm.models.structured import schema_mode


@pytest.fixture(autouse=True)
def no_refusals(monkeypatch: pytest.MonkeyPatch) -> None:
    """Forget which servers refused a schema: a port may be used again by another test's server."""
    monkeypatch.setattr(schema_mode, "_refusals", set())
