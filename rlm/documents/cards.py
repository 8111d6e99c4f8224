"""Reads the cards of issue trackers (beads, GitHub, GitLab, Jira, Linear, Trello) from their JSON.

The loader writes a card as text (`Card.text`). `Card.read` gets the fields back from that text.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any, Literal, TypeAlias

__all__ = ["Card", "Comment", "Group", "card_of", "day", "moment"]

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
_AUTHORS = ("author", "user", "created_by", "creator", "actor", "reporter")
_BLOCKERS = ("blocked_by", "blockedBy", "depends_on", "dependsOn", "dependencies")
_NAMES = ("login", "name", "displayName", "username", "title", "value", "key", "to")
_DETAILS = (*_KINDS, *_PEOPLE, *_CREATED, *_UPDATED, *_CLOSED, *_DESCRIPTIONS, "priority", "labels")
_COMMENTS = ("comments", "comment", "notes")
_EVENTS = ("reviews", "review_comments", "reviewThreads", "timeline", "timelineItems", "commits")
"""What is said of a pull request besides comments."""
_COMMENT_TIMES = (*_CREATED, "submitted_at", "submittedAt", "authoredDate", "committedDate")
_TOLD_EVENTS = ("closed", "reopened", "merged", "labeled", "renamed", "assigned", "milestoned")
_INTERNAL = ("id", "uuid", "node_id", "self", "avatarUrls", "gravatar_id", "reactions", "__typename", "url")
"""Fields without meaning for a reader, and addresses of APIs."""
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
_MEANT = re.compile(r" \((open|active|done)\)$")


@dataclass(frozen=True, slots=True)
class Comment:
    """A comment, review or commit: its author and time ("" if unknown) and its text."""

    author: str
    time: str
    text: str

    @property
    def paragraph(self) -> str:
        """The comment as a paragraph of its card."""
        return f"{' '.join(filter(None, ('Comment', self.author, day(self.time))))}: {self.text}"


@dataclass(frozen=True, slots=True)
class Card:
    """A card of an issue tracker; "" or () for what it does not say.

    `state` is as the tracker writes it; `group` is what it means. `blocked_by` are the ids of the cards that
    must be done first, `blocks` those that wait for this one. `created`, `updated` and `closed` are as
    written; `reason` says why it was closed. `more` is the JSON of its other fields. `is_thread` says that
    it is an issue or pull request of GitHub's API, and `has_events` that it holds reviews or commits."""

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
    author: str = ""
    more: str = ""
    is_thread: bool = False
    has_events: bool = False

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

    def text(self, *, with_comments: bool = True) -> str:
        """Return the card in plain language: its name, a line for each fact, and its texts."""
        is_plain = not self.state or _group_of(self.state) == self.group
        facts = {
            "State": self.state if is_plain else f"{self.state} ({self.group})",
            "Kind": self.kind,
            "Priority": self.priority,
            "Created": day(self.created),
            "Updated": day(self.updated),
            "Closed": day(self.closed),
            "Why closed": self.reason,
            "Author": self.author,
            "People": self.people,
            "Labels": self.labels,
            "Blocked by": ", ".join(self.blocked_by),
            "Blocks": ", ".join(self.blocks),
            "Part of": self.parent,
        }
        head = "\n".join([self.name, *(f"{what}: {text}" for what, text in facts.items() if text)])
        comments = [one.paragraph for one in self.comments] if with_comments else []
        return "\n\n".join(filter(None, (head, self.description, *comments, self.more))).strip()

    @classmethod
    def read(cls, text: str, id: str) -> Card:
        """Return the card with this id that `text` was written from, as far as its lines of facts tell."""
        name, *lines = text.partition("\n\n")[0].split("\n")
        facts = dict(line.split(": ", 1) for line in lines if ": " in line)
        state = facts.get("State", "")
        meant = _MEANT.search(state)
        state = _MEANT.sub("", state)

        def ids(what: str) -> tuple[str, ...]:
            return tuple(facts[what].split(", ")) if what in facts else ()

        return cls(
            id=id if name.startswith(f"{id}: ") else "",
            title=name.removeprefix(f"{id}: "),
            state=state,
            group=meant[1] if meant else _group_of(state),  # type: ignore[arg-type]
            kind=facts.get("Kind", ""),
            priority=facts.get("Priority", ""),
            created=facts.get("Created", ""),
            updated=facts.get("Updated", ""),
            closed=facts.get("Closed", ""),
            blocked_by=ids("Blocked by"),
            blocks=ids("Blocks"),
        )


