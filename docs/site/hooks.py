"""Hooks of MkDocs: pages that the navigation does not name yet stand under More."""

from __future__ import annotations

from pathlib import Path
from typing import Any

__all__ = ["on_config"]


def on_config(config: Any) -> Any:
    """Add the pages that `nav` lacks, so that a new page is on the site at once."""
    pages = Path(config.docs_dir)
    named = set(_targets(config.nav))
    more = sorted(page.relative_to(pages).as_posix() for page in pages.rglob("*.md"))
    unnamed = [page for page in more if page not in named]
    if unnamed:
        config.nav.append({"More": unnamed})
    return config


def _targets(nav: Any) -> list[str]:
    if isinstance(nav, str):
        return [nav]
    entries = nav.values() if isinstance(nav, dict) else nav
    return [target for entry in entries for target in _targets(entry)]
