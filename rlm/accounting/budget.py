"""Limits what a run may spend, in one ledger for the whole tree of calls.

A call is reserved before it is sent, and settled with the provider's count after (or released, if it was not
sent). No method awaits, so each is atomic on the one event loop that a ledger belongs to. Money is kept in
whole nano-dollars, so sums do not drift.
"""

from __future__ import annotations

import asyncio
import math
import time
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Literal

from rlm.errors import BudgetExhausted
from rlm.results import LIMITS_OF, StopReason
from rlm.settings import Limits

__all__ = ["STOP_REASONS", "Budget", "Reservation", "seconds_left"]

_NANO = 1_000_000_000
_LOW = 0.25

_Kind = Literal["sub_calls", "tokens", "cost_usd"]
_KINDS: tuple[_Kind, ...] = ("sub_calls", "tokens", "cost_usd")
_NAMES: Mapping[_Kind, str] = MappingProxyType(
    {"sub_calls": "child calls", "tokens": "tokens", "cost_usd": "money"}
)
"""What a message calls them."""

STOP_REASONS: Mapping[str, StopReason] = MappingProxyType(
    {limit: reason for reason, limit in LIMITS_OF.items()}
)
"""Which stop reason a run gets when the limit of that name (`BudgetExhausted.limit`) ends it."""


@dataclass(frozen=True, slots=True)
class Reservation:
    """A share of the ledger held for one call. `cost_usd` is None when the call's price is not known."""

    number: int
    calls: int
    tokens: int
    cost_usd: float | None


@dataclass(slots=True)
class _Ledger:
    """The sums of one tree, in calls, tokens and nano-dollars. What is spent in a share of one counts in
    `above`, too, and must have room in both."""

    limits: Mapping[_Kind, int]
    seconds: float
    started: float
    clock: Callable[[], float]
    above: _Ledger | None = None
    above_numbers: dict[int, int] = field(default_factory=dict)
    used: dict[_Kind, int] = field(default_factory=lambda: dict.fromkeys(_KINDS, 0))
    open: dict[int, dict[_Kind, int]] = field(default_factory=dict)
    reserved: dict[_Kind, int] = field(default_factory=lambda: dict.fromkeys(_KINDS, 0))
    held: dict[_Kind, int] = field(default_factory=lambda: dict.fromkeys(_KINDS, 0))
    overrun: dict[_Kind, int] = field(default_factory=lambda: dict.fromkeys(_KINDS, 0))
    numbers: int = 0
    cost_known: bool = True

    def left(self, kind: _Kind, *, margin: bool = False) -> int:
        """Return the amount still available.

        The `margin` leaves out what calls in flight may cost beyond their estimates, each as much as the
        worst call so far. With it, concurrent calls overspend a limit by at most one call's estimate error.
        """
        own = self.limits[kind] - self.used[kind] - self.reserved[kind] - self.held[kind]
        own -= self.overrun[kind] * len(self.open) * margin
        return own if self.above is None else min(own, self.above.left(kind, margin=margin))

    def seconds_left(self) -> float:
        own = self.seconds - (self.clock() - self.started)
        return own if self.above is None else min(own, self.above.seconds_left())

    def enter(self, amounts: dict[_Kind, int]) -> int:
        self.numbers += 1
        self.open[self.numbers] = amounts
        for kind in _KINDS:
            self.reserved[kind] += amounts[kind]
        if self.above is not None:
            self.above_numbers[self.numbers] = self.above.enter(amounts)
        return self.numbers

    def leave(self, number: int) -> dict[_Kind, int] | None:
        amounts = self.open.pop(number, None)
        if amounts is not None:
            for kind in _KINDS:
                self.reserved[kind] -= amounts[kind]
            if self.above is not None:
                self.above.leave(self.above_numbers.pop(number))
        return amounts

    def charge(self, charged: dict[_Kind, int], reserved: dict[_Kind, int]) -> None:
        for kind in _KINDS:
            self.used[kind] += charged[kind]
            if reserved[kind] > 0:  # without an estimate there is no estimate error to learn from
                self.overrun[kind] = max(self.overrun[kind], charged[kind] - reserved[kind])
        if self.above is not None:
            self.above.charge(charged, reserved)

    def hold(self, kind: _Kind, amount: int) -> None:
        self.held[kind] += amount
        if self.above is not None:
            self.above.hold(kind, amount)

    def price_unknown(self) -> None:
        self.cost_known = False
        if self.above is not None:
            self.above.price_unknown()


