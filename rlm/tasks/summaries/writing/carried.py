"""Take over the summary of an earlier run, so that only new messages are read."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from typing import Any

from rlm.prompts.history import HEADINGS, Message
from rlm.prompts.history.message import render
from rlm.tasks.jobs.job import PreviousJob
from rlm.tasks.summaries.summary_lines import DOUBTFUL, NO_SOURCE, Line, parse_lines
from rlm.tasks.summaries.writing.draft import Draft
from rlm.tasks.summaries.writing.fold import Start
from rlm.tasks.summaries.writing.forms import FORMS, Form

__all__ = ["carried_start", "draft_details"]

_OLD_PROMPT = "Summarize this conversation history"
"""How the prompts began whose replies were whole summaries under the five headings."""
_NAME = re.compile(r"^\[(m\d{1,9})\] ", re.MULTILINE)


def draft_details(draft: Draft, focus: str, read: int) -> dict[str, Any]:
    """Return what is journalled of a summary, so that a later run can go on from it. `read` counts the first
    messages that are in it."""
    return {
        "draft": {
            "form": draft.form.name,
            "headings": [list(one) for one in draft.form.headings],
            "focus": focus,
            "read": read,
            "lines": [asdict(line) for line in draft.lines],
        }
    }


def carried_start(
    past: PreviousJob, known: int, messages: Sequence[Message], form: Form | None, focus: str
) -> tuple[Start, str]:
    """Return where to start after `past`, whose first `known` messages are unchanged, and a note if its
    summary cannot be carried; "" if there is nothing to say."""
    if not known:
        return Start(), ""
    kept = (past.ended or {}).get("draft")
    if isinstance(kept, Mapping):
        draft = _read_draft(kept)
        if kept["focus"] != focus or (form is not None and form.headings != draft.form.headings):
            return Start(), f"run {past.run_id} has another form or focus: all messages are read again"
        return Start(draft, min(known, int(kept["read"]))), ""
    old = [(prompt, reply) for prompt, reply in past.asked if prompt.startswith(_OLD_PROMPT)]
    if not old or focus or (form is not None and form.titles != HEADINGS):
        return Start(), ""
    work = FORMS["work"]
    if past.ended is not None and isinstance(past.ended.get("answer"), str):
        return Start(Draft(work, tuple(_lines(past.ended["answer"]))), known), ""
    prompt, reply = old[-1]
    names = _NAME.findall(prompt)
    read = int(names[-1][1:]) if names else 0
    if not 0 < read <= known or render(messages[read - 1], names[-1]) not in prompt:
        return Start(), ""
    return Start(Draft(work, tuple(_lines(reply))), read), ""


def _lines(page: str) -> list[Line]:
    doubtful = {
        row.split(DOUBTFUL)[0].strip() for row in page.splitlines() if DOUBTFUL in row or NO_SOURCE in row
    }
    return [
        line if not any(line.text[:60] in row for row in doubtful) else _doubted(line)
        for line in parse_lines(page)
    ]


def _doubted(line: Line) -> Line:
    return Line(line.heading, line.text, line.names, doubtful=True)


def _read_draft(kept: Mapping[str, Any]) -> Draft:
    headings = tuple((str(title), str(what)) for title, what in kept["headings"])
    form = FORMS.get(kept["form"])
    # Another version may have described the same headings in other words.
    if form is None or form.titles != tuple(title for title, _ in headings):
        form = Form("own", headings, ordered=form.ordered if form else frozenset())
    titles = set(form.titles)
    lines = [Line(**{**one, "names": tuple(one["names"])}) for one in kept["lines"]]
    return Draft(form, tuple(line for line in lines if line.heading in titles))
