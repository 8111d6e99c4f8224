"""Find the entries of a history: messages of a chat, sections of a card, commits, lines of a log.

The loader marks the messages of chats, boards and git logs. In other texts, an entry starts with a date, a
name before a colon, or a heading. No text is lost: text before the first entry is an entry of its own.
"""

from __future__ import annotations

import re
from bisect import bisect_right
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from datetime import datetime
from itertools import pairwise
from operator import itemgetter
from typing import TypeAlias

from rlm.documents.talk import LEVELS, MOMENT, NAME, TIME
from rlm.prompts.history import Message
from rlm.prompts.history.message import Role
from rlm.sandbox.text.body import Body, Document

__all__ = ["Entry", "date_in", "entries_of", "is_history", "paragraphs_of", "split"]

_DATE = re.compile(rf"(?<![\w.-]){MOMENT}", re.IGNORECASE)


def date_in(line: str) -> str | None:
    """Return the first date or time in `line`, as it is written."""
    found = _DATE.search(line)
    return found[0].strip() if found else None


_HEADER = 4_096
_MIN_ENTRIES = 3
_MIN_SPEAKERS = 2
_MAX_NAME = 40
_NAMED_SHARE = 0.15  # of the lines that are not blank; fewer labels may be chance
_STAMPED_SHARE = 0.05  # of the lines that are not blank
_TITLED_SHARE = 0.3  # of the headings
_HISTORY_SHARE = 0.5  # of the body
_EXAMINED_CHARS = 2_000_000
"""Characters of a document that decide whether it is a history."""
_LABEL_WORDS = """
    abstract args author date example examples figure fixme http https important note notes raises re returns
    see source sources state status subject summary table time tip title todo url usage version
"""
_LABELS = frozenset(_LABEL_WORDS.split())
_ROLES: dict[str, Role] = {
    **dict.fromkeys(("system", "developer"), "system"),
    **dict.fromkeys(("assistant", "ai", "bot", "model", "gpt", "agent", "claude", "llm"), "assistant"),
    **dict.fromkeys(("tool", "function"), "tool"),
    **dict.fromkeys(("user", "human"), "user"),
}

_DECORATION = r"[ \t]{0,8}(?:#{1,6} |[-*+>] )?[\[(<*_`]{0,4}"
_RANGE = rf"[ \t]*-->[ \t]*{TIME}[^\n]*\n"  # of subtitles; the text is below it
_TAG = r"(?:[\w.-]{1,60}[ ])?(?P<tag>[\w./@-]{2,40})\[\d{1,8}\]:"  # of syslog: host program[1234]:
_STAMPED = re.compile(
    rf"^{_DECORATION}(?P<time>{MOMENT})(?:{_RANGE})?[\])>*_`]{{0,4}}[ \t]*[-–—|:,]?[ \t]*"
    rf"(?:(?:[\[<(*@]{{0,3}}(?P<name>{NAME})[\]>)*]{{0,3}}[ \t]*[:|>][*]{{0,2}}|{_TAG})(?=\s|$)"
    rf"|<v (?P<voice>{NAME})>)?",
    re.MULTILINE,
)
_NAMED = re.compile(
    rf"^[ \t]{{0,4}}(?:[-*+>] )?(?:\[[^\]\n]{{1,24}}\][ \t]*)?[*_<]{{0,3}}(?P<name>{NAME})[*_>]{{0,3}}"
    r"[ \t]*(?:[(\[](?P<time>[^)\]\n]{3,40})[)\]])?[*_]{0,3}[ \t]*:[*_]{0,3}(?=[ \t]+\S|[ \t]*$)",
    re.MULTILINE,
)
_HEADING = re.compile(r"^(?P<mark>#{1,6})[ \t]+(?P<title>[^\n]{1,200})$", re.MULTILINE)
_SEPARATOR = re.compile(
    r"^[ \t]*[=*#_~-]{2,}[ \t]*(?P<inside>[^\n]{3,100}?)(?:[ \t]*[=*#_~-]{2,})?[ \t]*$", re.MULTILINE
)
_COMMIT_HEAD = re.compile(r"commit [^\n]*\n(?:[A-Z][A-Za-z]+:[^\n]*\n){1,20}\s*")
_DIFF = re.compile(r"^[ \t]*diff --git a/(\S+) b/\S+\n.*?(?=^[ \t]*diff --git |\Z)", re.MULTILINE | re.DOTALL)
_STAT = re.compile(r"^([ \t]*\S[^\n|]*?)[ \t]*\|[ \t]+(?:\d+ [+-]*|Bin [^\n]*)$", re.MULTILINE)
_FENCE = re.compile(r"^[ \t]*(`{3,}|~{3,})[^\n]*\n.*?(?:^[ \t]*\1[`~]*[ \t]*$|\Z)", re.MULTILINE | re.DOTALL)
_WRAP = re.compile(r"(?<=[^\n]{50})(?<![.!?:;…])[ \t]*\n[ \t]*(?=[^\W_]|[`\"“(])(?![^\W_]{1,3}[.)][ \t])")
_PARAGRAPH_CHARS = 1_500
_SENTENCE_END = re.compile(r"\n[ \t]*\n\s*|[.!?…][\"'”’)]*\s+|\n")
_REACH = 2_000
_NAME_IN_TITLE = re.compile(rf"^[\[(*_]*(?P<name>{NAME})")


