"""What the name of a model tells: its family, how it is asked to think, its longest reply, its sight.

A model that thinks is sent more room than its reply takes, because every provider counts thinking against the
output limit. The room is a ceiling, not a wish: unused room costs nothing.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from functools import lru_cache
from math import ceil
from types import MappingProxyType
from typing import TYPE_CHECKING, Literal, NamedTuple

if TYPE_CHECKING:
    from rlm.models.base import Image
    from rlm.models.call_settings import CallSettings, Effort

__all__ = ["EFFORTS", "Family", "effort_of_tokens", "family_of", "image_tokens", "nearest_effort", "sees"]
__all__ += ["thinking_room"]

Style = Literal["none", "effort", "adaptive", "budget"]
"""How thinking is asked for: not at all, by `reasoning_effort`, by Anthropic's adaptive thinking with an
effort, by Anthropic's budget of tokens."""

_ROOM: Mapping[str, int] = MappingProxyType(
    {
        "none": 0,
        "minimal": 2_000,
        "low": 8_000,
        "medium": 16_000,
        "high": 32_000,
        "xhigh": 48_000,
        "max": 64_000,
    }
)
EFFORTS = tuple(_ROOM)
"""The names of all efforts, the lowest first."""
_WINDOW_SHARE = 4
"""Thinking may take one in so many tokens of a window, unless the user gives a number."""


class Family(NamedTuple):
    """A family. `pattern` is searched in the provider's own name for a model. `effort` is what its models do
    unless they are told; "none" if they do not think then. `takes_temperature` is False where a provider
    refuses a temperature. `output` is the most tokens of a reply with its thinking, if its maker says so;
    `sees` tells whether its models take pictures. None means unknown."""

    pattern: str
    style: Style
    effort: Effort = "medium"
    takes_temperature: bool = True
    output: int | None = None
    sees: bool | None = None


# As of 2026-11-22, from platform.claude.com, developers.openai.com and the model cards. The first match wins.
_FAMILIES = (
    # Claude 5 and later think unless they are told not to. 4.6 to 4.8 think when they are told to.
    Family(
        r"claude-(?:fable|mythos|(?:opus|sonnet|haiku)-(?:[5-9]|\d\d))",
        "adaptive",
        "high",
        False,
        128_000,
        True,
    ),
    Family(r"claude-(?:opus|sonnet|haiku)-4[-.][6-9]\b", "adaptive", "none", False, 128_000, True),
    Family(r"claude-(?:opus|sonnet|haiku)-4[-.]5\b", "budget", "none", False, 64_000, True),
    Family(r"claude-(?:3|opus|sonnet|haiku)", "budget", "none", False, sees=True),
    Family(r"claude", "budget", "none", False),
    Family(r"gpt-[5-9][\w.]*-chat", "none", "none", sees=True),
    Family(r"(?:^|/)gpt-[5-9]", "effort", "medium", False, 128_000, True),
    Family(r"(?:^|/)o[13]-(?:mini|preview)", "effort", "medium", False, 32_768),
    Family(r"(?:^|/)o[134](?:-|$)", "effort", "medium", False, 100_000, True),
    Family(r"gpt-oss", "effort", "medium", sees=False),
    Family(r"gpt-4\.1", "effort", "none", True, 32_768, True),
    Family(r"gpt-4o", "effort", "none", True, 16_384, True),
    Family(r"gpt-4(?:\.5|-turbo|-vision)", "effort", "none", sees=True),
    Family(r"gemini-(?:2\.5|[3-9])", "effort", "medium", True, 65_536, True),
    Family(r"gemini", "effort", "none", sees=True),
    Family(r"(?i)instruct|-coder|non-?thinking|non-?reasoning", "none", "none"),
    Family(
        r"(?i)qwen-?3|qwq|deepseek-(?:r\d|reasoner|v[4-9])|magistral|kimi-k(?:2.*think|2\.[5-9]|[3-9])"
        r"|glm-(?:4\.[5-9]|[5-9])|minimax-m|grok-(?:3-mini|[4-9])|nemotron|seed-oss"
        r"|think|reason|(?:^|[-/:])r1(?:[-:]|$)",
        "effort",
    ),
)
_PLAIN = Family("", "effort", "none")
_SEES = re.compile(
    r"gemma-?3(?!.{0,3}(?:1b|270m))|gemma-?[4-9]|paligemma"
    r"|pixtral|mistral-small-?3\.[1-9]|mistral-small-(?:25|26|latest)|mistral-medium|mistral-large-(?:3|25|26)"
    r"|ministral-3|magistral-\w+-(?:2509|1\.2)"
    r"|llama-?3\.2-(?:11b|90b)|llama-?4|llava|bakllava|vila"
    r"|qwen[\d.]*-?vl|qwen3\.5|qvq|internvl|minicpm-[vo]|molmo|moondream|smolvlm|granite.*vision"
    r"|phi-?4-multimodal|glm-\d(?:\.\d)?v|deepseek-(?:vl|ocr)|kimi-vl|kimi-k2\.[5-9]"
    r"|nova-(?:lite|pro|premier|2)|grok-(?:[4-9]|\d?-?vision)|.*[-_.:/](?:vl|vision|multimodal)(?:[-_.:]|$)"
)


