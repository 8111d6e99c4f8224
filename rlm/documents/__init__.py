"""Files, folders, streams and strings become one context: `load` is the door."""

from __future__ import annotations

from rlm.documents.loader import Guessed, Loaded, Progress, Skipped, load
from rlm.documents.source import PathSource, Source, StreamSource, TextSource, sources_from_arguments

__all__ = [
    "Guessed",
    "Loaded",
    "PathSource",
    "Progress",
    "Skipped",
    "Source",
    "StreamSource",
    "TextSource",
    "load",
    "sources_from_arguments",
]
