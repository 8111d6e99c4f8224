"""Limits what a run may spend, in one ledger for the whole tree of calls.

A call is reserved before it is sent. After the reply it is settled with the provider's count, or released if
it was not sent. What calls in flight have reserved is usually far more than they use, so a call that does not
fit beside them waits until they are settled. Methods that do not wait are atomic on the ledger's event loop.
Money is kept in whole nano-dollars, so sums do not drift.
"""

from __future__ import annotations

import asyncio
import math
import time
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager
from dataclasses import field
from types import MappingProxyType
from typing import Literal

from rlm.errors import BudgetExhausted
from rlm.lazy_dataclass import dataclass
from rlm.limits import Limits, limit_of_measure, measure_of_limit
from rlm.results import LIMITS_OF, StopReason

__all__ = ["STOP_REASONS", "Budget", "Reservation", "seconds_left"]

_NANO = 1_000_000_000
_LOW_FRACTION = 0.25

_Kind = Literal["sub_calls", "tokens", "cost_usd"]
_KINDS: tuple[_Kind, ...] = ("sub_calls", "tokens", "cost_usd")
_NAMES: Mapping[_Kind, str] = MappingProxyType(
    {"sub_calls": "child calls", "tokens": "tokens", "cost_usd": "money"}
)
"""Their names in messages."""

STOP_REASONS: Mapping[str, StopReason] = MappingProxyType(
    {measure_of_limit(limit): reason for reason, limit in LIMITS_OF.items()}
)
"""The stop reason of a run, by the name of the limit that ended it (`BudgetExhausted.limit`)."""


@dataclass(frozen=True, slots=True)
class Reservation:
    """An amount that the ledger reserves for one call. `cost_usd` is None if the price is unknown."""

    number: int
    calls: int
    tokens: int
    cost_usd: float | None


@dataclass(slots=True)
class _Ledger:
    """Sums of one tree of runs, in calls, tokens and nano-dollars.

    A share has its own ledger. Its spending also counts in the ledger `above`, and must fit both ledgers.
    """

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
    waiting: list[asyncio.Future[None]] = field(default_factory=list)

    def left(self, kind: _Kind, *, margin: bool = False) -> int:
        """Return the amount still available.

        With `margin`, subtract for each call in flight the largest estimate error so far. Concurrent calls
        then overspend a limit by at most one estimate error.
        """
        own = self.limits[kind] - self.used[kind] - self.reserved[kind] - self.held[kind]
        own -= self.overrun[kind] * len(self.open) * margin
        return own if self.above is None else min(own, self.above.left(kind, margin=margin))

    def left_when_settled(self, kind: _Kind) -> int:
        """Return the amount available if all calls in flight turned out to use nothing."""
        own = self.limits[kind] - self.used[kind] - self.held[kind]
        return own if self.above is None else min(own, self.above.left_when_settled(kind))

    def has_open(self) -> bool:
        """Return whether a call is in flight, here or in the tree above."""
        return bool(self.open) or (self.above is not None and self.above.has_open())

    async def next_settled(self) -> None:
        """Wait until a call in flight is settled or released, anywhere in the tree."""
        if self.above is not None:
            return await self.above.next_settled()
        turn = asyncio.get_running_loop().create_future()
        self.waiting.append(turn)
        try:
            await turn
        finally:
            if turn in self.waiting:
                self.waiting.remove(turn)

    def seconds_left(self) -> float:
        own = self.seconds - (self.clock() - self.started)
        return own if self.above is None else min(own, self.above.seconds_left())

    def open_reservation(self, amounts: dict[_Kind, int]) -> int:
        self.numbers += 1
        self.open[self.numbers] = amounts
        for kind in _KINDS:
            self.reserved[kind] += amounts[kind]
        if self.above is not None:
            self.above_numbers[self.numbers] = self.above.open_reservation(amounts)
        return self.numbers

    def close_reservation(self, number: int) -> dict[_Kind, int] | None:
        amounts = self.open.pop(number, None)
        if amounts is not None:
            for kind in _KINDS:
                self.reserved[kind] -= amounts[kind]
            if self.above is not None:
                self.above.close_reservation(self.above_numbers.pop(number))
            else:
                # All of them try again, in order. They run later, when the call is charged.
                waiting, self.waiting = self.waiting, []
                for turn in waiting:
                    if not turn.done():
                        turn.set_result(None)
        return amounts

    def charge(self, charged: dict[_Kind, int], reserved: dict[_Kind, int]) -> None:
        for kind in _KINDS:
            self.used[kind] += charged[kind]
            if reserved[kind] > 0:  # without an estimate there is no estimate error
                self.overrun[kind] = max(self.overrun[kind], charged[kind] - reserved[kind])
        if self.above is not None:
            self.above.charge(charged, reserved)

    def change_hold(self, kind: _Kind, amount: int) -> None:
        self.held[kind] += amount
        if self.above is not None:
            self.above.change_hold(kind, amount)

    def mark_price_unknown(self) -> None:
        self.cost_known = False
        if self.above is not None:
            self.above.mark_price_unknown()


