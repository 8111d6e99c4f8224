"""The forms of a summary: the headings that fit a kind of text, or those of a file."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from rlm.documents.cards import Card
from rlm.errors import UsageError
from rlm.prompts.templates import table
from rlm.tasks.summaries.entries import Entry

__all__ = ["FORMS", "Form", "certain_form", "read_form"]

_MAX_BYTES = 64 << 10
_MAX_HEADINGS = 20
_HEADING = re.compile(r"^#{1,6}[ \t]+(.+?)[ \t]*#*$")


@dataclass(frozen=True, slots=True)
class Form:
    """Headings, each with what belongs under it ("" if its name says it)."""

    name: str
    headings: tuple[tuple[str, str], ...]

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
        name: Form(name, tuple((title, what) for title, what in one["headings"]))
        for name, one in table("summaries.toml")["forms"].items()
    }


FORMS: Mapping[str, Form] = _forms()


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


def certain_form(entries: Sequence[Entry], cards: Mapping[str, Card], *, is_log: bool) -> Form | None:
    """Return the form of cards and of commits, which have fixed headings; None for other texts, which go by
    subject."""
    boards = sum(entry.message.content in cards for entry in entries)
    if boards > 1 and 2 * boards > len(entries):
        return FORMS["board"]
    is_work = boards > 0 or any(entry.card for entry in entries) or is_log
    return FORMS["work"] if is_work else None
