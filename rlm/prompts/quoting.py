"""Quote foreign text inside our own."""

from __future__ import annotations

import json

__all__ = ["quote"]


def quote(text: str) -> str:
    """Return `text` as a one-line JSON string.

    It can't close its own quotes, so text from a document or a reply can't pose as our instructions.
    """
    line = json.dumps(text, ensure_ascii=False)
    return line.replace("\x85", "\\u0085").replace("\u2028", "\\u2028").replace("\u2029", "\\u2029")
