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
from types import MappingProxyType
from typing import Literal, TypeVar

from rlm.errors import BudgetExhausted
from rlm.limits import Limits, limit_of_measure, measure_of_limit
from rlm.playback.recording import Spent
from rlm.results import LIMITS_OF, StopReason

__all__ = ["STOP_REASONS", "Budget", "Reservation", "seconds_left"]

_NANO = 1_000_000_000
_LOW_FRACTION = 0.25
T = TypeVar("T")

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


Amounts = Mapping[_Kind, int]
"""Calls, tokens and nano-dollars."""


class Reservation:
    """Amounts that the ledger reserves for one call."""

    def __init__(self, amounts: Amounts) -> None:
        self.amounts = amounts


_NOTHING = Reservation(dict.fromkeys(_KINDS, 0))


class _Ledger:
    """Sums of one tree of runs, or of a share of it. `held` is reserved for last rounds."""

    def __init__(self, limits: Limits, clock: Callable[[], float]) -> None:
        self.limits: Amounts = {
            "sub_calls": limits.max_calls,
            "tokens": limits.max_total_tokens,
            "cost_usd": _nano(limits.max_cost),
        }
        self.seconds, self.started, self.clock = limits.max_seconds, clock(), clock
        self.used: dict[_Kind, int] = dict.fromkeys(_KINDS, 0)
        self.overrun: dict[_Kind, int] = dict.fromkeys(_KINDS, 0)
        self.open: set[Reservation] = set()
        self.held: set[Reservation] = set()
        self.cost_known = True
        self.settled = asyncio.Event()

    def left(self, kind: _Kind, *, margin: bool = False, in_flight: bool = True) -> int:
        """Return the amount still available.

        With `margin`, subtract for each call in flight the largest estimate error so far. Concurrent calls
        then overspend a limit by at most one estimate error. Without `in_flight`, calls in flight count as
        if they used nothing.
        """
        reserved = self.held | self.open if in_flight else self.held
        left = self.limits[kind] - self.used[kind] - sum(one.amounts[kind] for one in reserved)
        return left - (self.overrun[kind] * len(self.open) if margin else 0)

    def charge(self, charged: Amounts, reserved: Amounts) -> None:
        for kind in _KINDS:
            self.used[kind] += charged[kind]
            if reserved[kind] > 0:  # without an estimate there is no estimate error
                self.overrun[kind] = max(self.overrun[kind], charged[kind] - reserved[kind])


