"""Make `rlm/models/catalog/prices.jsonl` from the data of genai-prices (MIT).

The package itself would cost each run 16 MB. `python -m tests.provider_shapes.price_table` writes the table,
a provider a line: `id`, `url` (a pattern of its addresses), `also` (providers whose models it serves, too)
and `models` with their `names`, else the `pattern` of these, the `context`, and `prices`: a list of the day
from which they hold, the time of day (UTC) at which they begin and end, and the prices of a million tokens
and of a thousand calls. The last that holds counts. A price that grows with the prompt is a list of
`[tokens, price]`.
"""

from __future__ import annotations

import json
import re
from datetime import UTC, date, datetime
from pathlib import Path
from typing import Any

from genai_prices import data_snapshot
from genai_prices import types as data

TABLE = Path(__file__).parents[2] / "rlm/models/catalog/prices.jsonl"
_PRICES = {
    "input": "input_mtok",
    "cached": "cache_read_mtok",
    "written": "cache_write_mtok",
    "written_1h": "cache_write_1h_mtok",
    "output": "output_mtok",
    "calls": "requests_kcount",
}


def main() -> None:
    """Write the table."""
    TABLE.write_text("".join(f"{line}\n" for line in lines(datetime.now(UTC).date())), encoding="utf-8")


def lines(today: date) -> list[str]:
    """Return the table's lines, with the prices of `today` and later."""
    providers = data_snapshot.get_snapshot().providers
    return [json.dumps(_provider(one, today), separators=(",", ":")) for one in providers]


def _provider(provider: data.Provider, today: date) -> dict[str, Any]:
    models = [made for model in provider.models if (made := _model(model, today))]
    also = provider.fallback_model_providers or []
    return {"id": provider.id, "url": provider.api_pattern, "also": also, "models": models}


def _model(model: data.ModelInfo, today: date) -> dict[str, Any]:
    made: dict[str, Any] = {"names": _names(model.match)}
    if not made["names"]:
        made = {"pattern": _pattern(model.match)}
    if model.context_window:
        made["context"] = model.context_window
    listed = model.prices if isinstance(model.prices, list) else [data.ConditionalPrice(prices=model.prices)]
    return made | {"prices": [_entry(one, today) for one in listed]}


def _entry(listed: data.ConditionalPrice, today: date) -> list[Any]:
    rule = listed.constraint
    day, begins, ends = "", "00:00", "24:00"
    if isinstance(rule, data.StartDateConstraint) and rule.start_date > today:
        day = rule.start_date.isoformat()
    if isinstance(rule, data.TimeOfDateConstraint):
        begins, ends = f"{rule.start_time:%H:%M}", f"{rule.end_time:%H:%M}"
    prices = {name: price for name, key in _PRICES.items() if (price := _price(getattr(listed.prices, key)))}
    return [day, begins, ends, prices]


def _price(price: Any) -> Any:
    if isinstance(price, data.TieredPrices):
        return [[0, float(price.base)], *([tier.start, float(tier.price)] for tier in price.tiers)]
    return None if price is None else float(price)


def _names(clause: Any) -> list[str]:
    """Return the names of a clause that holds nothing else."""
    if isinstance(clause, data.ClauseEquals):
        return [clause.equals.lower()]
    if not isinstance(clause, data.ClauseOr):
        return []
    names = [_names(one) for one in clause.or_]
    return [name for one in names for name in one] if all(names) else []


def _pattern(clause: Any) -> str:
    match clause:
        case data.ClauseOr(or_=clauses):
            return "|".join(map(_pattern, clauses))
        case data.ClauseAnd(and_=clauses):
            return "^" + "".join(f"(?=.*(?:{_pattern(one)}))" for one in clauses)
        case data.ClauseEquals(equals=text):
            return f"^{re.escape(text.lower())}$"
        case data.ClauseStartsWith(starts_with=text):
            return f"^{re.escape(text.lower())}"
        case data.ClauseEndsWith(ends_with=text):
            return f"{re.escape(text.lower())}$"
        case data.ClauseContains(contains=text):
            return re.escape(text.lower())
        case data.ClauseRegex(regex=pattern):
            return str(pattern)
    raise TypeError(f"{clause!r} is a clause of a new kind: write its pattern")


if __name__ == "__main__":
    main()
