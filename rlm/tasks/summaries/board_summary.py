"""What is computed from the cards of a board: counts by state, what is open, what blocks what."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Callable, Mapping, Sequence

from rlm.documents.cards import Card, day, moment
from rlm.tasks.summaries.entries import Entry

__all__ = ["board_counts"]

_MOST_BLOCKERS = 4
_MOST_BLOCKED = 6
_LATELY_DAYS = 14


def board_counts(entries: Sequence[Entry], cards: Mapping[str, Card]) -> list[str]:
    """Return exact statements about each document with several cards: how many are in which state, and which
    open ones wait for what."""
    boards: defaultdict[str, list[Card]] = defaultdict(list)
    for entry in entries:
        card = cards.get(entry.message.content)
        if card is not None:
            boards[entry.document].append(card)
    return [text for name, board in boards.items() if len(board) > 1 for text in _counts(name, board)]


def _counts(name: str, cards: Sequence[Card]) -> list[str]:
    text = f"{name} has {len(cards):,} cards: {_counted(Counter(card.state for card in cards))}."
    kinds = Counter(card.kind for card in cards if card.kind)
    if kinds:
        text += f" By kind: {_counted(kinds)}."
    created = sorted((card.created for card in cards if card.created), key=moment)
    last = max((time for card in cards for time in (card.created, card.updated, card.closed)), key=moment)
    if created:
        text += f" Created from {day(created[0])} to {day(created[-1])}; last change {day(last)}."
    since = moment(last).toordinal() - _LATELY_DAYS
    lately = sum(moment(card.closed).toordinal() > since for card in cards if card.closed)
    if lately:
        text += f" Closed in the last {_LATELY_DAYS} days of it: {lately:,}."
    lines = [text]
    open_cards = sorted((card for card in cards if card.group != "done"), key=lambda card: card.rank)
    ranked = Counter(card.priority for card in open_cards if card.priority)
    if ranked:
        by_rank = ", ".join(f"{count:,} of priority {name}" for name, count in ranked.items())
        lines.append(f"Not done: {by_rank}.")
    blockers = _open_blockers(cards)
    blocked = [
        f"{card.id or card.title} by {_joined(found)}" for card in open_cards if (found := blockers(card))
    ]
    if blocked:
        more = len(blocked) - _MOST_BLOCKED
        shown = "; ".join([*blocked[:_MOST_BLOCKED], *([f"and {more:,} more"] if more > 0 else [])])
        lines.append(f"Blocked: {shown}.")
    return lines


def _open_blockers(cards: Sequence[Card]) -> Callable[[Card], list[str]]:
    """Return a function for the cards that a card waits for, with their states. One that is not on the board
    may still be open."""
    by_id = {card.id: card for card in cards if card.id}
    waits: defaultdict[str, list[str]] = defaultdict(list)
    for card in cards:
        for waiting in card.blocks:
            waits[waiting].append(card.id)

    def find(card: Card) -> list[str]:
        others = dict.fromkeys((*card.blocked_by, *waits[card.id]))
        states = {name: by_id.get(name) for name in others}
        return [
            f"{name} ({other.state if other else 'not on the board'})"
            for name, other in states.items()
            if other is None or other.group != "done"
        ]

    return find


def _counted(counts: Counter[str]) -> str:
    return ", ".join(f"{name} {count:,}" for name, count in counts.most_common())


def _joined(blockers: Sequence[str]) -> str:
    more = len(blockers) - _MOST_BLOCKERS
    return ", ".join(blockers[:_MOST_BLOCKERS]) + (f" and {more:,} more" if more > 0 else "")