class _Fields:
    """The fields of a JSON object, and which of them were used."""

    def __init__(self, values: Mapping[str, Any]) -> None:
        self.values = values
        self.used: set[str] = set()

    def get(self, key: str) -> Any:
        self.used.add(key)
        return self.values.get(key)

    def first(self, keys: Iterable[str]) -> str:
        """Return the text of the first of these fields that has one."""
        for key in keys:
            if text := _plain(self.values.get(key)):
                self.used.add(key)
                return text
        return ""

    def line(self, keys: Iterable[str]) -> str:
        return _line(self.first(keys))

    def time(self, keys: Iterable[str]) -> str:
        for key in keys:
            value = self.values.get(key)
            if isinstance(value, str) and value.strip():
                self.used.add(key)
                return _line(value)
            if isinstance(value, int | float) and 1e8 < value < 1e14:
                self.used.add(key)
                return datetime.fromtimestamp(value / 1_000 if value > 1e11 else value, UTC).isoformat()
        return ""

    def more(self) -> str:
        """Return the JSON of the fields that were not used and say something."""
        rest = {key: one for key, one in self.values.items() if key not in self.used}
        told = _told(rest)
        return json.dumps(told, ensure_ascii=False) if told else ""


def card_of(value: Any) -> Card | None:
    """Return the card that `value` is; None if it is none: it needs a title, a state, and a detail of a
    card. An issue of GitHub's API needs no state."""
    if not isinstance(value, Mapping) or "messages" in value:
        return None
    try:
        return _card_of(value)
    except RecursionError:  # nested too deeply
        return None


