"""The entries of a history: messages of a chat, sections of a card, commits, dated and named lines of a log.

A chat kept as JSON has them marked by the loader. In plain text and Markdown they are found by what begins
them: a commit's hash, a date, a name before a colon, a heading. Nothing of a text is lost: what stands before
the first entry is one, too.
"""

from __future__ import annotations

import re
from bisect import bisect_right
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise
from operator import itemgetter
from typing import TypeAlias

from rlm.prompts.history import Message
from rlm.prompts.history.message import Role
from rlm.sandbox.in_kernel.body.body import Body, Document
from rlm.tasks.summaries.commits import commits_in, without_diff
from rlm.tasks.summaries.timestamps import MOMENT, TIME, date_in

__all__ = ["Entry", "entries_of", "is_history", "split"]

_HEADER = 4_096
_FEWEST = 3
_SPEAKERS = 2
_LONGEST_NAME = 40
_NAMED_SHARE = 0.15  # of the lines that are not blank: fewer labels than that are chance
_STAMPED_SHARE = 0.05
_HEADED_SHARE = 0.8  # of the entries that begin with a time
_TITLED_SHARE = 0.3  # of the headings
_HISTORY_SHARE = 0.5
_LOOKED_AT = 2_000_000  # characters of a document, to see what it is
_LEVEL_WORDS = "trace debug info notice warn warning error err fatal critical panic"
_LEVELS = frozenset(_LEVEL_WORDS.split())
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

_NAME = r"[^\W\d_](?:[\w.'’@&/+-]|[ ](?=[\w(@])){0,38}(?: \([^()\n]{1,20}\))?"
_DECORATION = r"[ \t]{0,8}(?:#{1,6} |[-*+>] )?[\[(<*_`]{0,4}"
_RANGE = rf"[ \t]*-->[ \t]*{TIME}[^\n]*\n"  # of subtitles; the words stand below
_TAG = r"(?:[\w.-]{1,60}[ ])?(?P<tag>[\w./@-]{2,40})\[\d{1,8}\]:"  # of syslog: host program[1234]:
_STAMPED = re.compile(
    rf"^{_DECORATION}(?P<time>{MOMENT})(?:{_RANGE})?[\])>*_`]{{0,4}}[ \t]*[-–—|:,]?[ \t]*"
    rf"(?:(?:[\[<(*@]{{0,3}}(?P<name>{_NAME})[\]>)*]{{0,3}}[ \t]*[:|>][*]{{0,2}}|{_TAG})(?=\s|$)"
    rf"|<v (?P<voice>{_NAME})>)?",
    re.MULTILINE,
)
_HEADED = re.compile(
    rf"^(?:(?P<name>{_NAME})[ \t]{{1,4}}(?:[—–-][ \t]|\[)(?P<time>{MOMENT})"
    rf"|\[?(?P<when>{MOMENT})\]?[ \t]+(?P<who>{_NAME}(?:, {_NAME})?))\]?[ \t]*\n(?=[^\n])",
    re.MULTILINE,
)
_NAMED = re.compile(
    rf"^[ \t]{{0,4}}(?:[-*+>] )?(?:\[[^\]\n]{{1,24}}\][ \t]*)?[*_<]{{0,3}}(?P<name>{_NAME})[*_>]{{0,3}}"
    r"[ \t]*(?:[(\[](?P<time>[^)\]\n]{3,40})[)\]])?[*_]{0,3}[ \t]*:[*_]{0,3}(?=[ \t]+\S|[ \t]*$)",
    re.MULTILINE,
)
_HEADING = re.compile(r"^(?P<mark>#{1,6})[ \t]+(?P<title>[^\n]{1,200})$", re.MULTILINE)
_SEPARATOR = re.compile(
    r"^[ \t]*[=*#_~-]{2,}[ \t]*(?P<inside>[^\n]{3,100}?)(?:[ \t]*[=*#_~-]{2,})?[ \t]*$", re.MULTILINE
)
_FENCE = re.compile(r"^[ \t]*(`{3,}|~{3,})[^\n]*\n.*?(?:^[ \t]*\1[`~]*[ \t]*$|\Z)", re.MULTILINE | re.DOTALL)
_WRAP = re.compile(r"(?<=[^\n]{50})(?<![.!?:;…])[ \t]*\n[ \t]*(?=[^\W_]|[`\"“(])(?![^\W_]{1,3}[.)][ \t])")
_NAME_IN_TITLE = re.compile(rf"^[\[(*_]*(?P<name>{_NAME})")


@dataclass(frozen=True, slots=True)
class Entry:
    """An entry and its span in the body. `message.id` is the name it is cited by: `m12` for the 12th of all
    documents; `heading` is what it stands under, "" where there is none. `card`: it is none of a card's
    messages, but what the card holds beside them."""

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
    """An entry in a text: its span, where its own words begin, who and when ("" where it does not say)."""

    start: int
    text: int
    end: int
    author: str = ""
    time: str = ""
    heading: str = ""
    commit: bool = False


