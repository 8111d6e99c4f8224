"""Quote foreign text inside our own."""

from __future__ import annotations

from rlm.escaping import json_text

__all__ = ["quote"]


def quote(text: str) -> str:
    """Return `text` as a one-line JSON string.

    It can't close its own quotes, so text from a document or a reply can't pose as our instructions.
    """
    return json_text(text)
