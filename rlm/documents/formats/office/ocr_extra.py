"""Tells whether the extra that recognizes words in pictures is installed."""

from __future__ import annotations

from functools import cache
from importlib.util import find_spec

__all__ = ["is_installed"]


@cache
def is_installed() -> bool:
    """Return whether RapidOCR and its runtime are installed, without importing them."""
    return find_spec("rapidocr") is not None and find_spec("onnxruntime") is not None
