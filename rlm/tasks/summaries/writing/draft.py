"""A summary while it is written: numbered lines that a model changes by naming them.

A line that no reply names stays word for word. So a fact survives however often messages are folded in.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import replace

from rlm.lazy_dataclass import dataclass
from rlm.tasks.summaries.summary_lines import (
    FIRST_TO_GO,
    MUST,
    USUAL,
    Line,
    page,
    parse_lines,
    read_line,
    words_of,
)
from rlm.tasks.summaries.writing.forms import FORMS, Form, form_of_headings

__all__ = ["Draft", "Edit", "edits_in", "first_draft", "fit"]

_EDIT = re.compile(
    r"^(?:[-*+•]\s+)?[`*]{0,2}L(\d{1,4})((?:\s*[+,&]\s*L?\d{1,4})*)[`*]{0,2}\s*(?:=|:|→|->)\s*(.*)$",
    re.IGNORECASE,
)
_NUMBER = re.compile(r"\d+")
_GONE = re.compile(r"^[`*]*(?:gone|removed?|deleted?|drop(?:ped)?)[`*.]*$", re.IGNORECASE)
_RIGHT = re.compile(
    r"^[`*]*(?:right|same|ok(?:ay)?|correct|unchanged|supported|no changes?)[`*.]*$", re.IGNORECASE
)
_WORD = re.compile(r"\w+")
_NO_CHANGE = re.compile(r"^no changes?\b\W*$", re.IGNORECASE)
_BULLET = re.compile(r"^[-*+•]\s+")
_KIND = re.compile(r"^[\W_]*kind[\W_]*:[\W_]*(\w+)[^\n]*\n?", re.IGNORECASE | re.MULTILINE)
_KIND_REACH = 200
_SAME = 0.85
"""The share of their words that two lines have in common if they tell the same."""
_SAME_SOURCE = 0.65
"""The share for lines that cite the same message."""
_MARKS = {MUST: "! ", USUAL: "", FIRST_TO_GO: "? "}
_WEIGHTS = {"!": MUST, "?": FIRST_TO_GO, "-": USUAL}


@dataclass(frozen=True, slots=True)
class Edit:
    """What a reply wants of the lines `places` (from 0): `line` instead of them, a `heading` or a `weight`
    for them. `is_right`: they stay as they are. Without any of these, they go."""

    places: tuple[int, ...]
    line: Line | None = None
    is_right: bool = False
    heading: str = ""
    weight: int | None = None

    @property
    def is_gone(self) -> bool:
        return self.line is None and not self.heading and self.weight is None and not self.is_right


def edits_in(text: str, count: int, titles: Sequence[str] = ()) -> tuple[list[Edit], str]:
    """Return the edits in a reply about `count` numbered lines, and the rest of the reply. Lines can be moved
    under one of the headings `titles`."""
    edits: list[Edit] = []
    rest: list[str] = []
    for row in text.splitlines():
        found = _EDIT.match(row.strip())
        places = [int(found[1]) - 1, *(int(one) - 1 for one in _NUMBER.findall(found[2]))] if found else []
        known = tuple(dict.fromkeys(place for place in places if 0 <= place < count))
        if found is None or not known:
            rest.append(row)
            continue
        value = _BULLET.sub("", found[3].strip())
        heading, value = _moved(value, titles)
        if value.strip("`* ") in _WEIGHTS and not heading:
            edits.append(Edit(known, weight=_WEIGHTS[value.strip("`* ")]))
        elif heading and not _WORD.search(value):
            edits.append(Edit(known, heading=heading))
        elif _GONE.match(value):
            edits.append(Edit(known))
        elif _RIGHT.match(value):
            edits.append(Edit(known, is_right=True))
        elif _WORD.search((line := read_line(value, "")).text):
            edits.append(Edit(known, line, heading=heading))
    return edits, "\n".join(row for row in rest if not _NO_CHANGE.match(_BULLET.sub("", row.strip())))


def _moved(value: str, titles: Sequence[str]) -> tuple[str, str]:
    """Return the heading that an edit begins with, "" for none, and the rest of the edit."""
    if value.startswith("#"):
        rest = value.lstrip("#` ")
        for title in sorted(titles, key=len, reverse=True):
            if rest.casefold().startswith(title.casefold()):
                return title, _BULLET.sub("", rest[len(title) :].strip("`*: \t"))
    return "", value


@dataclass(frozen=True, slots=True)
class Draft:
    """The lines of a summary so far, under the headings of a form."""

    form: Form
    lines: tuple[Line, ...] = ()

    def page(self) -> str:
        """Return the summary as Markdown."""
        empty = self.form.titles if self.form.is_work else ()
        return page(self.lines, self.form.titles, empty=empty, prose=self.form.prose)

    def sorted(self) -> Draft:
        """Return the draft with its lines in the order of the headings."""
        order = {title: at for at, title in enumerate(self.form.titles)}
        return replace(self, lines=tuple(sorted(self.lines, key=lambda line: order[line.heading])))

    def numbered(self) -> str:
        """Return the lines for a prompt, with their numbers and weights."""
        rows: list[str] = []
        heading = ""
        for number, line in enumerate(self.lines, 1):
            if line.heading != heading:
                heading = line.heading
                rows.append(f"## {heading}")
            mark = f" [{', '.join(line.names)}]" if line.names else ""
            rows.append(f"L{number} = - {_MARKS[line.weight]}{line.text}{mark}")
        return "\n".join(rows)

    def edited(self, reply: str, trace: Callable[[Sequence[Line]], list[Line]]) -> Draft:
        """Return the draft with the edits and new lines of a reply. `trace` finds the sources of lines. A new
        line that tells what a line tells already takes its place: some models write everything again."""
        edits, rest = edits_in(reply, len(self.lines), self.form.titles)
        lines: list[Line | None] = list(self.lines)
        for edit in edits:
            old = [line for place in edit.places if (line := lines[place]) is not None]
            if edit.is_right or not old:
                continue
            if edit.line is None and not edit.is_gone:
                for place in edit.places:
                    if (line := lines[place]) is not None:
                        weight = line.weight if edit.weight is None else edit.weight
                        lines[place] = replace(line, heading=edit.heading or line.heading, weight=weight)
                continue
            changed: list[Line] = []
            if edit.line is not None:
                names = edit.line.names or tuple(dict.fromkeys(name for line in old for name in line.names))
                # A line written without a mark keeps its weight; `?` says that it matters less now.
                weight = (
                    FIRST_TO_GO
                    if edit.line.weight == FIRST_TO_GO
                    else max(edit.line.weight, *(line.weight for line in old))
                )
                heading = edit.heading or old[0].heading
                changed = trace([replace(edit.line, heading=heading, names=names, weight=weight)])
                if not changed:
                    continue  # no line at all: the old ones stay
            for place in edit.places:
                lines[place] = None
            if changed:
                lines[edit.places[0]] = changed[0]
        for line in trace(parse_lines(rest, self.form.titles)):
            same = next(
                (at for at, one in enumerate(lines) if one is not None and _tells_the_same(one, line)), None
            )
            if same is None:
                lines.append(line)
            else:
                before = lines[same]
                assert before is not None
                lines[same] = replace(line, heading=before.heading, weight=max(line.weight, before.weight))
        return replace(self, lines=tuple(line for line in lines if line is not None)).sorted()


def first_draft(
    reply: str, form: Form | None, usual: Form, trace: Callable[[Sequence[Line]], list[Line]]
) -> Draft:
    """Return the draft that a first reply holds. Without a `form`, the reply names it, or its headings do;
    else it is `usual`."""
    if form is None:
        named = _KIND.search(reply[:_KIND_REACH])
        form = FORMS.get(named[1].casefold()) if named else None
        if form is None:
            titles = [row.lstrip("#").strip() for row in reply.splitlines() if row.startswith("#")]
            form = form_of_headings(titles) or usual
    head = _KIND.sub("", reply[:_KIND_REACH], count=1)
    return Draft(form, tuple(trace(parse_lines(head + reply[_KIND_REACH:], form.titles)))).sorted()


def fit(
    draft: Draft, size: Callable[[Draft], int], most: int, place_of: Callable[[Line], int]
) -> tuple[Draft, list[Line]]:
    """Return the draft without the lines that are too many for `most` tokens, and these lines.

    Doubtful lines go first, then the lightest. Of equal ones goes the last line of the longest heading; under
    an ordered heading, the line between the two that are nearest to each other, so that the end stays.
    """
    gone: list[Line] = []
    lines = list(draft.lines)
    while lines and size(replace(draft, lines=tuple(lines))) > most:
        lightest = min((not line.doubtful, line.weight) for line in lines)
        among = [at for at, line in enumerate(lines) if (not line.doubtful, line.weight) == lightest]
        counts = {title: sum(line.heading == title for line in lines) for title in draft.form.titles}
        longest = max(
            {lines[at].heading for at in among},
            key=lambda title: (counts[title], -draft.form.titles.index(title)),
        )
        own = [at for at in among if lines[at].heading == longest]
        if longest in draft.form.ordered and len(own) > 1:
            last = min(own, key=lambda at: _gap(lines, at, place_of))
        else:
            last = own[-1]
        gone.append(lines.pop(last))
    return replace(draft, lines=tuple(lines)), gone


def _gap(lines: Sequence[Line], at: int, place_of: Callable[[Line], int]) -> float:
    """Return how far apart in the messages the neighbours of a line are; infinite at the ends."""
    heading = lines[at].heading
    if not (0 < at < len(lines) - 1) or {lines[at - 1].heading, lines[at + 1].heading} != {heading}:
        return float("inf")
    return abs(place_of(lines[at + 1]) - place_of(lines[at - 1]))


def _tells_the_same(one: Line, other: Line) -> bool:
    """Return whether two lines tell the same. Lines from different messages do not if their names or numbers
    differ: `Ann pays 50` and `Ben pays 50` are two facts."""
    mine, theirs = words_of(one.text), words_of(other.text)
    shared, together = len(mine & theirs), len(mine | theirs)
    if set(one.names) & set(other.names):
        return shared >= _SAME_SOURCE * together > 0
    return shared >= _SAME * together > 0 and _particulars(one.text) == _particulars(other.text)


def _particulars(text: str) -> set[str]:
    return {word for word in _WORD.findall(text) if any(one.isdigit() or one.isupper() for one in word)}
