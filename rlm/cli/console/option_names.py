"""What the product's own names are called on the command line."""

from __future__ import annotations

import re
from collections.abc import Mapping
from types import MappingProxyType

__all__ = ["in_words", "limit_of", "violation"]

_OPTIONS: Mapping[str, str] = MappingProxyType(
    {
        "rounds": "--max-rounds",
        "depth": "--max-depth",
        "sub_calls": "--max-calls",
        "tokens": "--max-tokens",
        "cost_usd": "--max-cost",
        "seconds": "--max-seconds",
        "cell_seconds": "--cell-seconds",
        "concurrency": "--concurrency",
    }
)
"""The option that sets a field of `Limits`."""

_KINDS: Mapping[str, str] = MappingProxyType(
    {
        "no_block": "held no repl block",
        "several_blocks": "held several blocks",
        "unclosed_block": "did not close its block",
        "wrong_language": "held a block that is not marked repl",
        "empty_block": "held an empty block",
        "truncated_reply": "was cut by the output limit",
        "prose_around": "held prose around its block",
    }
)

_LIMIT = re.compile(r"\blimits\.(\w+)")
_SHORT_OF = re.compile(r"\bnot enough (sub_calls|cost_usd) left")
_LAST_KIND = re.compile(r"\(the last: (\w+)\)")


def limit_of(option: str) -> str | None:
    """The field of `Limits` that an option sets, by its name in settings: `max_rounds` sets `rounds`."""
    flag = f"--{option.replace('_', '-')}"
    return next((name for name, set_by in _OPTIONS.items() if set_by == flag), None)


def violation(kind: str) -> str:
    """`the reply held several blocks`, for a ViolationKind."""
    return f"the reply {_KINDS.get(kind, f'broke the contract ({kind})')}"


def in_words(message: str) -> str:
    """`message`, which may be told to Python callers too, with limits by their options and kinds in words."""
    message = message.replace("(store_mb)", "(--store-mb)")
    message = _LIMIT.sub(lambda found: _OPTIONS.get(found[1], found[0]), message)
    message = _SHORT_OF.sub(
        lambda found: f"not enough {'child calls' if found[1] == 'sub_calls' else 'money'} left", message
    )
    return _LAST_KIND.sub(lambda found: f"(the last {_KINDS.get(found[1], found[1])})", message)
