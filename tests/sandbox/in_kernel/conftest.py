"""Provide what a cell reads with, without a kernel."""

from __future__ import annotations

from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import pytest

from rlm.sandbox.in_kernel.handle import Handle
from rlm.sandbox.in_kernel.helpers import Helpers


@pytest.fixture(scope="module")
def make_views(make_body: Callable[..., Any]) -> Callable[..., Any]:
    """Return `make(*documents)`, which gives the methods of a handle, and `tables` and `sql`."""

    def make(*documents: Any) -> Any:
        handle = Handle(make_body(*documents))
        helpers = Helpers(handle, SimpleNamespace(), {}, dict, {})
        names = [name for name in dir(handle) if not name.startswith("_")]
        own = {name: getattr(helpers, name) for name in ("tables", "sql")}
        return SimpleNamespace(**{name: getattr(handle, name) for name in names}, **own)

    return make
