"""Provide folders of files for tests to load, and the loaded text as plain strings."""

from __future__ import annotations

from pathlib import Path

from rlm.documents import Loaded

__all__ = ["names_of", "put", "text_of"]


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
