"""What servers report of their models: windows, output limits, prices."""

from __future__ import annotations

import math

from rlm.lazy_dataclass import dataclass
from rlm.models.base import ModelWindow, TokenUsage

__all__ = ["ServerFacts", "facts_of_name", "price_at", "read_price", "read_size", "remember_facts"]

_LEAST_CONTEXT = 256
_MOST_CONTEXT = 100_000_000
_MOST_PRICE = 1.0


@dataclass(frozen=True, slots=True)
class ServerFacts:
    """Facts of one model, as its server reports them; None where it reports none.

    `context` is the size of the context that is in force, and `most_context` the one that the model was
    trained for; both count tokens, like `output`. Prices are US dollars for a token. `thinks` tells whether
    the model can think before it replies, and `think_levels` are the names of its efforts. `program` is the
    server's (`vllm`), empty where it is unknown. `is_default` tells that `context` is a default of the
    program, which the user may not have chosen.
    """

    context: int | None = None
    most_context: int | None = None
    output: int | None = None
    input_price: float | None = None
    output_price: float | None = None
    cached_price: float | None = None
    thinks: bool = False
    think_levels: tuple[str, ...] = ()
    sees: bool | None = None
    program: str = ""
    is_default: bool = False

    def apply_to_window(self, listed: ModelWindow) -> ModelWindow:
        """Return the listed window with what the server reports in its place."""
        return listed.updated(self.context or self.most_context, self.output, self.sees)

    def price(self, usage: TokenUsage) -> float | None:
        """Return the US dollars for a call's usage; None where the server reports no price."""
        return price_at(usage, self.input_price, self.output_price, self.cached_price)


def price_at(
    usage: TokenUsage, input_price: float | None, output_price: float | None, cached_price: float | None
) -> float | None:
    """Return the price of a call, where each price is that of a token; None without prices of input and
    output. Without `cached_price`, input from the cache costs as much as other input."""
    if input_price is None or output_price is None:
        return None
    cached = min(usage.cached_tokens, usage.input_tokens)
    fresh = (usage.input_tokens - cached) * input_price
    return (
        fresh
        + cached * (input_price if cached_price is None else cached_price)
        + usage.output_tokens * output_price
    )


def read_size(value: object) -> int | None:
    """Return a number of tokens that a server reports, or None if no model has so many or so few."""
    if isinstance(value, str) and value.isascii() and value.isdigit() and len(value) < 12:
        value = int(value)
    return value if type(value) is int and _LEAST_CONTEXT <= value <= _MOST_CONTEXT else None


def read_price(value: object) -> float | None:
    """Return a price for a token, or None if it is none."""
    try:
        price = float(value) if isinstance(value, str | int | float) and value is not True else -1.0
    except ValueError:
        return None
    return price if math.isfinite(price) and 0 <= price < _MOST_PRICE else None


_facts: dict[str, ServerFacts] = {}


def remember_facts(name: str, facts: ServerFacts) -> None:
    """Keep the facts of the model with this name, for the rest of the process."""
    _facts[name] = facts


def facts_of_name(name: str) -> ServerFacts | None:
    """Return what the server of the model with this name reported, if it was asked."""
    return _facts.get(name)
