"""Foreign text inside our own words."""

from __future__ import annotations

import json

__all__ = ["quoted"]


def quoted(text: str) -> str:
    """`text` as a JSON string: on one line and unable to end its own quotes, so that what a document or
    a reply holds can't pose as our words."""
    line = json.dumps(text, ensure_ascii=False)
    return line.replace("\x85", "\\u0085").replace("\u2028", "\\u2028").replace("\u2029", "\\u2029")
