"""Loads files, folders, streams and strings into one context (`load`)."""

from __future__ import annotations

from rlm.documents.cache import ContextCache, default_cache
from rlm.documents.loaded import CacheLease, GuessedEncoding, Loaded, Skipped
from rlm.documents.loader import Progress, load
from rlm.documents.source import (
    Context,
    PathSource,
    Source,
    StreamSource,
    TextSource,
    as_source,
    sources_from_arguments,
    sources_of,
)

__all__ = [
    "CacheLease",
    "Context",
    "ContextCache",
    "GuessedEncoding",
    "Loaded",
    "PathSource",
    "Progress",
    "Skipped",
    "Source",
    "StreamSource",
    "TextSource",
    "as_source",
    "default_cache",
    "load",
    "sources_from_arguments",
    "sources_of",
]
