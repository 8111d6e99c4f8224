"""Records in lines: counts, sums, means and extremes with exact golds."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

from benchmarks.quality.item import Item, Rule
from benchmarks.quality.suites.generated.words import FIRST_NAMES, GOODS, day, draws_of

__all__ = ["records"]

_REGIONS = ("north", "south", "east", "west", "islands")
_STATES = ("shipped", "open", "cancelled", "returned")
_MONTHS = (
    *("January", "February", "March", "April", "May", "June", "July"),
    *("August", "September", "October", "November", "December"),
)
_HEADER = "day | order | customer | region | goods | pieces | amount in EUR | state"


@dataclass(frozen=True, slots=True)
class _Order:
    """One order. `cents` is its amount, so that sums are exact."""

    day: str
    number: int
    customer: str
    region: str
    goods: str
    pieces: int
    cents: int
    state: str

    @property
    def line(self) -> str:
        facts = (self.day, self.number, self.customer, self.region, self.goods, self.pieces)
        return " | ".join([*map(str, facts), f"{self.cents / 100:.2f}", self.state])


@dataclass(frozen=True, slots=True)
class _Asked:
    question: str
    gold: str
    rule: Rule
    group: str


def records(number: int, *, seed: int, chars: int) -> Item:
    """Return an item over a table of orders. Six kinds of questions take turns."""
    draw = draws_of("records", seed, number)
    orders = _orders(draw, chars)
    asked = _ASK[number % len(_ASK)](draw, orders)
    text = "\n".join([_HEADER, *(order.line for order in orders)]) + "\n"
    return Item(f"records-{number:04d}", asked.question, (text,), (asked.gold,), asked.rule, asked.group)


def _orders(draw: random.Random, chars: int) -> list[_Order]:
    customers = draw.sample(FIRST_NAMES, 12)
    orders: list[_Order] = []
    size, number = len(_HEADER), draw.randrange(10_000, 50_000)
    while size < chars or len(orders) < 20:
        number += draw.randrange(1, 9)
        order = _Order(
            day(draw).isoformat(),
            number,
            draw.choice(customers),
            draw.choice(_REGIONS),
            draw.choice(GOODS),
            draw.randrange(1, 20),
            draw.randrange(500, 500_000),
            draw.choice(_STATES),
        )
        orders.append(order)
        size += len(order.line) + 1
    return orders


def _count(draw: random.Random, orders: Sequence[_Order]) -> _Asked:
    region, state = draw.choice(_REGIONS), draw.choice(_STATES)
    gold = sum(one.region == region and one.state == state for one in orders)
    question = f"How many orders of the region {region} have the state {state}? Answer with the number alone."
    return _Asked(question, str(gold), "number", "count")


def _sum(draw: random.Random, orders: Sequence[_Order]) -> _Asked:
    customer = draw.choice(orders).customer
    cents = sum(one.cents for one in orders if one.customer == customer)
    question = (
        f"What is the sum of the amounts of all orders of the customer {customer}, in EUR with two decimals? "
        "Answer with the number alone."
    )
    return _Asked(question, f"{cents / 100:.2f}", "number", "sum")


def _largest(draw: random.Random, orders: Sequence[_Order]) -> _Asked:
    month = int(draw.choice(orders).day[5:7])
    found = [one for one in orders if int(one.day[5:7]) == month]
    most = max(one.cents for one in found)
    first = min(one.number for one in found if one.cents == most)
    question = (
        f"Which order of {_MONTHS[month - 1]} has the largest amount? If several have it, take the one with "
        "the lowest number. Answer with the number of the order alone."
    )
    return _Asked(question, str(first), "number", "extreme")


def _distinct(draw: random.Random, orders: Sequence[_Order]) -> _Asked:
    customer, goods = draw.choice(orders).customer, draw.choice(GOODS)
    days = {one.day for one in orders if one.customer == customer and one.goods == goods}
    question = (
        f"On how many different days did the customer {customer} order the goods {goods}? "
        "Answer with the number alone."
    )
    return _Asked(question, str(len(days)), "number", "distinct")


def _most(draw: random.Random, orders: Sequence[_Order]) -> _Asked:
    state = draw.choice(_STATES)
    counts = Counter(one.customer for one in orders if one.state == state)
    most = max(counts.values())
    first = min(name for name, count in counts.items() if count == most)
    question = (
        f"Which customer has the most orders with the state {state}? If several have as many, take the first "
        "by the alphabet. Answer with the name alone."
    )
    return _Asked(question, first, "exact", "most")


def _pieces(draw: random.Random, orders: Sequence[_Order]) -> _Asked:
    goods, region = draw.choice(GOODS), draw.choice(_REGIONS)
    gold = sum(one.pieces for one in orders if one.goods == goods and one.region == region)
    question = (
        f"How many pieces of the goods {goods} were ordered in the region {region} in total? "
        "Answer with the number alone."
    )
    return _Asked(question, str(gold), "number", "sum")


_ASK = (_count, _sum, _largest, _distinct, _most, _pieces)
