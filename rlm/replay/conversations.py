"""The conversations of a run: one for each window of a root, one for each other call.

The journal holds the messages as they were sent, and the spans of the input that stood in them. The calls
that folded rounds into notes are left out: their notes stand in the next window.
"""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from rlm.documents.workspace import Workspace
from rlm.journal import Journal, JournalEvent
from rlm.journal.checks import damage_reported
from rlm.journal.redaction import Redaction, secrets_of
from rlm.models.base import Message, Role
from rlm.playback.sent_messages import ReadMessages, text_of
from rlm.runs.stored_run import StoredRun
from rlm.sandbox.types import Span

__all__ = ["Conversation", "read_conversations"]


@dataclass(frozen=True, slots=True)
class Conversation:
    """A whole conversation with one model: `messages` end with its last reply.

    A root gets a new window when its rounds are folded into notes; `rounds` are the first and the last of
    the window, (0, 0) for every other role. `id` is unique in an export. `parent` is the id of the window
    before, or of the root's window that asked for this call; None for the first window of a run.
    """

    run_id: str
    id: str
    parent: str | None
    role: Role
    model: str
    within: str
    rounds: tuple[int, int]
    messages: tuple[Message, ...]

    def to_json(self) -> dict[str, Any]:
        """Return everything as a JSON-safe mapping."""
        return {
            "run_id": self.run_id,
            "id": self.id,
            "parent": self.parent,
            "role": self.role,
            "model": self.model,
            "within": self.within,
            "rounds": list(self.rounds),
            "messages": [{"role": one.role, "content": one.content} for one in self.messages],
        }


async def read_conversations(run: str, *, store: str | Path) -> list[Conversation]:
    """Return the conversations of the run whose name is or starts with `run`, in the order in which they
    began. Values of secret environment variables are blanked, as in the journal. Raises JournalError, and
    UsageError when the input that stood in a prompt is no longer available."""
    with ExitStack() as stack:
        async with Journal.open(store) as journal:
            name = await journal.resolve(run)
            job = (await journal.get(name)).settings.get("job")
            stored = await StoredRun.read(journal, name, job=job)
            windows = _windows(stored)
            body = None
            if any(window.has_spans for window in windows):
                loaded = await stored.load(journal, stack.enter_context(Workspace()))
                body = stack.enter_context(loaded.context.open())
        redaction = Redaction()
        redaction.add(secrets_of(os.environ))

        def read(span: Span) -> str:
            return "" if body is None else body.text(span.start, span.end)

        def message(one: Mapping[str, Any]) -> Message:
            pictures = f"[{one['pictures']} pictures]\n" if "pictures" in one else ""
            return Message(one["role"], redaction.blank(pictures + text_of(one["content"], read)))

        with damage_reported(name):
            return [one.conversation(name, [message(sent) for sent in one.messages]) for one in windows]


@dataclass(slots=True)
class _Window:
    """A conversation as the journal holds it. `events` are its calls, `messages` those of the last one with
    its reply."""

    id: str
    parent: str | None
    within: str
    events: list[JournalEvent]
    messages: list[Mapping[str, Any]]

    @property
    def has_spans(self) -> bool:
        return any(isinstance(one["content"], list) for one in self.messages)

    def conversation(self, run_id: str, messages: Sequence[Message]) -> Conversation:
        first, last = self.events[0].data, self.events[-1].data
        is_root = last["role"] == "root"
        rounds = (first["round"], last["round"]) if is_root else (0, 0)
        return Conversation(
            run_id, self.id, self.parent, last["role"], last["model"], self.within, rounds, tuple(messages)
        )


def _windows(stored: StoredRun) -> list[_Window]:
    windows: list[_Window] = []
    open_windows: dict[str, _Window] = {}
    logs: dict[str, ReadMessages] = {}
    for event in stored.events:
        data, within = event.data, event.data.get("within", "")
        if "messages" not in data:
            continue
        with damage_reported(stored.run_id):
            sent = list(logs.setdefault(within, ReadMessages()).read(data))
            reply = {"role": "assistant", "content": data["reply"]}
            is_root = data["role"] == "root"
        if "last_round" in data:
            continue
        window = open_windows.get(within) if is_root else None
        if window is not None and sent[: len(window.messages) - 1] == window.messages[:-1]:
            window.events.append(event)
            window.messages = [*sent, reply]
            continue
        parent = _parent(within, open_windows)
        window = _Window(f"{stored.run_id}/{len(windows) + 1}", parent, within, [event], [*sent, reply])
        windows.append(window)
        if is_root:
            open_windows[within] = window
    return windows


def _parent(within: str, open_windows: Mapping[str, _Window]) -> str | None:
    """Return the id of the window before, or of the nearest window around a sub-RLM."""
    while True:
        if within in open_windows:
            return open_windows[within].id
        if not within:
            return None
        within = within.rpartition("/")[0]
