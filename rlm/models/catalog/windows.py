"""How much each well-known model takes and gives, in tokens."""

from __future__ import annotations

from functools import lru_cache

from rlm.models.base import ModelWindow

__all__ = ["DEFAULT_WINDOW", "known_models", "window_of"]

DEFAULT_WINDOW = ModelWindow(context=128_000, output=8_000, known=False)

# As of 2026-11-20. Context windows: the data of genai-prices 0.2.3. Output limits: the model pages of
# platform.claude.com and developers.openai.com. A name stands for itself and for its dated versions;
# of several that fit, the longest wins.
_WINDOWS: dict[str, tuple[int, int]] = {
    "claude-fable-5": (1_000_000, 128_000),
    "claude-mythos-5": (1_000_000, 128_000),
    "claude-opus-5": (1_000_000, 128_000),
    "claude-opus-5-5": (1_000_000, 128_000),
    "claude-sonnet-5": (1_000_000, 128_000),
    "claude-sonnet-5-5": (1_000_000, 128_000),
    "claude-haiku-5-5": (1_000_000, 128_000),
    "claude-opus-4-8": (1_000_000, 128_000),
    "claude-opus-4-7": (1_000_000, 128_000),
    "claude-opus-4-6": (1_000_000, 128_000),
    "claude-sonnet-4-6": (1_000_000, 128_000),
    "claude-opus-4-5": (200_000, 64_000),
    "claude-sonnet-4-5": (200_000, 64_000),
    "claude-haiku-4-5": (200_000, 64_000),
    "gpt-6-astra": (1_050_000, 128_000),
    "gpt-6-sol": (1_050_000, 128_000),
    "gpt-6-luna": (1_050_000, 128_000),
    "gpt-6.1-sol": (1_050_000, 128_000),
    "gpt-6.1-terra": (1_050_000, 128_000),
    "gpt-5.6-sol": (1_050_000, 128_000),
    "gpt-5.6-terra": (1_050_000, 128_000),
    "gpt-5.6-luna": (1_050_000, 128_000),
    "gpt-5.5": (1_000_000, 128_000),
    "gpt-5.4": (1_050_000, 128_000),
    "gpt-5.4-mini": (400_000, 128_000),
    "gpt-5.4-nano": (400_000, 128_000),
    "gpt-5.2": (400_000, 128_000),
    "gpt-5.1": (400_000, 128_000),
    "gpt-5": (400_000, 128_000),
    "gpt-5-mini": (400_000, 128_000),
    "gpt-5-nano": (400_000, 128_000),
    "gpt-4.1": (1_000_000, 32_768),
    "gpt-4.1-mini": (1_000_000, 32_768),
    "gpt-4.1-nano": (1_000_000, 32_768),
    "gpt-4o": (128_000, 16_384),
    "gpt-4o-mini": (128_000, 16_384),
    "o1": (200_000, 100_000),
    "o3": (200_000, 100_000),
    "o3-mini": (200_000, 100_000),
    "o4-mini": (200_000, 100_000),
}


def known_models() -> tuple[str, ...]:
    """The names in the table, as providers write them."""
    return tuple(_WINDOWS)


@lru_cache(maxsize=256)
def window_of(model: str) -> ModelWindow:
    """The window of `model`, a provider's own name without `anthropic:` or `openai:` before it. A name
    that is not in the table has the defaults, with `known` False."""
    fitting = [name for name in _WINDOWS if model == name or _is_version(model, name)]
    if not fitting:
        return DEFAULT_WINDOW
    context, output = _WINDOWS[max(fitting, key=len)]
    return ModelWindow(context=context, output=output)


def _is_version(model: str, name: str) -> bool:
    """Whether `model` is `name` with a date or `latest` behind it: `gpt-5-2025-08-07`, not `gpt-5-pro`."""
    if not model.startswith(f"{name}-"):
        return False
    tail = model[len(name) + 1 :]
    return tail == "latest" or (len(tail) >= 8 and tail.replace("-", "").isdigit())
