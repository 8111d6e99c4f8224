"""List prices and context windows of the usual providers' models, from `prices.jsonl`.

`tests/provider_shapes/price_table.py` makes that file from the data of genai-prices, and says what its fields
mean.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from datetime import UTC, datetime
from functools import lru_cache
from pathlib import Path
from typing import Any

from rlm.results import TokenUsage

__all__ = ["cost", "find_listing"]

_TABLE = Path(__file__).with_name("prices.jsonl")


@lru_cache(maxsize=256)
def find_listing(model: str, provider: str | None, url: str | None = None) -> Mapping[str, Any] | None:
    """Return a model's entry in the table, or None. `provider` is an id of the table; `url` finds it by its
    address instead."""
    for spelling in dict.fromkeys((model.lower(), model.lower().rpartition("/")[2])):
        for listed in _read_providers(provider, url):
            for served in (
                listed,
                *(other for one in listed["also"] for other in _read_providers(one, None)),
            ):
                for entry in served["models"]:
                    pattern = entry.get("pattern")
                    if re.search(pattern, spelling) if pattern else spelling in entry["names"]:
                        return dict(entry)
    return None


def _read_providers(provider: str | None, url: str | None) -> Iterator[dict[str, Any]]:
    with _TABLE.open(encoding="utf-8") as lines:
        for line in lines:
            if url is not None or line.startswith(f'{{"id":"{provider}",'):
                listed = json.loads(line)
                if url is None or re.match(listed["url"], url):
                    yield listed
                    return


def cost(entry: Mapping[str, Any], usage: TokenUsage) -> float:
    """Return the US dollars for a call's usage at the prices of this hour. Tokens of a kind that has no
    price of its own cost what the kind around them does."""
    day, now = f"{datetime.now(UTC):%Y-%m-%d %H:%M}".split()
    listed = reversed(entry["prices"])
    prices: Mapping[str, Any] = next(
        (one for since, start, end, one in listed if since <= day and start <= now < end), {}
    )

    def rate(kind: str, otherwise: float) -> float:
        listed = prices.get(kind, otherwise)
        if not isinstance(listed, list):
            return float(listed)
        return float(
            next(price for start, price in reversed(listed) if usage.input_tokens > start or not start)
        )

    cached = min(usage.cached_tokens, usage.input_tokens)
    written = min(usage.cache_write_tokens, usage.input_tokens - cached)
    long = min(usage.cache_write_1h_tokens, written)
    fresh = rate("input", 0.0)
    short = rate("written", fresh)
    dollars = (usage.input_tokens - cached - written) * fresh + cached * rate("cached", fresh)
    dollars += (written - long) * short + long * rate("written_1h", short)
    return (dollars + usage.output_tokens * rate("output", 0.0)) / 1e6 + rate("calls", 0.0) / 1e3
