"""Retrieval without a model: rank passages of a body by BM25 or tf-idf and return them as citable packs.

with Retriever.over([Path("contracts/")]) as retriever:
    for pack in retriever.retrieve("notice period", expand="section"):
        print(pack.document, pack.heading_path, pack.score, pack.text)
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from rlm.retrieval.errors import QueryStopped, RetrievalError
    from rlm.retrieval.packs import Pack
    from rlm.retrieval.retriever import Retriever

__all__ = ["Pack", "QueryStopped", "RetrievalError", "Retriever"]

# Each name is imported on first use: many runs rank nothing.
_HOMES = {
    "Pack": "rlm.retrieval.packs",
    "QueryStopped": "rlm.retrieval.errors",
    "RetrievalError": "rlm.retrieval.errors",
    "Retriever": "rlm.retrieval.retriever",
}


def __getattr__(name: str) -> Any:
    home = _HOMES.get(name)
    if home is None:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(home), name)


def __dir__() -> list[str]:
    return sorted(__all__)
