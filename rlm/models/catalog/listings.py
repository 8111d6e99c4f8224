"""Look a model up in the data that genai-prices ships. Uses no network."""

from __future__ import annotations

from functools import lru_cache
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from genai_prices.types import PriceCalculation

__all__ = ["find_listing"]


@lru_cache(maxsize=256)
def find_listing(model: str, price_list: str | None, url: str | None = None) -> PriceCalculation | None:
    """Return a model's entry in the price data, or None. `price_list` is the provider's id there; `url`
    finds it by its address. Cached: the lookup takes longer than the calculation."""
    # The import takes half a second, so it waits for the first priced call.
    from genai_prices import Usage, calc_price

    if not price_list and url is None:
        return None
    minimal = Usage(input_tokens=1, output_tokens=1)
    for spelling in dict.fromkeys((model, model.rpartition("/")[2])):  # `google/gemini-2.5-pro` on Vertex
        try:
            if url is not None:
                return calc_price(minimal, spelling, provider_api_url=url)
            return calc_price(minimal, spelling, provider_id=price_list)
        except LookupError:  # no such provider or model in the data
            continue
    return None
