"""The model `extractive`: a program that plays root and children, so that runs work without a key.

It is deterministic and offline. As root it writes real repl cells for the five phases. As a child it returns
the best verbatim sentences of its slice. Its answers are extracts and say so.
"""

from __future__ import annotations

from rlm.models.base import EXTRACTIVE, ModelWindow, Reply, Request
from rlm.models.offline.extractive.reader import read
from rlm.models.offline.extractive.root import next_block

__all__ = ["ExtractiveModel"]


class ExtractiveModel:
    """Implements Model. Costs nothing and counts no tokens."""

    @property
    def name(self) -> str:
        return EXTRACTIVE

    @property
    def window(self) -> ModelWindow:
        return ModelWindow(context=128_000, output=8_000)

    async def generate(self, request: Request) -> Reply:
        if request.role == "root":
            return Reply(next_block(request))
        return Reply(read(request))

    async def aclose(self) -> None:
        """Do nothing: there is nothing to close."""