_Part: TypeAlias = tuple[int, int, Message, str, bool]
"""A span, what is said there, the heading it stands under, and whether it stands beside a card's messages."""


def entries_of(body: Body) -> tuple[Entry, ...]:
    """The entries of all documents, in order, numbered from 1. A text without any marks is cut at its
    headings, else at its paragraphs."""
    found: list[Entry] = []
    for document in body.documents:
        if document.messages or document.kind == "card":
            parts = _marked(body, document)
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

        for start, end, message, heading, beside in parts:
            named = Message(
                message.role,
                message.content,
                message.author,
                message.created_at,
                id=f"m{len(found) + 1}",
            )
            card = beside and document.kind == "card"
            found.append(Entry(start, end, named, document.name, heading, card))
    return tuple(found)


def is_history(body: Body) -> bool:
    """Whether most of the body is a chat, a card, or a log whose entries say when or who."""
    history = 0
    for document in body.documents:
        size = document.end - document.start
        if (
            document.messages
            or document.kind == "card"
            or (
                document.kind in ("text", "markdown")
                and _begun(body.text(document.start, min(document.end, document.start + _LOOKED_AT)))
            )
        ):
            history += size
    return history > _HISTORY_SHARE * body.chars


def split(text: str) -> list[Found]:
    """The entries of a plain text, oldest first, which together hold all of it; none where nothing marks
    any."""
    commits = commits_in(text)
    if commits:
        return [Found(one.start, one.text, one.end, one.author, one.time, commit=True) for one in commits]
    begun = _begun(text)
    if not begun:
        begun = {match.start(): (match.end(), "", "", match["title"]) for match in _headings(text)}
        if len(begun) < _FEWEST:
            return []
    return _entries(text, begun)


_Begun = dict[int, tuple[int, str, str, str]]
"""By where an entry begins: where its words begin, author, time, heading."""


def _begun(text: str) -> _Begun:
    """What begins with a time or a name, if that is how this text is written. Empty when it is not."""
    if commits := commits_in(text):
        return {one.start: (one.text, "", "", "") for one in commits}
    lines = sum(1 for line in text.splitlines() if line.strip())
    fences = [match.span() for match in _FENCE.finditer(text)]
    stamped = [match for match in _STAMPED.finditer(text) if not _within(match.start(), fences)]
    begun: _Begun = {}
    if len(stamped) >= _FEWEST and len(stamped) >= _STAMPED_SHARE * lines:
        for match in stamped:
            name = (match["name"] or match["tag"] or match["voice"] or "").strip()
            known = bool(name) and name.casefold() not in _LEVELS
            begun[match.start()] = (
                match.end() if known or not name else match.start("name" if match["name"] else "tag"),
                name if known else "",
                match["time"].strip(),
                "",
            )
    headed = [match for match in _HEADED.finditer(text) if not _within(match.start(), fences)]
    if len(headed) >= _FEWEST and len(headed) >= max(_HEADED_SHARE * len(begun), _STAMPED_SHARE * lines):
        # Who and when stand on a line of their own.
        for match in headed:
            name, time = match["name"] or match["who"], match["time"] or match["when"]
            begun[match.start()] = (match.end(), name.strip(), time.strip(), "")
    named = [
        match
        for match in _NAMED.finditer(text)
        if not _within(match.start(), fences) and _is_name(match["name"])
    ]
    names = Counter(match["name"] for match in named)
    again = [match for match in named if names[match["name"]] > 1 or match["name"].casefold() in _ROLES]
    talk = len(names) >= _SPEAKERS and len(names) <= max(3, len(named) / 2)
    if talk and len(again) >= _FEWEST and len(again) >= _NAMED_SHARE * lines:
        for match in named:
            time = (match["time"] or "").strip()
            begun.setdefault(match.start(), (match.end(), match["name"], time if date_in(time) else "", ""))
    headings = list(_headings(text, fences))
    titled = [match for match in headings if _speaks(match["title"])]
    if begun or (len(titled) >= _FEWEST and len(titled) >= _TITLED_SHARE * len(headings)):
        for match in titled:
            begun[match.start()] = (
                match.end(),
                _author_in(match["title"]),
                date_in(match["title"]) or "",
                "",
            )
    return begun


def _is_name(words: str) -> bool:
    """Whether it may be whoever speaks: one word, or several that are all written large."""
    parts = words.split()
    return words.casefold() not in _LEVELS | _LABELS and (
        len(parts) == 1 or all(not part[0].islower() for part in parts)
    )


def _headings(text: str, fences: Sequence[tuple[int, int]] | None = None) -> Iterator[re.Match[str]]:
    fences = [match.span() for match in _FENCE.finditer(text)] if fences is None else fences
    return (match for match in _HEADING.finditer(text) if not _within(match.start(), fences))


