"""The lines of a summary that are computed from cards: counts by state, what was closed, what is open."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping, Sequence
from itertools import islice

from rlm.prompts.history.sentences import pieces
from rlm.tasks.summaries.cards import Card, day, moment
from rlm.tasks.summaries.entries import Entry
from rlm.tasks.summaries.summary_lines import Line

__all__ = ["Board", "boards_of"]

_SHORTEST, _LONGEST = 90, 240
"""Characters of a reason or comment in a line, by the room for all lines."""
_TOKENS_PER_CARD = 40
"""With less room for each card, its line has only what matters most."""
_MOST_BLOCKERS = 4
_MOST_BLOCKED = 6
_LATELY_DAYS = 14
_TURNS = {"active": 1, "closed": 1, "fixed": 1, "left": 2, "dropped": 1}
"""The groups of cards, with the number of lines of each turn."""


class Board:
    """The cards of one document, each with the entry that it is."""

    def __init__(self, name: str, cards: Sequence[tuple[str, Card]]) -> None:
        self._name = name
        self._cards = cards
        self._by_id = {card.id: card for _, card in cards if card.id}
        self._blockers: defaultdict[str, list[str]] = defaultdict(list)
        for _, card in cards:
            self._blockers[card.id] += card.blocked_by
            for waiting in card.blocks:
                self._blockers[waiting].append(card.id)

    @property
    def is_single(self) -> bool:
        return len(self._cards) == 1

    def counts(self) -> list[Line]:
        """Return the lines that are counted over all cards, and what blocks open ones; none for a single
        card."""
        if self.is_single:
            return []
        cards = [card for _, card in self._cards]
        text = f"{self._name} has {len(cards):,} cards: {_counted(Counter(card.state for card in cards))}."
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
        lines = [Line("Task Summary", text)]
        ranked = Counter(card.priority for card in sorted(cards, key=lambda card: card.rank)
                         if card.group != "done" and card.priority)  # fmt: skip
        if ranked:
            by_rank = ", ".join(f"{count:,} of priority {name}" for name, count in ranked.items())
            lines.append(Line("Remaining Work", f"Not done: {by_rank}."))
        blocked = [(name, card, found) for name, card in self._cards if (found := self._open_blockers(card))]
        blocked.sort(key=lambda one: one[1].rank)
        if blocked:
            said = "; ".join(f"{card.id or card.title} by {_joined(found)}"
                             for _, card, found in blocked[:_MOST_BLOCKED])  # fmt: skip
            more = len(blocked) - _MOST_BLOCKED
            lines.append(
                Line(
                    "Remaining Work",
                    f"Blocked: {said}{f'; and {more:,} more' if more > 0 else ''}.",
                    tuple(name for name, _, _ in blocked[:_MOST_BLOCKED]),
                )
            )
        return lines

    def lines(self, tokens: int) -> Iterator[Line]:
        """Yield a line for each card, the most telling ones first, in turn from each heading. With few
        `tokens` for all of them, the lines are shorter."""
        groups: defaultdict[str, list[tuple[str, Card]]] = defaultdict(list)
        for name, card in self._cards:
            groups[_group(card)].append((name, card))
        for done in ("closed", "fixed", "dropped"):
            groups[done].sort(key=lambda one: _recency(one[1]), reverse=True)
        blockers = {other for ids in self._blockers.values() for other in ids}
        groups["left"].sort(key=lambda one: moment(one[1].updated or one[1].created), reverse=True)
        groups["left"].sort(key=lambda one: (one[1].rank, one[1].id not in blockers))
        groups["active"].sort(key=lambda one: one[1].rank)
        queues = {name: iter(groups[name]) for name in _TURNS}
        longest = _LONGEST if self.is_single else min(_LONGEST, max(_SHORTEST, tokens // 6))
        is_tight = tokens < _TOKENS_PER_CARD * len(self._cards)
        while any(groups.values()):
            for name, count in _TURNS.items():
                taken = list(islice(queues[name], count))
                if not taken:
                    groups.pop(name, None)
                for entry, card in taken:
                    yield self._line(name, entry, card, longest, is_tight=is_tight)

    def _line(self, group: str, name: str, card: Card, longest: int, *, is_tight: bool) -> Line:
        text = card.name
        if card.traits and not is_tight:
            text += f" ({card.traits})"
        if card.group == "done":
            text += f": {card.state}, not done" if card.is_dropped else f": {card.state}"
            text += f" {day(card.closed)}" if card.closed else ""
        else:
            text += f": {card.state}" if not is_tight or card.state.casefold() != "open" else ""
            text += f", created {day(card.created)}" if card.created and not is_tight else ""
            if blockers := self._open_blockers(card):
                text += f", blocked by {_joined(blockers)}"
        text += f": {_clip(card.reason, longest)}" if card.reason else "."
        if card.comments and not card.reason and not self.is_single:
            last = card.comments[-1]
            said = ", ".join(filter(None, (last.author, last.date)))
            text += f" Last comment{f' ({said})' if said else ''}: {_clip(last.text, longest)}"
        heading = "Current State" if self.is_single else _HEADINGS[group]
        return Line(heading, text, (name,))

    def _open_blockers(self, card: Card) -> list[str]:
        """Return the cards that this one waits for, with their states. A card that is not on the board may
        still be open."""
        if card.group == "done":
            return []
        found = []
        for other in dict.fromkeys((*self._blockers[card.id], *card.blocked_by)):
            known = self._by_id.get(other)
            if known is None:
                found.append(f"{other} (not on the board)")
            elif known.group != "done":
                found.append(f"{other} ({known.state})")
        return found


_HEADINGS: Mapping[str, str] = {
    "active": "Current State",
    "left": "Remaining Work",
    "closed": "Current State",
    "fixed": "Errors Resolved",
    "dropped": "Key Decisions",
}


def boards_of(entries: Sequence[Entry], cards: Mapping[str, Card]) -> list[Board]:
    """Return the boards, one for each document with cards."""
    found: defaultdict[str, list[tuple[str, Card]]] = defaultdict(list)
    for entry in entries:
        card = cards.get(entry.message.content)
        if card is not None:
            found[entry.document].append((entry.name, card))
    return [Board(name, of_one) for name, of_one in found.items()]


def _recency(card: Card) -> int:
    """Return the day on which a card was closed. A card that does not say why counts as older."""
    says_why = bool(card.reason or card.comments)
    return moment(card.closed or card.updated).toordinal() - (0 if says_why else _LATELY_DAYS)


def _group(card: Card) -> str:
    if card.group != "done":
        return "active" if card.group == "active" else "left"
    if card.is_dropped:
        return "dropped"
    return "fixed" if card.is_bug else "closed"


def _clip(text: str, longest: int) -> str:
    """Return the first sentences of a text, at most `longest` characters; a longer sentence is cut at a
    word."""
    taken = ""
    for sentence in pieces(text):
        longer = f"{taken} {sentence}" if taken else sentence
        if len(longer) > longest:
            break
        taken = longer
    if not taken:
        flat = " ".join(text.split())
        taken = flat if len(flat) <= longest else flat[:longest].rsplit(" ", 1)[0] + " …"
    return taken


def _counted(counts: Counter[str]) -> str:
    return ", ".join(f"{name} {count:,}" for name, count in counts.most_common())


def _joined(blockers: Sequence[str]) -> str:
    more = len(blockers) - _MOST_BLOCKERS
    return ", ".join(blockers[:_MOST_BLOCKERS]) + (f" and {more:,} more" if more > 0 else "")
