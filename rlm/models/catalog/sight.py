"""Knows which models see pictures, by the families of their names."""

from __future__ import annotations

import re
from functools import lru_cache

__all__ = ["sees"]

_SEES = re.compile(
    r"claude-(?:3|4|5|opus|sonnet|haiku|fable|mythos)"
    r"|gpt-(?:4o|4\.1|4\.5|4-turbo|4-vision|[5-9])|chatgpt-4o|o1(?!-mini|-preview)|o3(?!-mini)|o4"
    r"|gemini|gemma-?3(?!.{0,3}(?:1b|270m))|gemma-?[4-9]|paligemma"
    r"|pixtral|mistral-small-?3\.[1-9]|mistral-small-(?:25|26|latest)|mistral-medium|mistral-large-(?:3|25|26)"
    r"|ministral-3|magistral-\w+-(?:2509|1\.2)"
    r"|llama-?3\.2-(?:11b|90b)|llama-?3\.2-vision|llama-?4|llava|bakllava|vila"
    r"|qwen[\d.]*-?vl|qwen-vl|qwen3\.5|qvq|internvl|minicpm-v|minicpm-o|molmo|moondream|smolvlm|granite.*vision"
    r"|phi-?3(?:\.5)?-vision|phi-?4-multimodal|glm-\d(?:\.\d)?v|deepseek-(?:vl|ocr)|kimi-vl|kimi-k2\.[5-9]"
    r"|nova-(?:lite|pro|premier|2)|grok-(?:[4-9]|\d?-?vision)|grok-2-vision|command-a-vision|aya-vision"
    r"|.*[-_.:/](?:vl|vision|multimodal)(?:[-_.:]|$)"
)
_SEES_NOT = re.compile(r"gpt-oss|.*(?:embed|rerank|tts|whisper|audio|realtime|transcribe|search)")


@lru_cache(maxsize=256)
def sees(model: str) -> bool | None:
    """Return whether `model`, a provider's own name without prefix, sees pictures. None means unknown."""
    # Routers and clouds put vendors before the name: `anthropic/claude-…`, `us.anthropic.claude-…`.
    name = model.lower().rpartition("/")[2]
    name = re.sub(r"^(?:[a-z]{2,6}\.)?(?:anthropic|amazon|meta|mistral|qwen|google)\.", "", name)
    if _SEES_NOT.match(name):
        return False
    return True if _SEES.match(name) else None