def _card_of(value: Mapping[str, Any]) -> Card | None:
    inner = value.get("fields")
    fields = _Fields({**value, **inner} if isinstance(inner, Mapping) else value)
    fields.used.add("fields")
    title = fields.first(_TITLES)
    if not title and isinstance(fields.values.get("desc", fields.values.get("description")), str):
        title = fields.first(("name",))  # Trello, Asana, ClickUp
    is_thread = isinstance(title, str) and "body" in value and not {"number", "comments"}.isdisjoint(value)
    state = _state(fields)
    if not title or (state is None and not is_thread) or not any(key in fields.values for key in _DETAILS):
        return None
    name, group = state or ("", "open")
    reason = fields.first(_REASONS).strip()
    texts = [fields.first(_DESCRIPTIONS).strip()]
    for key in _MORE_TEXT:
        if _is_text(fields.values.get(key)) and (text := _plain(fields.get(key)).strip()) not in texts:
            texts.append(f"{key.replace('_', ' ').capitalize()}: {text}")
    blocked_by, blocks, parent = _links(fields)
    fields.used.update(key for key in (*_IDS, "priority") if key in value)
    comments, has_events = _comments(fields)
    return Card(
        id=_id(value),
        title=_line(title),
        state=name,
        group=group,
        kind=fields.line(_KINDS),
        priority=fields.line(("priorityLabel", "priority")),
        people=fields.line(_PEOPLE),
        labels=fields.line(("labels", "tags")),
        created=fields.time(_CREATED),
        updated=fields.time(_UPDATED),
        closed=fields.time(_CLOSED),
        reason=""
        if _NO_REASON.fullmatch(reason)
        else _line(reason.replace("_", " ") if reason.isupper() else reason),
        description="\n\n".join(filter(None, texts)),
        comments=comments,
        blocked_by=blocked_by,
        blocks=blocks,
        parent=parent,
        author=fields.line(_AUTHORS),
        more=fields.more(),
        is_thread=is_thread,
        has_events=has_events,
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


def _state(fields: _Fields) -> tuple[str, Group] | None:
    """Return the name of the state and its meaning; None if there is no state."""
    for key in _STATES:
        value = fields.values.get(key)
        name = _line(_plain(value)) if isinstance(value, str | Mapping) else ""
        if not name:
            continue
        fields.used.add(key)
        phase = ""
        if isinstance(value, Mapping):
            category = value.get("statusCategory")
            phase = str(category.get("key", "") if isinstance(category, Mapping) else value.get("type", ""))
        meant = _PHASES.get(phase.casefold()) or _group_of(name)
        return name.replace("_", " ").casefold() if name.isupper() or "_" in name else name, meant
    for key in ("closed", "completed"):
        if isinstance(fields.values.get(key), bool):
            return ("closed", "done") if fields.get(key) else ("open", "open")
    return None


def _group_of(state: str) -> Group:
    """Return what the name of a state means."""
    word = re.sub(r"[\s-]+", "_", state.casefold())
    if word.replace("'", "") in _DONE or _DROPPED.match(state):
        return "done"
    return "active" if word in _ACTIVE else "open"


def _links(fields: _Fields) -> tuple[tuple[str, ...], tuple[str, ...], str]:
    """Return the ids of the cards that block this one, that it blocks, and of the card it is a part of."""
    own = _id(fields.values)
    blocked_by: list[str] = []
    blocks: list[str] = []
    parent = _id(fields.get("parent")) or fields.line(("parent_id", "parentId", "epic"))
    for one in (one for key in _BLOCKERS for one in _listed(fields.get(key))):
        kind = "blocks"
        if isinstance(one, Mapping):
            kind = str(one.get("type") or one.get("dependency_type") or kind)
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
        found += [
            _id(one.get(end))
            for one in _listed(fields.get(key))
            if isinstance(one, Mapping) and one.get("type") == "blocks"
        ]
    blocks += [_id(one) for one in _listed(fields.get("blocks"))]

    def clean(ids: Iterable[str]) -> tuple[str, ...]:
        return tuple(dict.fromkeys(one for one in ids if one and one != own))

    return clean(blocked_by), clean(blocks), parent


def _id(value: Any) -> str:
    """Return the id of a card, or of the card that a link names; `#3` where cards are numbered."""
    if isinstance(value, Mapping):
        keys = ("depends_on_id", "depends_on", *_IDS)
        key = next((key for key in keys if _plain(value.get(key))), "")
        return _line(f"#{_plain(value[key])}" if key in ("number", "iid") else _plain(value.get(key)))
    return _line(str(value)) if isinstance(value, str | int) and not isinstance(value, bool) else ""


def _comments(fields: _Fields) -> tuple[tuple[Comment, ...], bool]:
    """Return all that is said of the card, by time if all of it has one, and whether there are reviews,
    commits or events."""
    comments = [one for key in _COMMENTS for one in _talk(fields.values.get(key), key)]
    events = [one for key in _EVENTS for one in _talk(fields.values.get(key), key)]
    for key in (*_COMMENTS, *_EVENTS):
        if not isinstance(fields.values.get(key), str):
            fields.used.add(key)  # without the comments themselves, REST gives their number
    found = [*comments, *events]
    if all(one.time for one in found):
        found.sort(key=lambda one: one.time)
    return tuple(found), bool(events)


def _talk(value: Any, kind: str) -> Iterator[Comment]:
    if isinstance(value, Mapping):
        value = value.get("comments", value.get("nodes"))
    for one in value if isinstance(value, list) else ():
        if kind == "reviewThreads" and isinstance(one, Mapping):
            yield from _talk(one.get("comments"), "comments")
            continue
        whole: Mapping[str, Any] = one if isinstance(one, Mapping) else {}
        commit, inner = whole, whole.get("commit")
        if kind == "commits" and isinstance(inner, Mapping):
            commit = inner
        source = _Fields(commit)
        author = source.line((*_AUTHORS, "authors"))
        time = source.time(_COMMENT_TIMES)
        if isinstance(commit.get("author"), Mapping):
            time = time or _line(str(commit["author"].get("date") or ""))
        if text := (_talk_text(whole, commit, kind) if whole else _plain(one)).strip():
            yield Comment(author, time, text)


def _talk_text(one: Mapping[str, Any], commit: Mapping[str, Any], kind: str) -> str:
    if kind == "commits":
        parts = (commit.get("messageHeadline"), commit.get("messageBody"))
        message = commit.get("message") or "\n\n".join(filter(None, map(_plain, parts)))
        return f"commit {_plain(one.get('oid') or one.get('sha'))[:10]}: {message}" if message else ""
    text = _Fields(one).first(("text", "body", "content"))
    if not text and one.get("event") in _TOLD_EVENTS:
        return f"{one['event']} {_plain(one.get('label') or one.get('rename') or one.get('assignee'))}"
    place = f"[{one['path']}] " if isinstance(one.get("path"), str) else ""
    state = f"review: {_plain(one.get('state'))} " if kind == "reviews" and one.get("state") else ""
    return f"{place}{state}{text}"


def _told(value: Any) -> Any:
    """Return a value without what says nothing: empty fields, internal numbers, addresses of APIs."""
    if isinstance(value, Mapping):
        told = {
            key: _told(one)
            for key, one in value.items()
            if key not in _INTERNAL and (not key.endswith("_url") or key == "html_url")
        }
        return {key: one for key, one in told.items() if one not in (None, "", [], {}) and one is not False}
    return [_told(one) for one in value] if isinstance(value, list) else value


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
