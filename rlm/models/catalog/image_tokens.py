"""Estimates the tokens of a picture, which providers count by its pixels."""

from __future__ import annotations

import re
from math import ceil

from rlm.models.base import Image

__all__ = ["image_tokens"]

_ANTHROPIC_PIXELS = 750
"""Pixels of a token."""
_TILE, _TILE_TOKENS, _BASE_TOKENS = 512, 170, 85
_LONG_SIDE, _SHORT_SIDE = 2048, 768
"""OpenAI scales a picture to fit these, before it cuts it into tiles."""
_PATCH, _MAX_PATCHES = 32, 1536
_PATCH_FACTOR = 2.46
"""The largest factor of the models that count patches (gpt-4.1-nano)."""
_MINI_FACTOR = 34
"""gpt-4o-mini counts so many times the tokens of gpt-4o for a picture."""
_CLAUDE = re.compile(r"claude|^anthropic:", re.IGNORECASE)
_MINI = re.compile(r"gpt-4o-mini", re.IGNORECASE)


def image_tokens(model: str, image: Image) -> int:
    """Return the most tokens that `model` counts for `image`, as far as its provider says how it counts.

    Anthropic counts a token for 750 pixels; OpenAI counts tiles of 512 pixels or patches of 32, by the model.
    The larger of the two stands for all others.
    """
    width, height = max(1, image.width), max(1, image.height)
    if _CLAUDE.search(model):
        return ceil(width * height / _ANTHROPIC_PIXELS)
    tiles = _tile_tokens(width, height)
    if _MINI.search(model):
        return tiles * _MINI_FACTOR
    patches = min(ceil(width / _PATCH) * ceil(height / _PATCH), _MAX_PATCHES)
    return max(tiles, ceil(patches * _PATCH_FACTOR))


def _tile_tokens(width: int, height: int) -> int:
    scale = min(1.0, _LONG_SIDE / max(width, height))
    scale = min(scale, _SHORT_SIDE / min(width, height))
    tiles = ceil(width * scale / _TILE) * ceil(height * scale / _TILE)
    return _BASE_TOKENS + _TILE_TOKENS * tiles
