"""The forms in which a Python caller gives a context: texts, paths, files, tables, JSON, lists of these."""

from __future__ import annotations

import codecs
import io
import os
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import IO, Any, BinaryIO, TypeAlias, cast

from rlm.documents.sources.frame import FrameLike, SeriesLike, frame_source, is_frame
from rlm.documents.sources.source import (
    SCHEME,
    WEB,
    PathSource,
    Source,
    StreamSource,
    TextSource,
    as_source,
    describe,
    exists,
)
from rlm.errors import UsageError

__all__ = ["Context", "sources_of"]

_MAX_PATH = 4_096
_JSON_NAME = "JSON"
_FORMS = "give a text, a Path, an open file, a dict, a DataFrame, or a list of these"

_One: TypeAlias = (
    str | bytes | os.PathLike[str] | IO[str] | IO[bytes] | Mapping[str, Any] | FrameLike | SeriesLike | Source
)
Context: TypeAlias = _One | Sequence[_One]
"""A text, a path (file or folder), an open file, a table of pandas, JSON, or a list of these.

A mapping is one JSON document; so is a list that holds nothing but mappings, such as records or messages of a
chat. In other lists each element is a document, or several for a folder."""


def sources_of(context: Context) -> list[Source]:
    """Return the sources of a context that a caller gave.

    Raises UsageError for anything else, and for a text that only names an existing file or is only a URL:
    its few characters would be searched instead of the file. A text is never downloaded unasked.
    """
    one = _source(context)
    if one is not None:
        return [one]
    if not isinstance(context, Iterable) or hasattr(context, "shape"):
        raise UsageError(f"the context is {describe(context)}: {_FORMS}")
    each = list(context)
    if each and all(isinstance(one, Mapping) for one in each):
        return [_json_source(each)]
    sources = []
    for given in each:
        source = _source(given)
        if source is None:
            raise UsageError(f"the context holds {describe(given)}: {_FORMS}")
        sources.append(source)
    return sources


def _source(given: object) -> Source | None:
    """Return a context of one source, or None if it is none."""
    if isinstance(given, str):
        _refuse_path_or_url(given)
    if isinstance(given, str | bytes | Path | Source):
        return as_source(given)
    if isinstance(given, bytearray | memoryview):
        return TextSource("text", bytes(given))
    if isinstance(given, os.PathLike):
        return PathSource(Path(os.fsdecode(given)))
    if is_frame(given):
        return frame_source(given)
    if isinstance(given, Mapping):
        return _json_source(given)
    if hasattr(given, "read"):
        return _stream_source(cast("IO[str] | IO[bytes]", given))
    return None


def _refuse_path_or_url(text: str) -> None:
    if len(text) > _MAX_PATH:
        return
    line = text.strip()
    if line and "\n" not in line and exists(Path(line)):
        raise UsageError(
            f"the context is the text {line!r}, which names an existing file or folder: give "
            f"Path({line!r}) to read it, or rlm.documents.TextSource('text', …) for these characters"
        )
    if SCHEME.match(line) and not any(char.isspace() for char in line):
        kind = "UrlSource" if WEB.match(line) else "CloudSource"
        raise UsageError(
            f"the context is the URL {line!r}: give rlm.documents.{kind}({line!r}) to download it, or "
            "rlm.documents.TextSource('text', …) for these characters"
        )


def _json_source(value: Any) -> TextSource:
    """Return data as a JSON document. Dates, decimals, dataclasses and pydantic models become JSON, too."""
    from pydantic_core import PydanticSerializationError, to_json

    try:
        data = to_json(value, indent=2, inf_nan_mode="constants", fallback=_plain)
    except (PydanticSerializationError, UnicodeError, ValueError) as error:
        raise UsageError(f"the context is no JSON: {error}. Give a text, or values that JSON has") from None
    return TextSource(_JSON_NAME, data.decode(), "json")


def _plain(value: Any) -> Any:
    """Return a number of numpy as Python's own."""
    if type(value).__module__ == "numpy" and hasattr(value, "tolist"):
        return value.tolist()
    raise ValueError(f"it holds {describe(value)}")


def _stream_source(stream: IO[str] | IO[bytes]) -> Source:
    """Return an open file as a source, from where it stands. The caller closes it, after the run."""
    if getattr(stream, "closed", False):
        raise UsageError("the context is a closed file: give it open, or its Path")
    given = getattr(stream, "name", None)
    name = Path(given).name if isinstance(given, str) else "file"
    if isinstance(stream, io.TextIOWrapper) and _is_untouched_utf8(stream):
        return StreamSource(name, stream.buffer)
    if isinstance(stream, io.TextIOBase):
        # What its own encoding makes of it, or what is left of it.
        return StreamSource(name, io.BytesIO(stream.read().encode("utf-8", "surrogatepass")))
    return StreamSource(name, cast("BinaryIO", stream))


def _is_untouched_utf8(stream: io.TextIOWrapper) -> bool:
    """Return whether the bytes of a text file may be read in its place."""
    try:
        is_utf8 = codecs.lookup(stream.encoding).name in ("utf-8", "ascii")
        return is_utf8 and (not stream.seekable() or stream.tell() == 0)
    except (LookupError, OSError):
        return False
