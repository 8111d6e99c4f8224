"""What a page asks for one piece at a time: steps, children, and one event in full. Bounded."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from rlm.journal.events import JournalEvent
from rlm.viewer.run_digest import RunDigest, new_messages, sections_of
from rlm.viewer.run_tree import Child, Node, Step

__all__ = ["CHILDREN_A_CHUNK", "STEPS_A_CHUNK", "children", "event_detail", "steps"]

STEPS_A_CHUNK = 20
CHILDREN_A_CHUNK = 500
_COLUMNS = (
    "seq", "round", "status", "model", "prompt", "reply", "error", "error_type", "spans", "chars",
    "tokens_in", "tokens_out", "cost_usd", "seconds", "at", "error_seq",
)  # fmt: skip
_APART = frozenset({"report", "messages"})
_SPANS_SHOWN = 3
_TEXT, _ITEMS, _WHOLE = 200_000, 1_000, 1_000_000


def steps(node: Node, chunk: int) -> dict[str, Any]:
    """Return steps of a node, 20 a chunk."""
    first = chunk * STEPS_A_CHUNK
    return {
        "total": len(node.steps),
        "steps": [_step(one) for one in node.steps[first : first + STEPS_A_CHUNK]],
    }


def children(node: Node, chunk: int) -> dict[str, Any]:
    """Return children of a node, 500 a chunk, as rows under the names of their columns."""
    first = chunk * CHILDREN_A_CHUNK
    rows = node.children[first : first + CHILDREN_A_CHUNK]
    return {
        "total": len(node.children),
        "columns": list(_COLUMNS),
        "rows": [[_cell(child, column) for column in _COLUMNS] for child in rows],
    }


def event_detail(digest: RunDigest, event: JournalEvent) -> dict[str, Any]:
    """Return one event in full, up to a million characters. `places` are the spans of a child as characters
    of the input, None if the journal does not say where they are."""
    data = event.data
    left = [_WHOLE]
    places = None
    if isinstance(data.get("spans"), list):
        name = str(data.get("within", ""))
        node = next((one for one in digest.nodes if one.name == name), digest.nodes[0])
        given = [
            tuple(span) for span in data["spans"][:_SPANS_SHOWN] if isinstance(span, list) and len(span) == 2
        ]
        places = [list(span) for span in digest.absolute(node, given)] or None  # type: ignore[arg-type]
    report = data.get("report")
    return {
        "seq": event.seq,
        "at": event.at,
        "kind": event.kind,
        "data": {str(key): _bounded(value, left) for key, value in data.items() if key not in _APART},
        "messages": [
            {"role": role, "text": _bounded(text, left)} for role, text in new_messages(data)[:_ITEMS]
        ],
        "sections": [dict(one) for one in sections_of(report)] if isinstance(report, Mapping) else [],
        "places": places,
        "cut": left[0] <= 0,
    }


def _bounded(value: Any, left: list[int]) -> Any:
    """Return the value with long texts and lists cut. `left` is how many characters more are returned."""
    if isinstance(value, str):
        most = max(0, min(_TEXT, left[0]))
        left[0] -= min(len(value), most)
        if len(value) > most:
            left[0] = min(left[0], 0) if most < _TEXT else left[0]
            return f"{value[:most]}… ({len(value) - most:,} more characters)"
        return value
    if isinstance(value, list):
        shown = [_bounded(one, left) for one in value[:_ITEMS]]
        return [*shown, f"… ({len(value) - _ITEMS:,} more)"] if len(value) > _ITEMS else shown
    if isinstance(value, Mapping):
        return {str(key)[:200]: _bounded(one, left) for key, one in list(value.items())[:_ITEMS]}
    left[0] -= 8
    return value


def _cell(child: Child, column: str) -> Any:
    if column == "spans":
        return [list(span) for span in child.spans[:_SPANS_SHOWN]]
    return getattr(child, column)


def _step(step: Step) -> dict[str, Any]:
    facts = {name: getattr(step, name) for name in Step.__slots__}
    return {**facts, "sections": [dict(one) for one in step.sections]}
