"""Loads files, folders, streams, strings, URLs and revisions into one context (`load`)."""

from __future__ import annotations

from rlm.documents.cache import ContextCache, default_cache
from rlm.documents.folder_cache import FolderCache, Lease
from rlm.documents.formats.piece import Problem
from rlm.documents.loaded import Loaded
from rlm.documents.loader import Progress, load
from rlm.documents.sources.frame import FrameSource
from rlm.documents.sources.given import Context, sources_of
from rlm.documents.sources.source import (
    CloudSource,
    GitSource,
    PathSource,
    Source,
    StreamSource,
    TextSource,
    UrlSource,
    as_source,
    sources_from_arguments,
)

__all__ = [
    "CloudSource",
    "Context",
    "ContextCache",
    "FolderCache",
    "FrameSource",
    "GitSource",
    "Lease",
    "Loaded",
    "PathSource",
    "Problem",
    "Progress",
    "Source",
    "StreamSource",
    "TextSource",
    "UrlSource",
    "as_source",
    "default_cache",
    "load",
    "sources_from_arguments",
    "sources_of",
]