class Budget:
    """The budget of one RLM in a tree. It has its own rounds and shares all other limits with the tree.

    One round is kept in reserve, so that the root can answer when a limit is hit. `hold_last_round` reserves
    the tokens and the money for it. Call that method first, and again whenever the conversation grows.
    `clock` returns monotonic seconds. The time limit starts now.
    """

    def __init__(self, limits: Limits, *, clock: Callable[[], float] = time.monotonic) -> None:
        self.limits = limits
        shared: dict[_Kind, int] = {
            "sub_calls": limits.max_calls,
            "tokens": limits.max_total_tokens,
            "cost_usd": _nano(limits.max_cost),
        }
        self._ledger = _Ledger(shared, limits.max_seconds, clock(), clock)
        self._rounds = 0
        self._is_last_round_taken = False
        self._is_branch = False
        self._held_for_last_round: dict[_Kind, int] = dict.fromkeys(_KINDS, 0)

    def branch(self) -> Budget:
        """Return a budget for a sub-RLM. It has the same limits, but counts its own rounds and keeps its own
        last round in reserve. Close it at the end of the sub-RLM."""
        other = Budget(self.limits, clock=self._ledger.clock)
        other._ledger = self._ledger
        other._is_branch = True
        return other

    def share(self, limits: Limits) -> Budget:
        """Return a part of this budget with `limits` of its own. Its spending also counts here. Its time
        starts now and ends no later than the parent's."""
        other = Budget(limits, clock=self._ledger.clock)
        other._ledger.above = self._ledger
        return other

    def close(self) -> None:
        """Release the hold for the last round. Safe to call twice."""
        self._set_hold(dict.fromkeys(_KINDS, 0))

    @property
    def cost_known(self) -> bool:
        """Return whether the price of every call is known. If not, `cost_usd` is a lower bound, and only the
        token limit is reliable."""
        return self._ledger.cost_known

    @property
    def rounds(self) -> int:
        """Return how many rounds this RLM has begun, including the last round."""
        return self._rounds

    def begin_round(self) -> int:
        """Count an ordinary round and return its number, from 1. Raises BudgetExhausted: for `rounds` if only
        the last round is left, for `seconds` if the time is up."""
        self._check_time()
        if self._is_last_round_taken or self._rounds >= self.limits.max_rounds - 1:
            reached = f"the limit of {self.limits.max_rounds} rounds is reached"
            raise BudgetExhausted("rounds", reached, remedy_limit="max_rounds")
        self._rounds += 1
        return self._rounds

    def restore(self, *, calls: int, tokens: int, cost_usd: float, cost_known: bool) -> None:
        """Add what an earlier process spent on this run. In a share, the budget above is not changed. Raises
        ValueError for negative amounts."""
        ledger = self._ledger
        for kind, amount in self._amounts(calls, tokens, cost_usd).items():
            ledger.used[kind] += amount
        ledger.cost_known = ledger.cost_known and cost_known

    def restore_seconds(self, seconds: float) -> None:
        """Set the seconds that the run has used. No effect in a branch: the clock belongs to the tree."""
        if not self._is_branch:
            self._ledger.started = self._ledger.clock() - seconds

    def restore_rounds(self, rounds: int, *, is_last: bool) -> None:
        """Set the rounds that this RLM has begun. `is_last`: the last round is one of them."""
        self._rounds, self._is_last_round_taken = rounds, is_last

    def hold_last_round(self, *, tokens: int, cost_usd: float | None) -> None:
        """Replace the estimate of the last round. Raises BudgetExhausted if it does not fit. If it does not
        fit, the old hold stays and the caller must start the last round."""
        amounts = self._amounts(0, tokens, cost_usd)
        for kind in _KINDS:
            if amounts[kind] - self._held_for_last_round[kind] > self._ledger.left(kind):
                raise self._exhausted(
                    kind, amounts[kind], self._ledger.left(kind) + self._held_for_last_round[kind]
                )
        self._set_hold(amounts)

    def last_round_room(self) -> tuple[int, float]:
        """Return the tokens and dollars that the last round may use: what is held for it and what is left."""
        room = self._last_round_room()
        return room["tokens"], room["cost_usd"] / _NANO

    def take_last_round(self, *, tokens: int, cost_usd: float | None) -> Reservation:
        """Turn the hold into a reservation and count the round, whichever limit was reached. Settle the
        reservation like any other. Raises BudgetExhausted for `rounds` if the last round was taken before.

        The root of the tree gets its last round even if it does not fit, because it is one call only. There
        may be many sub-RLMs, so the last round of a sub-RLM must fit. It is also refused if the sub-RLM has
        begun no round, because there is nothing to report yet.
        """
        if self._is_last_round_taken:
            raise BudgetExhausted("rounds", "the last round was already taken. No further call is possible")
        amounts = self._amounts(0, tokens, cost_usd)
        if self._is_branch:
            room = self._last_round_room()
            for kind in _KINDS:
                if amounts[kind] > room[kind] or (not self._rounds and amounts[kind]):
                    raise self._exhausted(kind, amounts[kind], room[kind])
        self._is_last_round_taken = True
        self._rounds += 1
        self._set_hold(dict.fromkeys(_KINDS, 0))
        return Reservation(self._ledger.open_reservation(amounts), 0, tokens, cost_usd)

    def _last_round_room(self) -> dict[_Kind, int]:
        ledger = self._ledger
        return {
            kind: self._held_for_last_round[kind] + max(0, ledger.left(kind, margin=True)) for kind in _KINDS
        }

    def reserve(self, *, calls: int = 1, tokens: int, cost_usd: float | None) -> Reservation:
        """Reserve the largest amounts that a call may use. `tokens` counts input and output. `cost_usd` is
        None if the price is unknown.

        `calls` is 1 for a child and 0 for a root round. Raises BudgetExhausted with the name of the limit
        (or `seconds`) that would be exceeded, and then reserves nothing. Raises ValueError for negative
        amounts.
        """
        self._check_time()
        amounts = self._amounts(calls, tokens, cost_usd)
        ledger = self._ledger
        for kind in _KINDS:
            room = ledger.left(kind, margin=True)
            if amounts[kind] > 0 and amounts[kind] > room:
                raise self._exhausted(kind, amounts[kind], room)
        if cost_usd is None:
            ledger.mark_price_unknown()
        return Reservation(ledger.open_reservation(amounts), calls, tokens, cost_usd)

    async def reserve_when_settled(
        self, *, calls: int = 1, tokens: int, cost_usd: float | None
    ) -> Reservation:
        """Reserve like `reserve`, but wait while only the reservations of calls in flight are in the way.

        Raises BudgetExhausted when the call would not fit even if they used nothing, or when none is in
        flight. The caller must hold no reservation itself.
        """
        amounts = self._amounts(calls, tokens, cost_usd)
        while True:
            try:
                return self.reserve(calls=calls, tokens=tokens, cost_usd=cost_usd)
            except BudgetExhausted:
                if not self._may_fit_later(amounts):
                    raise
            await self._ledger.next_settled()

    def _may_fit_later(self, amounts: Mapping[_Kind, int]) -> bool:
        return (
            self.seconds_left > 0
            and self._ledger.has_open()
            and all(
                not amounts[kind] or amounts[kind] <= self._ledger.left_when_settled(kind) for kind in _KINDS
            )
        )

    async def hold_last_round_when_settled(self, *, tokens: int, cost_usd: float | None) -> None:
        """Hold like `hold_last_round`, but wait while only calls in flight are in the way."""
        amounts = self._amounts(0, tokens, cost_usd)
        while True:
            try:
                return self.hold_last_round(tokens=tokens, cost_usd=cost_usd)
            except BudgetExhausted:
                more = {kind: amounts[kind] - self._held_for_last_round[kind] for kind in _KINDS}
                if not self._may_fit_later(more):
                    raise
            await self._ledger.next_settled()

    def settle(self, reservation: Reservation, *, tokens: int, cost_usd: float | None) -> None:
        """Replace a reservation by the actual amounts. If `cost_usd` is None (price unknown), the reserved
        cost is charged. Raises ValueError if the reservation was settled or released before."""
        ledger = self._ledger
        charged = self._amounts(reservation.calls, tokens, cost_usd)
        amounts = ledger.close_reservation(reservation.number)
        if amounts is None:
            raise ValueError(f"reservation {reservation.number} was settled or released before")
        if cost_usd is None:
            ledger.mark_price_unknown()
            charged["cost_usd"] = amounts["cost_usd"]
        ledger.charge(charged, amounts)

    def release(self, reservation: Reservation) -> None:
        """Free the reservation of a call that was not made. No effect on a settled reservation, so a
        `finally` may always release."""
        self._ledger.close_reservation(reservation.number)

    def used(self) -> dict[str, dict[str, float]]:
        """Return `used`, `limit`, `left` and `reserved` of every limit, by its name.

        `used`: what is settled. `reserved`: what calls in flight and the last round may still take. `left`:
        what can still be reserved besides them; at least 0. The rounds are those of this RLM, and their
        `left` includes the last round.
        """
        ledger = self._ledger
        seconds = ledger.clock() - ledger.started
        report = {
            "rounds": _line(self._rounds, self.limits.max_rounds, self.limits.max_rounds - self._rounds),
            "seconds": _line(seconds, self.limits.max_seconds, self.seconds_left),
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

    def limits_running_low(self) -> tuple[str, ...]:
        """Return the names of the limits of which less than a quarter is left. Omits limits of zero."""
        return tuple(
            name for name, line in self.used().items() if line["left"] < _LOW_FRACTION * line["limit"]
        )

    def _set_hold(self, amounts: dict[_Kind, int]) -> None:
        for kind in _KINDS:
            self._ledger.change_hold(kind, amounts[kind] - self._held_for_last_round[kind])
        self._held_for_last_round = amounts

    def _check_time(self) -> None:
        if self.seconds_left <= 0:
            raise _time_is_up(self.limits)

    def _exhausted(self, kind: _Kind, wanted: int, room: int) -> BudgetExhausted:
        if kind == "cost_usd":
            amounts = (
                f"${wanted / _NANO:.4f} wanted, ${max(room, 0) / _NANO:.4f} of ${self.limits.max_cost:g}"
            )
        else:
            amounts = f"{wanted:,} wanted, {max(room, 0):,} of {self._ledger.limits[kind]:,}"
        return BudgetExhausted(
            kind, f"not enough {_NAMES[kind]} left ({amounts})", remedy_limit=limit_of_measure(kind)
        )

    @staticmethod
    def _amounts(calls: int, tokens: int, cost_usd: float | None) -> dict[_Kind, int]:
        if calls < 0 or tokens < 0 or not 0 <= (cost_usd or 0.0) < math.inf:
            raise ValueError(f"amounts cannot be negative: {calls} calls, {tokens} tokens, {cost_usd} USD")
        return {"sub_calls": calls, "tokens": tokens, "cost_usd": _nano(cost_usd or 0.0)}


def _nano(dollars: float) -> int:
    # Round first: as a float, 0.1 is slightly above one tenth, and must not be rounded up.
    return math.ceil(round(dollars * _NANO, 3))


def _line(used: float, limit: float, left: float) -> dict[str, float]:
    left = max(left, 0)
    return {"used": used, "limit": limit, "left": left, "reserved": round(max(limit - used - left, 0), 9)}


@asynccontextmanager
async def seconds_left(budget: Budget) -> AsyncIterator[None]:
    """Cancel the body of the `with` when the run's time is up, and raise BudgetExhausted."""
    try:
        async with asyncio.timeout(budget.seconds_left):
            yield
    except TimeoutError as error:
        raise _time_is_up(budget.limits) from error


def _time_is_up(limits: Limits) -> BudgetExhausted:
    return BudgetExhausted(
        "seconds", f"the run's {limits.max_seconds:g} seconds are used up", remedy_limit="max_seconds"
    )
