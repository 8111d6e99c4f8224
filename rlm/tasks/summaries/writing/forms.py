"""The forms of a summary: the headings that fit a kind of text, or those of a file."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from functools import cache
from pathlib import Path

from rlm.errors import UsageError
from rlm.lazy_dataclass import dataclass
from rlm.prompts.history import HEADINGS
from rlm.prompts.templates import table
from rlm.sandbox.text.body import Body
from rlm.tasks.summaries.cards import Card
from rlm.tasks.summaries.commits import commits_in
from rlm.tasks.summaries.entries import Entry

__all__ = ["FORMS", "WORK", "Form", "certain_form", "form_of_headings", "is_story", "read_form"]

_MAX_BYTES = 64 << 10
_MAX_HEADINGS = 20
_HEADING = re.compile(r"^#{1,6}[ \t]+(.+?)[ \t]*#*$")
_LOG_SHARE = 0.7
"""The share of the entries of a log that have a time and no person who speaks."""
_LEVEL = re.compile(r"\b(?:TRACE|DEBUG|INFO|NOTICE|WARN(?:ING)?|ERROR|FATAL|CRITICAL)\b[\]:\s]")
_LETTER_LEVEL = re.compile(r"(?:^|[\d\]|] ?)[EWI](?:[\]:/|]| (?=\S))")
"""A level of one letter, as in logs of Android. A chat's `Ann: I came late` has none."""
_LEVEL_SHARE = 0.2
_SPOKEN = re.compile(r"[\"“«„][^\"”»“\n]{2,}(?:\n(?!\n)[^\"”»“\n]+){0,8}[\"”»“]")
_SPOKEN_SHARE = 0.1
_MIN_STORY_CHARS = 2_000
_MAX_TITLES = 3
_EXAMINED_CHARS = 500_000


@dataclass(frozen=True, slots=True)
class Form:
    """Headings, each with what belongs under it ("" if its name says it). The lines of `ordered` headings are
    in the order of events, and those of `prose` headings are shown as paragraphs. `about` says for which
    texts the form is."""

    name: str
    headings: tuple[tuple[str, str], ...]
    about: str = ""
    ordered: frozenset[str] = frozenset()
    prose: frozenset[str] = frozenset()

    @property
    def titles(self) -> tuple[str, ...]:
        return tuple(title for title, _ in self.headings)

    @property
    def is_work(self) -> bool:
        """Whether facts of work (requirements, decisions, errors) must survive in it."""
        return self.name == "work"

    @property
    def reader(self) -> str:
        """Return who the summary is for, if nobody said."""
        readers: Mapping[str, str] = table("summaries.toml")["reader"]
        return readers.get(self.name, readers["any"])

    def described(self) -> str:
        """Return the headings as a list for a prompt."""
        return "\n".join(f"- `## {title}`{f': {what}' if what else ''}" for title, what in self.headings)


@cache
def _forms() -> dict[str, Form]:
    return {
        name: Form(
            name,
            tuple((title, what) for title, what in one["headings"]),
            one["about"],
            frozenset(one.get("ordered", ())),
            frozenset(one.get("prose", ())),
        )
        for name, one in table("summaries.toml")["forms"].items()
    }


FORMS: Mapping[str, Form] = _forms()
WORK = FORMS["work"]
assert WORK.titles == HEADINGS


def read_form(form: str | Path) -> Form:
    """Return the form of that name, or the form in a file: its lines `# Heading` are the headings, and the
    text below each says what belongs there. Raises UsageError."""
    if isinstance(form, str) and form in FORMS:
        return FORMS[form]
    path = Path(form)
    try:
        text = path.read_bytes()[: _MAX_BYTES + 1].decode("utf-8-sig")
    except (OSError, UnicodeDecodeError) as error:
        names = ", ".join(FORMS)
        raise UsageError(
            f"{str(form)!r} is neither a form ({names}) nor a readable text file of headings: {error}"
        ) from error
    headings: list[tuple[str, str]] = []
    for line in text.splitlines():
        if found := _HEADING.match(line.strip()):
            headings.append((found[1].strip("* "), ""))
        elif headings and line.strip():
            title, what = headings[-1]
            headings[-1] = (title, f"{what} {line.strip().lstrip('-* ')}".strip())
    if not headings or len(headings) > _MAX_HEADINGS or len(text) > _MAX_BYTES:
        raise UsageError(
            f"{path} must have 1 to {_MAX_HEADINGS} headings, a line each: `## Heading`, and below it what "
            "belongs there"
        )
    titles = [title.casefold() for title, _ in headings]
    if len(set(titles)) < len(titles):
        raise UsageError(f"{path} has a heading twice: give each another name")
    return Form("own", tuple(headings))


def form_of_headings(titles: Sequence[str]) -> Form | None:
    """Return the built-in form that has all these headings; None if there is none."""
    return next((form for form in FORMS.values() if titles and set(titles) <= set(form.titles)), None)


def is_story(body: Body) -> bool:
    """Return whether the body is a narrative without headings: much of it is in quotation marks."""
    if any(document.kind not in ("text", "markdown") for document in body.documents):
        return False
    if len(body.marks.headings.between(0, body.chars)) > _MAX_TITLES:
        return False
    text = body.text(0, _EXAMINED_CHARS)
    spoken = sum(len(found) for found in _SPOKEN.findall(text))
    return len(text) >= _MIN_STORY_CHARS and spoken >= _SPOKEN_SHARE * len(text)


def certain_form(entries: Sequence[Entry], cards: Mapping[str, Card], text: str) -> Form | None:
    """Return the form of a text whose kind is certain without reading it: cards, a git log, a log. None for
    talk, which a model tells apart."""
    boards = sum(entry.message.content in cards for entry in entries)
    if boards > 1 and 2 * boards > len(entries):
        return FORMS["board"]
    if boards or any(entry.card for entry in entries) or commits_in(text):
        return WORK
    timed = [entry for entry in entries if entry.message.created_at]
    if entries and len(timed) >= _LOG_SHARE * len(entries):
        leveled = sum(
            _LEVEL.search(f"{entry.message.author or ''}: {entry.message.content[:80]}") is not None
            or (not entry.message.author and _LETTER_LEVEL.search(entry.message.content[:80]) is not None)
            for entry in timed
        )
        unnamed = sum(not entry.message.author for entry in timed)
        tags = {entry.message.author for entry in timed if entry.message.author}
        if leveled >= _LEVEL_SHARE * len(timed) or unnamed >= _LOG_SHARE * len(timed):
            return FORMS["log"]
        if tags and all(tag and tag.islower() for tag in tags):
            return FORMS["log"]  # programs, as in syslog
    return None