class Budget:
    """The budget of one RLM in a tree. It has its own rounds and shares all other limits with the tree.

    One round is kept in reserve, so that the root can answer when a limit is hit. `hold_last_round` reserves
    the tokens and the money for it. Call that method first, and again whenever the conversation grows.
    `clock` returns monotonic seconds. The time limit starts now.
    """

    def __init__(self, limits: Limits, *, clock: Callable[[], float] = time.monotonic) -> None:
        self.limits = limits
        self._ledger = _Ledger(limits, clock)
        # From this one to that of the whole tree: what is spent counts in each, and must fit in each.
        self._ledgers = [self._ledger]
        self._rounds = 0
        self._is_last_round_taken = False
        self._is_branch = False
        self._hold = _NOTHING

    def branch(self) -> Budget:
        """Return a budget for a sub-RLM. It has the same limits, but counts its own rounds and keeps its own
        last round in reserve. Close it at the end of the sub-RLM."""
        other = Budget(self.limits, clock=self._ledger.clock)
        other._ledger, other._ledgers = self._ledger, self._ledgers
        other._is_branch = True
        return other

    def share(self, limits: Limits) -> Budget:
        """Return a part of this budget with `limits` of its own. Its spending also counts here. Its time
        starts now and ends no later than the parent's."""
        other = Budget(limits, clock=self._ledger.clock)
        other._ledgers = [other._ledger, *self._ledgers]
        return other

    def close(self) -> None:
        """Release the hold for the last round. Safe to call twice."""
        self._set_hold(_NOTHING)

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

    def restore(self, spent: Spent) -> None:
        """Add what an earlier process spent on this run, without its seconds. In a share, the budget above is
        not changed: it holds that already."""
        for kind, amount in _amounts(spent.calls, spent.tokens, spent.cost_usd).items():
            self._ledger.used[kind] += amount
        self._ledger.cost_known = self._ledger.cost_known and spent.cost_known

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
        amounts = _amounts(0, tokens, cost_usd)
        for kind in _KINDS:
            room = self._left(kind) + self._hold.amounts[kind]
            if amounts[kind] > room:
                raise self._exhausted(kind, amounts[kind], room)
        self._set_hold(Reservation(amounts))

    async def hold_last_round_when_settled(self, *, tokens: int, cost_usd: float | None) -> None:
        """Hold like `hold_last_round`, but wait while only calls in flight are in the way."""
        held, amounts = self._hold.amounts, _amounts(0, tokens, cost_usd)
        more = {kind: amounts[kind] - held[kind] for kind in _KINDS}
        await self._when_settled(more, lambda: self.hold_last_round(tokens=tokens, cost_usd=cost_usd))

    def last_round_room(self) -> tuple[int, float]:
        """Return the tokens and dollars that the last round may use: what is held for it and what is left."""
        return self._last_round_room("tokens"), self._last_round_room("cost_usd") / _NANO

    def take_last_round(self, *, tokens: int, cost_usd: float | None) -> Reservation:
        """Turn the hold into a reservation and count the round, whichever limit was reached. Settle the
        reservation like any other. Raises BudgetExhausted for `rounds` if the last round was taken before.

        The root of the tree gets its last round even if it does not fit, because it is one call only. There
        may be many sub-RLMs, so the last round of a sub-RLM must fit. It is also refused if the sub-RLM has
        begun no round, because there is nothing to report yet.
        """
        if self._is_last_round_taken:
            raise BudgetExhausted("rounds", "the last round was already taken. No further call is possible")
        amounts = _amounts(0, tokens, cost_usd)
        for kind in _KINDS if self._is_branch else ():
            room = self._last_round_room(kind)
            if amounts[kind] > room or (not self._rounds and amounts[kind]):
                raise self._exhausted(kind, amounts[kind], room)
        self._is_last_round_taken = True
        self._rounds += 1
        self._set_hold(_NOTHING)
        return self._open(amounts)

    def _last_round_room(self, kind: _Kind) -> int:
        return self._hold.amounts[kind] + max(0, self._left(kind, margin=True))

    def reserve(self, *, calls: int = 1, tokens: int, cost_usd: float | None) -> Reservation:
        """Reserve the largest amounts that a call may use. `tokens` counts input and output. `cost_usd` is
        None if the price is unknown.

        `calls` is 1 for a child and 0 for a root round. Raises BudgetExhausted with the name of the limit
        (or `seconds`) that would be exceeded, and then reserves nothing. Raises ValueError for negative
        amounts.
        """
        self._check_time()
        amounts = _amounts(calls, tokens, cost_usd)
        for kind in _KINDS:
            room = self._left(kind, margin=True)
            if amounts[kind] > 0 and amounts[kind] > room:
                raise self._exhausted(kind, amounts[kind], room)
        if cost_usd is None:
            self._mark_price_unknown()
        return self._open(amounts)

    async def reserve_when_settled(
        self, *, calls: int = 1, tokens: int, cost_usd: float | None
    ) -> Reservation:
        """Reserve like `reserve`, but wait while only the reservations of calls in flight are in the way.

        Raises BudgetExhausted when the call would not fit even if they used nothing, or when none is in
        flight. The caller must hold no reservation itself.
        """
        return await self._when_settled(
            _amounts(calls, tokens, cost_usd),
            lambda: self.reserve(calls=calls, tokens=tokens, cost_usd=cost_usd),
        )

    def settle(self, reservation: Reservation, *, tokens: int, cost_usd: float | None) -> None:
        """Replace a reservation by the actual amounts. If `cost_usd` is None (price unknown), the reserved
        cost is charged. Raises ValueError if the reservation was settled or released before."""
        reserved = reservation.amounts
        charged = _amounts(reserved["sub_calls"], tokens, cost_usd)
        if reservation not in self._ledger.open:
            raise ValueError("the reservation was settled or released before")
        if cost_usd is None:
            self._mark_price_unknown()
            charged["cost_usd"] = reserved["cost_usd"]
        for ledger in self._ledgers:
            ledger.charge(charged, reserved)
        self.release(reservation)

    def release(self, reservation: Reservation) -> None:
        """Free the reservation of a call that was not made. No effect on a settled reservation, so a
        `finally` may always release."""
        if reservation in self._ledger.open:
            for ledger in self._ledgers:
                ledger.open.remove(reservation)
            # All that wait for any call of the tree try again, in order.
            whole = self._ledgers[-1]
            whole.settled.set()
            whole.settled = asyncio.Event()

    async def _when_settled(self, amounts: Amounts, attempt: Callable[[], T]) -> T:
        """Return what `attempt` returns, as soon as no call in flight is in the way of these amounts."""
        while True:
            try:
                return attempt()
            except BudgetExhausted:
                may_fit = all(
                    not amounts[kind] or amounts[kind] <= self._left(kind, in_flight=False) for kind in _KINDS
                )
                if not (may_fit and self.seconds_left > 0 and self._ledgers[-1].open):
                    raise
            await self._ledgers[-1].settled.wait()

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
            used, limit, left = ledger.used[kind], ledger.limits[kind], self._left(kind)
            report[kind] = _line(used / unit, limit / unit, left / unit)
        return report

    @property
    def seconds_left(self) -> float:
        """Return `remaining()["seconds"]`, but faster."""
        ends = (ledger.started + ledger.seconds for ledger in self._ledgers)
        return max(min(ends) - self._ledger.clock(), 0.0)

    def remaining(self) -> dict[str, float]:
        """Return what is left of each limit, by name."""
        return {name: line["left"] for name, line in self.used().items()}

    def limits_running_low(self) -> tuple[str, ...]:
        """Return the names of the limits of which less than a quarter is left. Omits limits of zero."""
        return tuple(
            name for name, line in self.used().items() if line["left"] < _LOW_FRACTION * line["limit"]
        )

    def _left(self, kind: _Kind, *, margin: bool = False, in_flight: bool = True) -> int:
        return min(ledger.left(kind, margin=margin, in_flight=in_flight) for ledger in self._ledgers)

    def _open(self, amounts: Amounts) -> Reservation:
        reservation = Reservation(amounts)
        for ledger in self._ledgers:
            ledger.open.add(reservation)
        return reservation

    def _set_hold(self, hold: Reservation) -> None:
        for ledger in self._ledgers:
            ledger.held.discard(self._hold)
            ledger.held.add(hold)
        self._hold = hold

    def _mark_price_unknown(self) -> None:
        for ledger in self._ledgers:
            ledger.cost_known = False

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