class Budget:
    """The budget of one RLM of the tree: its own rounds, everything else shared.

    One round is kept in reserve for the root to answer when a limit is hit: one of the rounds from the start,
    tokens and money as soon as `hold_last_round` says how much (call it first, and again as the conversation
    grows). `clock` gives monotonic seconds; the time limit counts from here.
    """

    def __init__(self, limits: Limits, *, clock: Callable[[], float] = time.monotonic) -> None:
        self.limits = limits
        shared: dict[_Kind, int] = {
            "sub_calls": limits.sub_calls,
            "tokens": limits.tokens,
            "cost_usd": _nano(limits.cost_usd),
        }
        self._ledger = _Ledger(shared, limits.seconds, clock(), clock)
        self._rounds = 0
        self._last_taken = False
        self._branch = False
        self._hold: dict[_Kind, int] = dict.fromkeys(_KINDS, 0)

    def branch(self) -> Budget:
        """Return the budget of a sub-RLM, with rounds and a last round of its own. Close it at its end."""
        other = Budget(self.limits, clock=self._ledger.clock)
        other._ledger = self._ledger
        other._branch = True
        return other

    def share(self, limits: Limits) -> Budget:
        """Return a part of this budget, within limits of its own. What it spends counts here, too. Its time
        counts from now, and ends with this one's."""
        other = Budget(limits, clock=self._ledger.clock)
        other._ledger.above = self._ledger
        return other

    def close(self) -> None:
        """Release the last round if it was not taken. Safe to call twice."""
        self._set_hold(dict.fromkeys(_KINDS, 0))

    @property
    def cost_known(self) -> bool:
        """False once a call had no known price: then `cost_usd` is a lower bound and the token cap holds."""
        return self._ledger.cost_known

    @property
    def rounds(self) -> int:
        """Return the rounds begun by this RLM, the last one included."""
        return self._rounds

    def begin_round(self) -> int:
        """Count an ordinary round and return its number, from 1. Raises BudgetExhausted for `rounds` when
        only the last one is left, for `seconds` when the time is up."""
        self._check_time()
        if self._last_taken or self._rounds >= self.limits.rounds - 1:
            raise BudgetExhausted(
                "rounds", f"the limit of {self.limits.rounds} rounds is reached", remedy_limit="rounds"
            )
        self._rounds += 1
        return self._rounds

    def restore(self, *, calls: int, tokens: int, cost_usd: float, cost_known: bool) -> None:
        """Account for what an earlier process spent on this run; in a share, in that alone. Raises ValueError
        for negative amounts."""
        ledger = self._ledger
        for kind, amount in self._amounts(calls, tokens, cost_usd).items():
            ledger.used[kind] += amount
        ledger.cost_known = ledger.cost_known and cost_known

    def restore_seconds(self, seconds: float) -> None:
        """Set the seconds that the run has used. No effect in a branch: the clock belongs to the tree."""
        if not self._branch:
            self._ledger.started = self._ledger.clock() - seconds

    def repeat_round(self, *, final: bool) -> None:
        """Count a round that is replayed. No limit is checked, nothing is held."""
        self._last_taken = self._last_taken or final
        self._rounds += 1

    def hold_last_round(self, *, tokens: int, cost_usd: float | None) -> None:
        """Set the estimate of the last round, in place of the former one. Raises BudgetExhausted, and leaves
        the former hold, if it does not fit: the last round is due now."""
        amounts = self._amounts(0, tokens, cost_usd)
        for kind in _KINDS:
            if amounts[kind] - self._hold[kind] > self._ledger.left(kind):
                raise self._exhausted(kind, amounts[kind], self._ledger.left(kind) + self._hold[kind])
        self._set_hold(amounts)

    def last_round_room(self) -> tuple[int, float]:
        """Return the tokens and dollars that the last round may take: what is held, and what is left."""
        room = self._last_round_room()
        return room["tokens"], room["cost_usd"] / _NANO

    def take_last_round(self, *, tokens: int, cost_usd: float | None) -> Reservation:
        """Turn the hold into a reservation and count the round, whatever limit was reached. Settle it like
        any other. Raises BudgetExhausted for `rounds` if it was taken before.

        The root of the tree gets its last round even if it does not fit: it is one call. There may be many
        sub-RLMs, so one is refused if it does not fit, or if it has not begun and has nothing to report.
        """
        if self._last_taken:
            raise BudgetExhausted("rounds", "the last round was taken already; nothing more can be asked")
        amounts = self._amounts(0, tokens, cost_usd)
        if self._branch:
            room = self._last_round_room()
            for kind in _KINDS:
                if amounts[kind] > room[kind] or (not self._rounds and amounts[kind]):
                    raise self._exhausted(kind, amounts[kind], room[kind])
        self._last_taken = True
        self._rounds += 1
        self._set_hold(dict.fromkeys(_KINDS, 0))
        return Reservation(self._ledger.enter(amounts), 0, tokens, cost_usd)

    def _last_round_room(self) -> dict[_Kind, int]:
        ledger = self._ledger
        return {kind: self._hold[kind] + max(0, ledger.left(kind, margin=True)) for kind in _KINDS}

    def reserve(self, *, calls: int = 1, tokens: int, cost_usd: float | None) -> Reservation:
        """Hold room for a call: `tokens` in and out at most, `cost_usd` or None when its price is unknown.

        `calls` is 1 for a child and 0 for a root round. Raises BudgetExhausted naming the limit (or
        `seconds`) that leaves no room; nothing is held then. ValueError for negative amounts.
        """
        self._check_time()
        amounts = self._amounts(calls, tokens, cost_usd)
        ledger = self._ledger
        for kind in _KINDS:
            room = ledger.left(kind, margin=True)
            if amounts[kind] > 0 and amounts[kind] > room:
                raise self._exhausted(kind, amounts[kind], room)
        if cost_usd is None:
            ledger.price_unknown()
        return Reservation(ledger.enter(amounts), calls, tokens, cost_usd)

    def settle(self, reservation: Reservation, *, tokens: int, cost_usd: float | None) -> None:
        """Replace a reservation by the actual amounts. With `cost_usd` None (price unknown) the reserved
        cost is charged. Raises ValueError if it was settled or released before."""
        ledger = self._ledger
        charged = self._amounts(reservation.calls, tokens, cost_usd)
        amounts = ledger.leave(reservation.number)
        if amounts is None:
            raise ValueError(f"reservation {reservation.number} was settled or released before")
        if cost_usd is None:
            ledger.price_unknown()
            charged["cost_usd"] = amounts["cost_usd"]
        ledger.charge(charged, amounts)

    def release(self, reservation: Reservation) -> None:
        """Give back the reservation of a call that was not made. A settled one is left as it is, so a
        `finally` may always release."""
        self._ledger.leave(reservation.number)

    def used(self) -> dict[str, dict[str, float]]:
        """Return every limit by name: `used` (settled), `limit`, `left` (free to reserve, without calls in
        flight and the last round; at least 0). Rounds are this RLM's, `left` includes the last one."""
        ledger = self._ledger
        seconds = ledger.clock() - ledger.started
        report = {
            "rounds": _line(self._rounds, self.limits.rounds, self.limits.rounds - self._rounds),
            "seconds": _line(seconds, self.limits.seconds, self.seconds_left),
        }
        for kind in _KINDS:
            unit = _NANO if kind == "cost_usd" else 1
            used, limit, left = ledger.used[kind], ledger.limits[kind], ledger.left(kind)
            report[kind] = _line(used / unit, limit / unit, left / unit)
        return report

    @property
    def seconds_left(self) -> float:
        """Return `remaining()["seconds"]`, but faster."""
        return max(self._ledger.seconds_left(), 0.0)

    def remaining(self) -> dict[str, float]:
        """Return what is left of each limit, by name."""
        return {name: line["left"] for name, line in self.used().items()}

    def low(self) -> tuple[str, ...]:
        """Return the names of limits of which less than a quarter is left. A limit of zero is never low."""
        return tuple(name for name, line in self.used().items() if line["left"] < _LOW * line["limit"])

    def _set_hold(self, amounts: dict[_Kind, int]) -> None:
        for kind in _KINDS:
            self._ledger.hold(kind, amounts[kind] - self._hold[kind])
        self._hold = amounts

    def _check_time(self) -> None:
        if self.seconds_left <= 0:
            raise _time_is_up(self.limits)

    def _exhausted(self, kind: _Kind, wanted: int, room: int) -> BudgetExhausted:
        if kind == "cost_usd":
            amounts = (
                f"${wanted / _NANO:.4f} wanted, ${max(room, 0) / _NANO:.4f} of ${self.limits.cost_usd:g}"
            )
        else:
            amounts = f"{wanted:,} wanted, {max(room, 0):,} of {self._ledger.limits[kind]:,}"
        return BudgetExhausted(kind, f"not enough {_NAMES[kind]} left ({amounts})", remedy_limit=kind)

    @staticmethod
    def _amounts(calls: int, tokens: int, cost_usd: float | None) -> dict[_Kind, int]:
        if calls < 0 or tokens < 0 or not 0 <= (cost_usd or 0.0) < math.inf:
            raise ValueError(f"amounts can't be negative: {calls} calls, {tokens} tokens, {cost_usd} USD")
        return {"sub_calls": calls, "tokens": tokens, "cost_usd": _nano(cost_usd or 0.0)}


def _nano(dollars: float) -> int:
    # a billionth is rounded away first: 0.1 is a hair above one tenth and must not count as more
    return math.ceil(round(dollars * _NANO, 3))


def _line(used: float, limit: float, left: float) -> dict[str, float]:
    return {"used": used, "limit": limit, "left": max(left, 0)}


@asynccontextmanager
async def seconds_left(budget: Budget) -> AsyncIterator[None]:
    """Cancel the body when the run's time is up, and raise BudgetExhausted."""
    try:
        async with asyncio.timeout(budget.seconds_left):
            yield
    except TimeoutError as error:
        raise _time_is_up(budget.limits) from error


def _time_is_up(limits: Limits) -> BudgetExhausted:
    return BudgetExhausted(
        "seconds", f"the run's {limits.seconds:g} seconds are used up", remedy_limit="seconds"
    )
