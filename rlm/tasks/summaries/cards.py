"""Read the cards of issue trackers (beads, GitHub, GitLab, Jira, Linear, Trello) from their JSON."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from datetime import UTC, datetime
from typing import Any, Literal, TypeAlias

from rlm.lazy_dataclass import dataclass

__all__ = ["Card", "Comment", "Group", "card_of", "moment"]

Group: TypeAlias = Literal["open", "active", "done"]

_IDS = ("key", "identifier", "iid", "number", "id", "shortLink")
_TITLES = ("title", "summary")
_STATES = ("status", "state")
_KINDS = ("issue_type", "issuetype", "issueType", "type", "kind")
_PEOPLE = ("assignees", "assignee", "owner")
_CREATED = ("created_at", "createdAt", "created", "created_on")
_UPDATED = ("updated_at", "updatedAt", "updated", "dateLastActivity")
_CLOSED = (
    "closed_at", "closedAt", "closed_on", "resolutiondate", "completedAt", "completed_at", "canceledAt",
    "merged_at", "mergedAt",
)  # fmt: skip
_REASONS = ("close_reason", "closeReason", "closed_reason", "resolution", "stateReason", "state_reason")
_DESCRIPTIONS = ("description", "body", "desc", "notes")
_MORE_TEXT = ("design", "acceptance_criteria", "notes")
_COMMENTS = ("comments", "comment", "notes")
_AUTHORS = ("author", "user", "created_by", "creator")
_BLOCKERS = ("blocked_by", "blockedBy", "depends_on", "dependsOn", "dependencies")
_NAMES = ("name", "displayName", "login", "username", "title", "value", "key")
_DETAILS = (*_KINDS, *_PEOPLE, *_CREATED, *_UPDATED, *_CLOSED, *_DESCRIPTIONS, "priority", "labels")
_DONE_WORDS = """
    closed done resolved complete completed cancelled canceled merged fixed wontfix duplicate archived
    released shipped verified rejected deleted tombstone
"""
_DONE = frozenset(_DONE_WORDS.split())
_ACTIVE_WORDS = """
    in_progress inprogress active started doing wip review in_review reviewing testing in_testing
