"""Take over the summary of an earlier run, so that only new messages are read."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict
from typing import Any

from rlm.tasks.jobs.job import PreviousJob
from rlm.tasks.summaries.summary_lines import Line
from rlm.tasks.summaries.writing.draft import Draft
from rlm.tasks.summaries.writing.fold import Start
from rlm.tasks.summaries.writing.forms import FORMS, Form

__all__ = ["carried_start", "draft_details"]


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


def carried_start(past: PreviousJob, known: int, form: Form | None, focus: str) -> tuple[Start, str]:
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
    return Start(), ""


def _read_draft(kept: Mapping[str, Any]) -> Draft:
    headings = tuple((str(title), str(what)) for title, what in kept["headings"])
    form = FORMS.get(kept["form"])
    if form is None or form.titles != tuple(title for title, _ in headings):
        form = Form("own", headings, ordered=form.ordered if form else frozenset())
    titles = set(form.titles)
    lines = [Line(**{**one, "names": tuple(one["names"])}) for one in kept["lines"]]
    return Draft(form, tuple(line for line in lines if line.heading in titles))
