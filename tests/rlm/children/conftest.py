"""Scripted models under the names and with the windows of others."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from rlm.models.base import ModelWindow
from rlm.testing import ScriptedModel

Named = Callable[..., ScriptedModel]


@pytest.fixture
def named() -> Named:
    """Return a function that makes a model with a name, a window and replies of children."""

    def make(
        name: str, child: object = "x", *, context: int = 128_000, known: bool = True, **roles: object
    ) -> ScriptedModel:
        model = ScriptedModel.of(child=child, window=ModelWindow(context, 8_000, known=known), **roles)
        model._name = name
        return model

    return make