@dataclass(frozen=True, slots=True)
class Entry:
    """An entry and its span in the body.

    `message.id` is the name for citations: `m12` for the 12th entry of all documents. `heading` is the
    heading above it, "" for none. `card`: the entry is a part of a card other than its messages."""

    start: int
    end: int
    message: Message
    document: str
    heading: str = ""
    card: bool = False

    @property
    def name(self) -> str:
        assert self.message.id is not None
        return self.message.id


@dataclass(frozen=True, slots=True)
class Found:
    """An entry in a text: its span, the start of its content, its author and time; "" if unknown."""

    start: int
    text: int
    end: int
    author: str = ""
    time: str = ""
    heading: str = ""


_Part: TypeAlias = tuple[int, int, Message, str, bool]
"""The start and end of an entry, its message, its heading, and whether it is outside a document's
messages."""


def entries_of(body: Body) -> tuple[Entry, ...]:
    """Return the entries of all documents, in order, numbered from 1. A text without recognizable entries is
    cut at its headings, else at its paragraphs."""
    found: list[Entry] = []
    for document in body.documents:
        if document.messages or document.kind == "card":
            parts: Iterable[_Part] = _read_marked(body, document)
            if document.kind == "commits":
                parts = _oldest_first(list(parts))
        else:
            text = body.text(document.start, document.end)
            parts = (
                (
                    document.start + one.start,
                    document.start + one.end,
                    _message(one, text),
                    one.heading,
                    False,
                )
                for one in split(text) or _paragraphs(text)
            )

        for start, end, message, heading, is_outside in parts:
            with_id = Message(
                message.role,
                message.content,
                message.author,
                message.created_at,
                id=f"m{len(found) + 1}",
            )
            card = is_outside and document.kind == "card"
            found.append(Entry(start, end, with_id, document.name, heading, card))
    return tuple(found)


