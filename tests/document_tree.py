"""Provide folders of files for tests to load, and the loaded text as plain strings."""

from __future__ import annotations

from pathlib import Path

from rlm.documents import Loaded, Problem

__all__ = ["guessed_of", "names_of", "notes_of", "put", "remarks_of", "skipped_of", "text_of"]


def put(folder: Path, **files: str | bytes) -> None:
    """Write files: `put(tree, sub__a_dot_txt="x")` writes `sub/a.txt`."""
    for name, content in files.items():
        path = folder / name.replace("__", "/").replace("_dot_", ".")
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content if isinstance(content, bytes) else content.encode())


def text_of(loaded: Loaded) -> str:
    with loaded.context.open() as body:
        return body.text(0, body.chars)


def names_of(loaded: Loaded) -> list[str]:
    return [document.name for document in loaded.context.documents]


def notes_of(loaded: Loaded) -> tuple[str, ...]:
    return _lines(loaded.of("partial"))


def remarks_of(loaded: Loaded) -> tuple[str, ...]:
    return _lines(loaded.of("remark"))


def skipped_of(loaded: Loaded) -> list[tuple[str, str]]:
    """Return name and reason of what was not read at all."""
    return [(one.document, one.what) for one in loaded.of("missing", "other", "nothing")]


def guessed_of(loaded: Loaded) -> dict[str, str]:
    return {one.document: one.what for one in loaded.of("encoding")}


def _lines(problems: list[Problem]) -> tuple[str, ...]:
    return tuple(": ".join(filter(None, (one.document, one.what, one.remedy))) for one in problems)
