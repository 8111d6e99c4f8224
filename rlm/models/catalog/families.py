"""Families of models that think before they reply: how much room that takes, and how it is asked for.

A model that thinks is sent more room than its reply takes, because every provider counts thinking against the
output limit. The room is a ceiling, not a wish: unused room costs nothing.
"""

from __future__ import annotations

import re
from functools import lru_cache
from types import MappingProxyType
from typing import TYPE_CHECKING, Literal

from rlm.lazy_dataclass import dataclass

if TYPE_CHECKING:
    from collections.abc import Mapping

    from rlm.models.call_settings import CallSettings, Effort

__all__ = ["EFFORTS", "Family", "effort_of_tokens", "family_of", "nearest_effort", "thinking_room"]

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


@dataclass(frozen=True, slots=True)
class Family:
    """A family. `pattern` is searched in the provider's own name for a model. `effort` is what its models do
    unless they are told; "none" if they do not think then. `takes_temperature` is False where a provider
    refuses a temperature."""

    pattern: str
    style: Style
    effort: Effort = "medium"
    takes_temperature: bool = True


# As of 2026-11-22, from platform.claude.com, developers.openai.com and the model cards. The first match wins.
_FAMILIES = (
    # Claude 5 and later think unless they are told not to. 4.6 to 4.8 think when they are told to.
    Family(r"claude-(?:fable|mythos|(?:opus|sonnet|haiku)-(?:[5-9]|\d\d))", "adaptive", "high", False),
    Family(r"claude-(?:opus|sonnet|haiku)-4-[6-9]\b", "adaptive", "none", False),
    Family(r"claude", "budget", "none", False),
    Family(r"gpt-[5-9][\w.]*-chat", "none", "none"),
    Family(r"(?:^|/)(?:gpt-[5-9]|o[134](?:-|$))", "effort", "medium", False),
    Family(r"gpt-oss", "effort", "medium"),
    Family(r"(?i)instruct|-coder|non-?thinking|non-?reasoning", "none", "none"),
    Family(
        r"(?i)qwen-?3|qwq|deepseek-(?:r\d|reasoner|v[4-9])|magistral|kimi-k(?:2.*think|2\.[5-9]|[3-9])"
        r"|glm-(?:4\.[5-9]|[5-9])|minimax-m|gemini-(?:2\.5|[3-9])|grok-(?:3-mini|[4-9])|nemotron|seed-oss"
        r"|think|reason|(?:^|[-/:])r1(?:[-:]|$)",
        "effort",
    ),
)
_PLAIN = Family("", "effort", "none")


@lru_cache(maxsize=256)
def family_of(model: str) -> Family:
    """Return the family of a provider's own name for a model. Other models do not think unless told to."""
    return next((family for family in _FAMILIES if re.search(family.pattern, model)), _PLAIN)


def thinking_room(model: str, calls: CallSettings, context: int) -> int:
    """Return the tokens that a reply of `model` may think with, in a window of `context` tokens."""
    if calls.thinking_tokens is not None:
        return min(calls.thinking_tokens, context // 2)
    return min(_ROOM[calls.effort or family_of(model).effort], context // _WINDOW_SHARE)


def effort_of_tokens(tokens: int) -> Effort:
    """Return the effort that is nearest to a number of thinking tokens, for models that take no number."""
    return "low" if tokens < 8_000 else "medium" if tokens < 24_000 else "high"


def nearest_effort(effort: str, known: tuple[str, ...]) -> str | None:
    """Return the effort of `known` that is nearest to `effort`, or None if none of them is an effort. The
    lower one of two, because it costs less; but never "none" for an effort above it."""
    levels = [one for one in EFFORTS if one in known and (one != "none" or effort == "none")]
    wanted = EFFORTS.index(effort)
    return min(levels, key=lambda one: (abs(EFFORTS.index(one) - wanted), EFFORTS.index(one)), default=None)