def paragraphs_of(body: Body) -> tuple[Entry, ...]:
    """Return the paragraphs of all documents in order, long ones in pieces, named p1, p2, …"""
    found: list[Entry] = []
    for document in body.documents:
        text = body.text(document.start, document.end)
        for one in _paragraphs(text):
            first, last = document.start + one.start, document.start + one.end
            pieces = _cut_evenly(body, first, last, -(-(last - first) // _PARAGRAPH_CHARS))
            for start, end in pairwise([*pieces, last]):
                content = body.text(start, end).strip()
                if content:
                    message = Message("user", content, id=f"p{len(found) + 1}")
                    found.append(Entry(start, end, message, document.name))
    return tuple(found)


def _cut_evenly(body: Body, start: int, end: int, count: int) -> list[int]:
    """Return the starts of `count` parts of about equal size. Cuts where a sentence ends."""
    starts = [start]
    for part in range(1, count):
        at = start + (end - start) * part // count
        found = _SENTENCE_END.search(body.text(at, min(at + _REACH, end)))
        starts.append(at + found.end() if found else at)
    return starts


def is_history(body: Body) -> bool:
    """Return whether most of the body is a chat, a card, or a log whose entries have times or authors."""
    history = 0
    for document in body.documents:
        size = document.end - document.start
        if (
            document.messages
            or document.kind == "card"
            or (
                document.kind in ("text", "markdown", "subtitles")
                and _find_starts(
                    body.text(document.start, min(document.end, document.start + _EXAMINED_CHARS))
                )
            )
        ):
            history += size
    return history > _HISTORY_SHARE * body.chars


def split(text: str) -> list[Found]:
    """Return the entries of a plain text, oldest first. Together they are the whole text. Empty if no entries
    are recognizable."""
    starts = _find_starts(text)
    if not starts:
        starts = {match.start(): (match.end(), "", "", match["title"]) for match in _headings(text)}
        if len(starts) < _MIN_ENTRIES:
            return []
    return _make_entries(text, starts)


_Starts = dict[int, tuple[int, str, str, str]]
"""The start of each entry, with the start of its content, its author, time and heading."""


def _find_starts(text: str) -> _Starts:
    """Find the entries that start with a time or a name. Empty if the text is not written in entries.

    Dates and names before colons also occur in prose and code. So each kind of start counts only if it occurs
    several times, on a minimum share of the lines, and outside fenced code. Names must also repeat, and there
    must be at least two speakers.
    """
    lines = sum(1 for line in text.splitlines() if line.strip())
    fences = [match.span() for match in _FENCE.finditer(text)]
    stamped = [match for match in _STAMPED.finditer(text) if not _within(match.start(), fences)]
    starts: _Starts = {}
    if len(stamped) >= _MIN_ENTRIES and len(stamped) >= _STAMPED_SHARE * lines:
        for match in stamped:
            name = (match["name"] or match["tag"] or match["voice"] or "").strip()
            is_author = bool(name) and name.casefold() not in LEVELS
            starts[match.start()] = (
                match.end() if is_author or not name else match.start("name" if match["name"] else "tag"),
                name if is_author else "",
                match["time"].strip(),
                "",
            )
    named = [
        match
        for match in _NAMED.finditer(text)
        if not _within(match.start(), fences) and _is_name(match["name"])
    ]
    names = Counter(match["name"] for match in named)
    repeated = [match for match in named if names[match["name"]] > 1 or match["name"].casefold() in _ROLES]
    is_talk = len(names) >= _MIN_SPEAKERS and len(names) <= max(3, len(named) / 2)
    if is_talk and len(repeated) >= _MIN_ENTRIES and len(repeated) >= _NAMED_SHARE * lines:
        for match in named:
            time = (match["time"] or "").strip()
            starts.setdefault(match.start(), (match.end(), match["name"], time if date_in(time) else "", ""))
    headings = list(_headings(text, fences))
    titled = [match for match in headings if _has_time_or_role(match["title"])]
    if starts or (len(titled) >= _MIN_ENTRIES and len(titled) >= _TITLED_SHARE * len(headings)):
        for match in titled:
            starts[match.start()] = (
                match.end(),
                _author_in(match["title"]),
                date_in(match["title"]) or "",
                "",
            )
    return starts


def _is_name(words: str) -> bool:
    """Return whether this may be an author: one word, or several capitalized words."""
    parts = words.split()
    return words.casefold() not in LEVELS | _LABELS and (
        len(parts) == 1 or all(not part[0].islower() for part in parts)
    )


def _headings(text: str, fences: Sequence[tuple[int, int]] | None = None) -> Iterator[re.Match[str]]:
    fences = [match.span() for match in _FENCE.finditer(text)] if fences is None else fences
    return (match for match in _HEADING.finditer(text) if not _within(match.start(), fences))


def _within(place: int, spans: Sequence[tuple[int, int]]) -> bool:
    at = bisect_right(spans, place, key=itemgetter(0)) - 1
    return at >= 0 and spans[at][0] < place < spans[at][1]


def _has_time_or_role(title: str) -> bool:
    """Return whether a heading has a time or a role: `### assistant`, `## 2026-05-01 Anna`."""
    first = re.split(r"[^\w]+", title.strip("[]*_ "), maxsplit=1)[0].casefold()
    return first in _ROLES or date_in(title) is not None


def _author_in(title: str) -> str:
    rest = re.sub(MOMENT, " ", title, flags=re.IGNORECASE).strip(" \t-–—|:,()[]*_#")
    match = _NAME_IN_TITLE.match(rest)
    return match["name"].strip()[:_MAX_NAME] if match and len(rest) <= _MAX_NAME else ""


def _make_entries(text: str, starts: _Starts) -> list[Found]:
    """Divide the whole text into entries. Headings and separators without content belong to the next entry. A
    date in a separator applies until the next one."""
    dated = {
        match.start(): match["inside"] for match in _SEPARATOR.finditer(text) if date_in(match["inside"])
    }
    titles = {match.start(): match["title"] for match in _headings(text)}
    found: list[Found] = []
    places = sorted({0, *starts, *dated, *titles})
    # `start` is the end of the last entry. A place without content does not end an entry, so that `start`
    # stays behind and the next entry includes the heading or separator there. In this way the entries have no
    # gaps.
    start, day, heading = 0, "", ""
    for place, end in zip(places, [*places[1:], len(text)], strict=True):
        content, author, time, _ = starts.get(place, (place, "", "", ""))
        if place not in starts:
            if place in dated:
                day = date_in(dated[place]) or day
            elif place in titles:
                heading = titles[place].strip()
            line_end = text.find("\n", place, end)
            content = (
                (len(text) if line_end < 0 else line_end) if place in dated or place in titles else place
            )
        elif place in titles:
            heading = titles[place].strip()
        if not text[content:end].strip():
            continue
        found.append(Found(start, content, end, author, _join_time(time, day), heading))
        start = end
    if found and start < len(text):
        last = found[-1]
        found[-1] = Found(last.start, last.text, len(text), last.author, last.time, last.heading)
    return found


def _join_time(time: str, day: str) -> str:
    """Return the time. A time of day gets the day of the separator above it."""
    if time and day and not re.search(r"\d{4}|[A-Za-z]{3}|/", time):
        return f"{day} {time}"
    return time or day


def _paragraphs(text: str) -> list[Found]:
    found: list[Found] = []
    start = 0
    for match in re.finditer(r"\n[ \t]*\n\s*|\Z", text):
        if text[start : match.end()].strip():
            found.append(Found(start, start, match.end()))
            start = match.end()
    return found


def _message(one: Found, text: str) -> Message:
    role = _role(one.author)
    author = None if one.author.casefold() in _ROLES else one.author or None
    content = text[one.text : one.end]
    return Message(role, _unwrap(content).strip(), author, one.time or None)


def _unwrap(text: str) -> str:
    """Join wrapped lines, because a line end also ends a sentence. Leaves fenced code as it is."""
    pieces, at = [], 0
    for fence in _FENCE.finditer(text):
        pieces += [_WRAP.sub(" ", text[at : fence.start()]), fence[0]]
        at = fence.end()
    return "".join([*pieces, _WRAP.sub(" ", text[at:])])


def _role(name: str) -> Role:
    return _ROLES.get(name.casefold(), "user")


def _read_marked(body: Body, document: Document) -> Iterator[_Part]:
    """Yield the messages of a chat, and the text between them: a card's notes, decisions, files, logs."""
    at = document.start
    for row in body.marks.messages.between(document.start, document.end):
        start, end, _ = body.marks.messages.row(row)
        yield from _read_between(body, at, start)
        head = body.text(start, min(end, start + _HEADER)).partition("\n")[0]
        header = body.marks.header(row, head)
        content = body.text(start + len(head), end).strip()
        if document.kind == "commits":
            # What it did and the names of the changed files: no patch, and no bars of `--stat`.
            content = _STAT.sub(r"\1", _DIFF.sub(r"\1\n", _COMMIT_HEAD.sub("", content))).strip()
        role = header.role or header.author
        is_role = role.casefold() in _ROLES
        author = None if is_role and role == header.author else header.author
        author = author or (None if is_role else header.role) or None
        if content:
            yield start, end, Message(_role(role), content, author, header.time or None), "", False
        at = max(at, end)
    yield from _read_between(body, at, document.end)


def _oldest_first(parts: list[_Part]) -> list[_Part]:
    """Return commits in the order of time, so that new commits only add to the end."""
    times = [found for one in (parts[0], parts[-1]) if (found := _parse_time(one[2].created_at or ""))]
    return parts if len(times) == 2 and times[0] < times[1] else parts[::-1]


def _parse_time(time: str) -> float | None:
    """Parse a time in any of git's formats. Returns seconds since 1970."""
    for pattern in ("%a %b %d %H:%M:%S %Y %z", "%Y-%m-%d %H:%M:%S %z", "%a, %d %b %Y %H:%M:%S %z"):
        with suppress(ValueError):
            return datetime.strptime(time, pattern).timestamp()
    with suppress(ValueError):
        return datetime.fromisoformat(time).timestamp()
    return None


def _read_between(body: Body, start: int, end: int) -> Iterator[_Part]:
    """Yield the text outside the messages: an entry for each heading, and one for text before the first."""
    if start >= end:
        return
    rows = body.marks.headings.between(start, end)
    borders = sorted({start, *(body.marks.headings[row] for row in rows), end})
    for first, last in pairwise(borders):
        path = body.heading_path(first)
        row = next((row for row in rows if body.marks.headings[row] == first), None)
        content_start = first if row is None else body.marks.title(row)[1]
        content = body.text(content_start, last).strip()
        if content:
            heading = " › ".join(path[-2:]) if path else ""
            yield first, last, Message("user", content, heading or None), heading, True
