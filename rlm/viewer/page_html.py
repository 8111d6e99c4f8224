"""The page as one HTML text: its style and its code inline, and no address outside of its own server.

The code is static, so its hashes are in the policy and no other script runs, whatever a text says.
"""

from __future__ import annotations

import base64
import hashlib
from collections.abc import Mapping
from functools import cache
from importlib.resources import files
from types import MappingProxyType
from typing import Any

from rlm.escaping import page_json

__all__ = ["DATA_HEADERS", "PAGE_HEADERS", "page_bytes"]

_STYLES = ("base.css", "run.css", "parts.css")
_SCRIPTS = (
    "ui.js", "fold.js", "data.js", "highlight.js", "coverage.js", "answer.js", "tree.js", "children.js",
    "rounds.js", "waterfall.js", "detail.js", "search.js", "keys.js", "app.js",
)  # fmt: skip
_VENDOR = "vendor/htm-preact-3.1.1.js"


def page_bytes(api: str = "api/", data: Mapping[str, Any] | None = None) -> bytes:
    """Return the page in UTF-8. It asks for its data below `api`, relative to its own address. With `data`,
    of an export, it asks for nothing."""
    parts = {
        "policy": policy(is_export=data is not None),
        "style": style_text(),
        "vendor": _file(_VENDOR),
        "script": script_text(),
        "data": page_json({"api": api} if data is None else data).decode("ascii"),
    }
    page = _file("page.html")
    # Not one after another: what was put in may hold the name of the next place.
    pieces = page.split("{{")
    filled = [pieces[0]]
    for piece in pieces[1:]:
        name, _, rest = piece.partition("}}")
        filled += [parts[name], rest]
    return "".join(filled).encode("utf-8")


def policy(*, is_export: bool = False) -> str:
    """Return the Content-Security-Policy of the page: nothing but its own code and style, and its server."""
    scripts = " ".join(_hash(text) for text in (_file(_VENDOR), script_text()))
    connect = "'none'" if is_export else "'self'"
    return (
        f"default-src 'none'; script-src {scripts}; style-src {_hash(style_text())}; connect-src {connect}; "
        "img-src data:; base-uri 'none'; form-action 'none'; require-trusted-types-for 'script'"
    )


@cache
def style_text() -> str:
    """Return the style of the page."""
    return "".join(map(_file, _STYLES))


@cache
def script_text() -> str:
    """Return the code of the page, in one scope."""
    return '"use strict";\n(() => {\n' + "\n".join(map(_file, _SCRIPTS)) + "})();\n"


def _hash(text: str) -> str:
    digest = base64.b64encode(hashlib.sha256(text.encode("utf-8")).digest()).decode("ascii")
    return f"'sha256-{digest}'"


@cache
def _file(name: str) -> str:
    return (files("rlm.viewer") / "page" / name).read_text(encoding="utf-8")


_SHARED = {
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "no-referrer",
    "Cache-Control": "no-store",
    "Cross-Origin-Resource-Policy": "same-origin",
}
PAGE_HEADERS: Mapping[str, str] = MappingProxyType(
    {
        **_SHARED,
        "Content-Type": "text/html; charset=utf-8",
        "Content-Security-Policy": f"{policy()}; frame-ancestors 'none'",
        "Cross-Origin-Opener-Policy": "same-origin",
        "X-Frame-Options": "DENY",
    }
)
DATA_HEADERS: Mapping[str, str] = MappingProxyType(
    {
        **_SHARED,
        "Content-Type": "application/json",
        "Content-Security-Policy": "default-src 'none'; frame-ancestors 'none'",
    }
)