"""
_ACTIVE = frozenset(_ACTIVE_WORDS.split())
_PHASES: Mapping[str, Group] = {
    # Jira's status categories, Linear's types of states
    "done": "done",
    "completed": "done",
    "canceled": "done",
    "indeterminate": "active",
    "started": "active",
}
_RANKS = (
    ("blocker", "critical", "urgent", "highest"),
    ("high", "major"),
    ("medium", "normal", "moderate"),
    ("low", "minor"),
    ("lowest", "trivial", "backlog"),
)
_NO_RANK = 9
_NO_REASON = re.compile(r"(?:closed|done|complete[d]?|fixed|resolved|none|null)?\.?", re.IGNORECASE)
_DROPPED = re.compile(
    r"(?:clos(?:ed|ing)(?: as|:)? |(?:is |was |now )?)?(?:won['’]?t|will not|not[ _]planned|duplicate|dup\b"
    r"|subsumed|superseded|replaced by"
    r"|obsolete|rejected|cancel|no longer|abandon|declined|not needed|invalid|by design"
    r"|out of scope)",
    re.IGNORECASE,
)


@dataclass(frozen=True, slots=True)
class Comment:
    """A comment: its author and date ("" if unknown) and its text."""

    author: str
    date: str
    text: str

    @property
    def paragraph(self) -> str:
        """The comment as a paragraph of its card."""
        return f"{' '.join(filter(None, ('Comment', self.author, self.date)))}: {self.text}"


@dataclass(frozen=True, slots=True)
class Card:
    """A card of an issue tracker; "" or () for what it does not say.

    `state` is as the tracker writes it; `group` is what it means. `blocked_by` are the ids of the cards that
    must be done first, `blocks` those that wait for this one. `created`, `updated` and `closed` are as
    written; `reason` says why it was closed."""

    id: str
    title: str
    state: str
    group: Group
    kind: str = ""
    priority: str = ""
    people: str = ""
    labels: str = ""
    created: str = ""
    updated: str = ""
    closed: str = ""
    reason: str = ""
    description: str = ""
    comments: tuple[Comment, ...] = ()
    blocked_by: tuple[str, ...] = ()
    blocks: tuple[str, ...] = ()
    parent: str = ""

    @property
    def name(self) -> str:
        """Its id and title."""
        return f"{self.id}: {self.title}" if self.id else self.title

    @property
    def rank(self) -> int:
        """The order of its priority: 0 is the most urgent."""
        word = self.priority.casefold()
        if number := re.fullmatch(r"p?(\d)", word):
            return int(number[1])
        return next((rank for rank, words in enumerate(_RANKS) if word in words), _NO_RANK)

    @property
    def traits(self) -> str:
        """Its kind and priority: `bug, priority 1`."""
        return ", ".join(filter(None, (self.kind, self.priority and f"priority {self.priority}")))

    def text(self, *, with_comments: bool = True) -> str:
        """Return the card in plain language."""
        times = {"created": self.created, "updated": self.updated, "closed": self.closed}
        facts = {
            "State": self.state,
            "Kind": self.traits,
            "Dates": ", ".join(f"{what} {day(time)}" for what, time in times.items() if time),
            "Why closed": self.reason,
            "People": self.people,
            "Labels": self.labels,
            "Blocked by": ", ".join(self.blocked_by),
            "Blocks": ", ".join(self.blocks),
            "Part of": self.parent,
        }
        head = "\n".join([self.name, *(f"{what}: {text}" for what, text in facts.items() if text)])
        said = [one.paragraph for one in self.comments] if with_comments else []
        return "\n\n".join(filter(None, (head, self.description, *said))).strip()


def card_of(value: Any) -> Card | None:
    """Return the card that `value` is; None if it is none: it needs a title, a state, and a detail of a
    card."""
    if not isinstance(value, Mapping) or "messages" in value:
        return None
    fields = {**value, **value["fields"]} if isinstance(value.get("fields"), Mapping) else value
    title = _first(fields, _TITLES)
    if not title and isinstance(fields.get("desc", fields.get("description")), str):
        title = _first(fields, ("name",))  # Trello, Asana, ClickUp
    found = _state(fields)
    if not title or found is None or not any(key in fields for key in _DETAILS):
        return None
    state, group = found
    reason = _first(fields, _REASONS)
    description = _first(fields, _DESCRIPTIONS)
    more = [f"{key.replace('_', ' ').capitalize()}: {_plain(fields[key])}" for key in _MORE_TEXT
            if _is_text(fields.get(key)) and _plain(fields[key]) != description]  # fmt: skip
    blocked_by, blocks, parent = _links(fields)
    return Card(
        id=_id(value),
        title=_line(title),
        state=state,
        group=group,
        kind=_line(_first(fields, _KINDS)),
        priority=_line(_first(fields, ("priorityLabel", "priority"))),
        people=_line(_first(fields, _PEOPLE)),
        labels=_line(_first(fields, ("labels", "tags"))),
        created=_time(fields, _CREATED),
        updated=_time(fields, _UPDATED),
        closed=_time(fields, _CLOSED),
        reason=""
        if _NO_REASON.fullmatch(reason.strip())
        else _line(reason.replace("_", " ") if reason.isupper() else reason),
        description="\n\n".join(filter(None, (description.strip(), *more))),
        comments=tuple(_comments(fields)),
        blocked_by=blocked_by,
        blocks=blocks,
        parent=parent,
    )


def moment(time: str) -> datetime:
    """Return the moment that `time` names; the earliest one if it names none."""
    try:
        found = datetime.fromisoformat(time.strip())
    except ValueError:
        return datetime.min.replace(tzinfo=UTC)
    return found if found.tzinfo else found.replace(tzinfo=UTC)


def day(time: str) -> str:
    """Return the date of a time as written: `2026-05-01`."""
    found = re.match(r"\d{4}-\d{2}-\d{2}", time)
    return found[0] if found else time


def _state(fields: Mapping[str, Any]) -> tuple[str, Group] | None:
    """Return the name of the state and its meaning; None if there is no state."""
    for key in _STATES:
        value = fields.get(key)
        name = _line(_plain(value)) if isinstance(value, str | Mapping) else ""
        if not name:
            continue
        phase = ""
        if isinstance(value, Mapping):
            category = value.get("statusCategory")
            phase = str(category.get("key", "") if isinstance(category, Mapping) else value.get("type", ""))
        word = re.sub(r"[\s-]+", "_", name.casefold())
        meant = _PHASES.get(phase.casefold())
        if meant is None:
            is_done = word.replace("'", "") in _DONE or _DROPPED.match(name)
            meant = "done" if is_done else "active" if word in _ACTIVE else "open"
        return name.replace("_", " ").casefold() if name.isupper() or "_" in name else name, meant
    for key in ("closed", "completed"):
        if isinstance(fields.get(key), bool):
            return ("closed", "done") if fields[key] else ("open", "open")
    return None


def _links(fields: Mapping[str, Any]) -> tuple[tuple[str, ...], tuple[str, ...], str]:
    """Return the ids of the cards that block this one, that it blocks, and of the card it is a part of."""
    own = _id(fields)
    blocked_by: list[str] = []
    blocks: list[str] = []
    parent = _id(fields.get("parent")) or _first(fields, ("parent_id", "parentId", "epic"))
    for one in (one for key in _BLOCKERS for one in _listed(fields.get(key))):
        kind = (
            str(one.get("type") or one.get("dependency_type") or "blocks")
            if isinstance(one, Mapping)
            else "blocks"
        )
        if kind == "parent-child":
            parent = parent or _id(one)
        elif kind.startswith(("block", "depend")):
            blocked_by.append(_id(one))
    for one in _listed(fields.get("issuelinks")):  # Jira
        if isinstance(one, Mapping) and isinstance(one.get("type"), Mapping):
            for side, cards in (("inward", "inwardIssue"), ("outward", "outwardIssue")):
                name = str(one["type"].get(side, ""))
                if "blocked by" in name or "depends on" in name:
                    blocked_by.append(_id(one.get(cards)))
                elif "block" in name:
                    blocks.append(_id(one.get(cards)))
    for key, found, end in (("relations", blocks, "relatedIssue"), ("inverseRelations", blocked_by, "issue")):
        found += [_id(one.get(end)) for one in _listed(fields.get(key))
                  if isinstance(one, Mapping) and one.get("type") == "blocks"]  # fmt: skip
    blocks += [_id(one) for one in _listed(fields.get("blocks"))]

    def clean(ids: Iterable[str]) -> tuple[str, ...]:
        return tuple(dict.fromkeys(one for one in ids if one and one != own))

    return clean(blocked_by), clean(blocks), parent


def _id(value: Any) -> str:
    """Return the id of a card, or of the card that a link names; `#3` where cards are numbered."""
    if isinstance(value, Mapping):
        keys = ("depends_on_id", "depends_on", *_IDS)
        key = next((key for key in keys if _plain(value.get(key))), "")
        return f"#{_plain(value[key])}" if key in ("number", "iid") else _plain(value.get(key))
    return str(value) if isinstance(value, str | int) and not isinstance(value, bool) else ""


def _comments(fields: Mapping[str, Any]) -> Iterator[Comment]:
    for key in _COMMENTS:
        value = fields.get(key)
        if isinstance(value, Mapping):
            value = value.get("comments", value.get("nodes"))
        for one in value if isinstance(value, list) else ():
            text = _first(one, ("text", "body", "content")) if isinstance(one, Mapping) else _plain(one)
            if text.strip():
                whose = one if isinstance(one, Mapping) else {}
                yield Comment(_line(_first(whose, _AUTHORS)), day(_time(whose, _CREATED)), text.strip())


def _time(fields: Mapping[str, Any], keys: Iterable[str]) -> str:
    for key in keys:
        value = fields.get(key)
        if isinstance(value, str) and value.strip():
            return value.strip()
        if isinstance(value, int | float) and 1e8 < value < 1e14:
            return datetime.fromtimestamp(value / 1_000 if value > 1e11 else value, UTC).isoformat()
    return ""


def _first(fields: Mapping[str, Any], keys: Iterable[str]) -> str:
    return next((text for key in keys if (text := _plain(fields.get(key)))), "")


def _is_text(value: Any) -> bool:
    return isinstance(value, str) and bool(value.strip())


def _listed(value: Any) -> list[Any]:
    """Return a list's items, also those of GraphQL's `nodes`, or the words of `a, b`."""
    if isinstance(value, Mapping):
        value = value.get("nodes")
    if isinstance(value, str):
        return [one.strip() for one in value.split(",")]
    return value if isinstance(value, list) else []


def _plain(value: Any) -> str:
    """Return a value's text: the names of people, labels and states, the text of Jira's documents."""
    if isinstance(value, list):
        return ", ".join(filter(None, map(_plain, value)))
    if isinstance(value, Mapping):
        if isinstance(value.get("content"), list):  # the format of Jira's texts
            return _document(value).strip()
        name = next((value[key] for key in _NAMES if _is_text(value.get(key))), None)
        return name if name is not None else _plain(value["nodes"]) if "nodes" in value else ""
    return "" if value is None or isinstance(value, bool) else str(value).replace("\r\n", "\n")


def _document(node: Any) -> str:
    if not isinstance(node, Mapping):
        return ""
    if node.get("type") == "hardBreak":
        return "\n"
    content = node.get("content")
    inside = "".join(map(_document, content)) if isinstance(content, list) else ""
    ends = node.get("type") in ("paragraph", "heading", "listItem", "codeBlock")
    return f"{node.get('text', '')}{inside}{chr(10) if ends else ''}"


def _line(text: str) -> str:
    return " ".join(text.replace('"', "").split()) if text.startswith('"') else " ".join(text.split())