@lru_cache(maxsize=256)
def family_of(model: str) -> Family:
    """Return the family of a provider's own name for a model. Other models do not think unless told to."""
    return next((family for family in _FAMILIES if re.search(family.pattern, model)), _PLAIN)


@lru_cache(maxsize=256)
def sees(model: str) -> bool | None:
    """Return whether `model`, a provider's own name without prefix, sees pictures. None means unknown."""
    known = family_of(model).sees
    # Routers and clouds put vendors before the name: `meta-llama/llama-…`, `us.amazon.nova-…`.
    name = re.sub(
        r"^(?:[a-z]{2,6}\.)?(?:amazon|meta|mistral|qwen|google)\.", "", model.lower().rpartition("/")[2]
    )
    return True if known is None and _SEES.match(name) else known


def thinking_room(model: str, calls: CallSettings, context: int) -> int:
    """Return the tokens that a reply of `model` may think with, in a window of `context` tokens."""
    if calls.thinking is not None:
        return min(calls.thinking, context // 2)
    return min(_ROOM[calls.effort or family_of(model).effort], context // _WINDOW_SHARE)


def effort_of_tokens(tokens: int) -> Effort:
    """Return the effort that is nearest to a number of thinking tokens, for models that take no number."""
    return "none" if not tokens else "low" if tokens < 8_000 else "medium" if tokens < 24_000 else "high"


def nearest_effort(effort: str, known: tuple[str, ...]) -> str | None:
    """Return the effort of `known` that is nearest to `effort`, or None if none of them is an effort. The
    lower one of two, because it costs less; but never "none" for an effort above it."""
    levels = [one for one in EFFORTS if one in known and (one != "none" or effort == "none")]
    wanted = EFFORTS.index(effort)
    return min(levels, key=lambda one: (abs(EFFORTS.index(one) - wanted), EFFORTS.index(one)), default=None)


def image_tokens(model: str, image: Image) -> int:
    """Return the most tokens that `model` counts for `image`, as far as its provider says how it counts:
    Anthropic a token for 750 pixels; OpenAI 170 for each tile of 512 pixels of the picture scaled to
    2,048 by 768, or up to 2.46 for each of at most 1,536 patches of 32. The larger of these stands for all
    others."""
    width, height = max(1, image.width), max(1, image.height)
    if re.search(r"(?i)claude|^anthropic:", model):
        return ceil(width * height / 750)
    scale = min(1.0, 2048 / max(width, height))
    scale = min(scale, 768 / min(width, height))
    tiles = 85 + 170 * ceil(width * scale / 512) * ceil(height * scale / 512)
    if re.search(r"(?i)gpt-4o-mini", model):
        return tiles * 34
    return max(tiles, ceil(2.46 * min(ceil(width / 32) * ceil(height / 32), 1536)))
