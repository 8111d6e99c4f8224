"""Retrieval without a model: rank passages of a body by BM25 or tf-idf and return them as citable packs.

with Retriever.over([Path("contracts/")]) as retriever:
    for pack in retriever.retrieve("notice period", expand="section"):
        print(pack.document, pack.heading_path, pack.score, pack.text)
"""

from __future__ import annotations

from rlm.retrieval.cache import IndexCache, default_index_cache
from rlm.retrieval.index import QueryStopped, RetrievalError
from rlm.retrieval.packs import Pack
from rlm.retrieval.retriever import Retriever

__all__ = ["IndexCache", "Pack", "QueryStopped", "RetrievalError", "Retriever", "default_index_cache"]
