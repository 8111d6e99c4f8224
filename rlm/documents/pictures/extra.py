"""Tells whether the extra that pictures need is installed."""

from __future__ import annotations

from importlib.util import find_spec

__all__ = ["is_installed"]


def is_installed() -> bool:
    """Return whether Pillow is installed, without importing it."""
    return find_spec("PIL") is not None