def _within(place: int, spans: Sequence[tuple[int, int]]) -> bool:
    at = bisect_right(spans, place, key=itemgetter(0)) - 1
    return at >= 0 and spans[at][0] < place < spans[at][1]


def _speaks(title: str) -> bool:
    """Whether a heading says when, or which role: `### assistant`, `## 2026-05-01 Anna`."""
    first = re.split(r"[^\w]+", title.strip("[]*_ "), maxsplit=1)[0].casefold()
    return first in _ROLES or date_in(title) is not None


def _author_in(title: str) -> str:
    rest = re.sub(MOMENT, " ", title, flags=re.IGNORECASE).strip(" \t-–—|:,()[]*_#")
    match = _NAME_IN_TITLE.match(rest)
    return match["name"].strip()[:_LONGEST_NAME] if match and len(rest) <= _LONGEST_NAME else ""


def _entries(text: str, begun: _Begun) -> list[Found]:
    """Entries that together hold all of `text`. Headings and separators that hold nothing go to what
    follows, and a date in them holds until the next."""
    dated = {
        match.start(): match["inside"] for match in _SEPARATOR.finditer(text) if date_in(match["inside"])
    }
    titles = {match.start(): match["title"] for match in _headings(text)}
    found: list[Found] = []
    places = sorted({0, *begun, *dated, *titles})
    held, day, heading = 0, "", ""
    for place, end in zip(places, [*places[1:], len(text)], strict=True):
        words, author, time, _ = begun.get(place, (place, "", "", ""))
        if place not in begun:
            if place in dated:
                day = date_in(dated[place]) or day
            elif place in titles:
                heading = titles[place].strip()
            line_end = text.find("\n", place, end)
            words = (len(text) if line_end < 0 else line_end) if place in dated or place in titles else place
        elif place in titles:
            heading = titles[place].strip()
        if not text[words:end].strip():
            continue
        found.append(Found(held, words, end, author, _when(time, day), heading))
        held = end
    if found and held < len(text):
        last = found[-1]
        found[-1] = Found(last.start, last.text, len(text), last.author, last.time, last.heading)
    return found


def _when(time: str, day: str) -> str:
    """A time of day stands beside the day it was said under."""
    if time and day and not re.search(r"\d{4}|[A-Za-z]{3}|/", time):
        return f"{day} {time}"
    return time or day


def _paragraphs(text: str) -> list[Found]:
    found: list[Found] = []
    held = 0
    for match in re.finditer(r"\n[ \t]*\n\s*|\Z", text):
        if text[held : match.end()].strip():
            found.append(Found(held, held, match.end()))
            held = match.end()
    return found


def _message(one: Found, text: str) -> Message:
    role = _role(one.author)
    author = None if one.author.casefold() in _ROLES else one.author or None
    said = text[one.text : one.end]
    return Message(
        role, _unwrapped(without_diff(said) if one.commit else said).strip(), author, one.time or None
    )


def _unwrapped(text: str) -> str:
    """`text` with the lines joined that a margin broke: sentences are told apart by lines, too."""
    pieces, at = [], 0
    for fence in _FENCE.finditer(text):
        pieces += [_WRAP.sub(" ", text[at : fence.start()]), fence[0]]
        at = fence.end()
    return "".join([*pieces, _WRAP.sub(" ", text[at:])])


def _role(name: str) -> Role:
    return _ROLES.get(name.casefold(), "user")


def _marked(body: Body, document: Document) -> Iterator[_Part]:
    """The messages of a chat, and what stands between them: a card's notes, decisions, files, logs."""
    at = document.start
    for row in body.marks.messages.between(document.start, document.end):
        start, end, _ = body.marks.messages.row(row)
        yield from _between(body, at, start)
        head = body.text(start, min(end, start + _HEADER)).partition("\n")[0]
        header = body.marks.header(row, head)
        content = body.text(start + len(head), end).strip()
        known = header.role.casefold() in _ROLES
        author = header.author or (None if known else header.role) or None
        if content:
            yield start, end, Message(_role(header.role), content, author, header.time or None), "", False
        at = max(at, end)
    yield from _between(body, at, document.end)


def _between(body: Body, start: int, end: int) -> Iterator[_Part]:
    """What a card holds beside its messages, one entry for each heading and for what stands before any."""
    if start >= end:
        return
    rows = body.marks.headings.between(start, end)
    borders = sorted({start, *(body.marks.headings[row] for row in rows), end})
    for first, last in pairwise(borders):
        path = body.heading_path(first)
        row = next((row for row in rows if body.marks.headings[row] == first), None)
        words = first if row is None else body.marks.title(row)[1]
        content = body.text(words, last).strip()
        if content:
            heading = " › ".join(path[-2:]) if path else ""
            yield first, last, Message("user", content, heading or None), heading, True
