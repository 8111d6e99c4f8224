"""The engines by name."""

from __future__ import annotations

from rlm.retrieval.index import EngineName, IndexEngine

__all__ = ["engine_named"]


def engine_named(name: EngineName) -> IndexEngine:
    """Raises ConfigurationError when its library is not there."""
    if name == "fts5":
        from rlm.retrieval.fts5 import Fts5Engine

        return Fts5Engine()
    from rlm.retrieval.tantivy_engine import TantivyEngine

    return TantivyEngine()
