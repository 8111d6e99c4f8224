"""placeholder"""

from __future__ import annotations

from contextlib import contextmanager
from typing import Any


class RayCluster:
    def __init__(self, *, address: str | None, workers: int | None, jobs: int) -> None: ...
    @contextmanager
    def engine(self, *a: Any) -> Any:
        yield None
