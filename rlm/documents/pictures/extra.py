"""Tells whether the extra that pictures need is installed."""

from __future__ import annotations

from importlib.util import find_spec

__all__ = ["EXTRA", "LOOK_REMEDY", "is_installed"]

EXTRA = "rlm-kernel[vision]"
LOOK_REMEDY = f"let a model look at it: a --sub-model that sees, and pip install '{EXTRA}'"
"""What to do with pages and pictures that hold no text."""


def is_installed() -> bool:
    """Return whether Pillow is installed, without importing it."""
    return find_spec("PIL") is not None
