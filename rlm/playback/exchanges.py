"""Keeps what each model was asked and what it replied while a run is replayed."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from contextvars import ContextVar

from rlm.lazy_dataclass import dataclass
from rlm.models.base import Message, Reply, Role

__all__ = ["Exchange", "keep_exchanges", "note_exchange"]


@dataclass(frozen=True, slots=True)
class Exchange:
    """One call: its messages and the reply. `within` names the sub-RLM that asked, empty for the run itself.
    `round` is 0 for every role but the root."""

    role: Role
    model: str
    messages: tuple[Message, ...]
    reply: Reply
    within: str = ""
    round: int = 0
    cost_usd: float | None = None


_kept: ContextVar[list[Exchange] | None] = ContextVar("kept_exchanges", default=None)


@contextmanager
def keep_exchanges() -> Iterator[list[Exchange]]:
    """Give a list to which every exchange is added, in this task and the tasks that it starts."""
    exchanges: list[Exchange] = []
    token = _kept.set(exchanges)
    try:
        yield exchanges
    finally:
        _kept.reset(token)


def note_exchange(
    role: Role,
    model: str,
    messages: Sequence[Message],
    reply: Reply,
    *,
    within: str,
    round_: int = 0,
    cost_usd: float | None = None,
) -> None:
    """Add an exchange to the list that is kept, if one is."""
    kept = _kept.get()
    if kept is not None:
        kept.append(Exchange(role, model, tuple(messages), reply, within, round_, cost_usd))
