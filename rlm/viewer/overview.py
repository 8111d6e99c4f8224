"""The first data that a page gets of a run: its facts, answer, tree, coverage and timeline. Bounded."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict
from typing import Any

from rlm.journal.events import RunSummary
from rlm.models.offline.extractive import EXTRACTS
from rlm.sandbox.text.body import Body
from rlm.sandbox.types import Span
from rlm.viewer.answer_view import answer_pieces, citation_facts, claim_facts, result_of
from rlm.viewer.run_digest import LANES, RunDigest, head
from rlm.viewer.run_tree import Child, Node, Step

__all__ = ["overview", "summary_facts"]

_TASK_LISTED, _TASK = 300, 20_000
_NODES, _ROWS, _BUCKETS, _MOMENTS, _DOCUMENTS, _NOTES = 1_000, 600, 600, 200, 300, 100


def summary_facts(
    run: RunSummary, result: Mapping[str, Any] | None, size: int = _TASK_LISTED
) -> dict[str, Any]:
    """Return one run of the list. `result` is the data of its last event, if that is its end."""
    settings = run.settings
    return {
        "run_id": run.run_id,
        "task": head(run.task, size),
        "state": run.state,
        "status": _status(run, result),
        "answer": _first_line(result),
        "stop_reason": run.stop_reason,
        "started_at": run.started_at,
        "finished_at": run.finished_at,
        **asdict(run.totals),
        "model": head(settings.get("model", ""), 100),
        "sub_model": head(settings.get("sub_model", ""), 100),
        "strategy": head(settings.get("strategy", ""), 40),
        "job": head(settings.get("job") or "", 40),
        "chars": settings.get("context_chars"),
        "documents": settings.get("documents"),
    }


def _status(run: RunSummary, result: Mapping[str, Any] | None) -> str:
    """Return how a run ended, for its reader."""
    if run.state != "finished":
        return "running" if run.state == "running" else "stopped"
    if result is None or result.get("answer") is None:
        return "no answer"
    return "answered" if result.get("found", True) else "not found"


def _first_line(result: Mapping[str, Any] | None) -> str:
    answer = None if result is None else result.get("answer")
    lines = answer.split("\n") if isinstance(answer, str) else []
    # A heading says less than the line below it.
    lines = [line for line in lines if line.strip() and not line.startswith(("#", EXTRACTS))] or lines
    return head(next((line for line in lines if line.strip()), ""), _TASK_LISTED)


def overview(run: RunSummary, digest: RunDigest, body: Body | None) -> dict[str, Any]:
    """Return the overview of a run. `body` is its input, None if it is not at hand."""
    chars = _chars(digest, body)
    shown = digest.nodes[:_NODES]
    return {
        "version": digest.version,
        "run": {**summary_facts(run, digest.result, _TASK), "limits": run.settings.get("limits")},
        "result": _result(digest),
        "nodes": [_node(node) for node in shown],
        "more_nodes": len(digest.nodes) - len(shown),
        "coverage": _coverage(digest, body, chars),
        "timeline": _timeline(digest),
        "has_text": body is not None,
    }


def _result(digest: RunDigest) -> dict[str, Any] | None:
    if digest.result is None:
        return None
    result = result_of(digest.result)
    if result is None:
        return {"unreadable": True, "pieces": [], "citations": [], "claims": [], "warnings": []}
    coverage = asdict(result.coverage)
    del coverage["gaps"]
    return {
        "pieces": answer_pieces(result),
        "is_text": isinstance(result.answer, str),
        "cause": result.cause,
        "found": result.found,
        "confidence": result.confidence,
        "stop_reason": result.stop_reason,
        "strategy": result.strategy,
        "figures": result.figures,
        "seconds": result.seconds,
        "citations": citation_facts(result)[:_NODES],
        "claims": claim_facts(result)[:_NODES],
        "coverage": coverage,
        "usage": [asdict(one) for one in result.usage],
        "warnings": [head(one, 1_000) for one in result.warnings[:_NOTES]],
        "unread": [head(one) for one in result.unread[:_NOTES]],
        "gates": [
            {"name": gate.name, "passed": gate.passed, "refusals": [head(one) for one in gate.refusals[:20]]}
            for gate in result.gates
        ],
    }


def _node(node: Node) -> dict[str, Any]:
    ended = [step.cell_at or step.at for step in node.steps[-1:]] + [child.at for child in node.children[-1:]]
    return {
        "index": node.index,
        "parent": node.parent,
        "depth": node.depth,
        "kind": node.kind,
        "title": node.title,
        "model": node.model,
        "start": node.started_at,
        "end": node.ended_at or max(ended, default=node.started_at),
        "has_ended": node.has_ended,
        "error": node.error,
        "answer": node.answer,
        "rounds": node.rounds,
        "steps": len(node.steps),
        "children": len(node.children),
        "failed": node.failed,
        "tokens": node.tokens,
        "cost_usd": node.cost_usd,
    }


# Coverage


def _chars(digest: RunDigest, body: Body | None) -> int:
    if body is not None:
        return body.chars
    known = digest.settings.get("context_chars")
    return known if isinstance(known, int) else 0


def _coverage(digest: RunDigest, body: Body | None, chars: int) -> dict[str, Any]:
    """Return for each lane how full each of at most 600 stretches of the input is, as digits 0 to 9, and the
    documents in which most happened."""
    lanes = {lane: list(spans) for lane, spans in digest.spans_of_lanes().items()}
    count = max(1, min(_BUCKETS, chars))
    return {
        "chars": chars,
        "buckets": count,
        "lanes": {lane: _digits(lanes[lane], chars, count) for lane in LANES},
        "totals": {lane: sum(end - start for start, end in lanes[lane]) for lane in LANES},
        **_documents(lanes, body),
    }


def _digits(spans: Iterable[Span], chars: int, count: int) -> str:
    if chars <= 0:
        return "0"
    filled = [0.0] * count
    width = chars / count
    for start, end in spans:
        first, last = max(0, int(start / width)), min(count - 1, int((end - 1) / width))
        for bucket in range(first, last + 1):
            filled[bucket] += min(end, (bucket + 1) * width) - max(start, bucket * width)
    # A stretch of which anything was touched is never shown as empty.
    return "".join(str(min(9, max(1, round(9 * one / width)))) if one > 0 else "0" for one in filled)


def _documents(lanes: Mapping[str, Sequence[Span]], body: Body | None) -> dict[str, Any]:
    if body is None:
        return {"documents": [], "more_documents": 0}
    documents = body.documents
    sums: dict[str, list[int]] = {lane: [0] * len(documents) for lane in LANES}
    for lane, spans in lanes.items():
        at = 0
        for start, end in spans:
            while at < len(documents) and documents[at].end <= start:
                at += 1
            place = at
            while place < len(documents) and documents[place].start < end:
                one = documents[place]
                sums[lane][place] += min(end, one.end) - max(start, one.start)
                place += 1
    order = sorted(
        range(len(documents)),
        key=lambda index: (-sums["cited"][index], -sums["answered"][index] - sums["read"][index], index),
    )[:_DOCUMENTS]
    return {
        "documents": [
            {
                "name": head(documents[index].name),
                "start": documents[index].start,
                "end": documents[index].end,
                **{lane: sums[lane][index] for lane in LANES},
            }
            for index in sorted(order)
        ],
        "more_documents": len(documents) - len(order),
    }


# Timeline


def _timeline(digest: RunDigest) -> dict[str, Any]:
    """Return bars in the order of the tree, and the dollars over time. Times are Unix seconds."""
    rows: list[dict[str, Any]] = []
    left_out = 0
    for node in _in_tree_order(digest.nodes):
        for row in _rows(node):
            if len(rows) < _ROWS:
                rows.append(row)
            else:
                left_out += 1
    every = max(1, len(digest.costs) // _MOMENTS)
    costs = [*digest.costs[::every], *digest.costs[-1:]]
    return {"rows": rows, "left_out": left_out, "costs": [[at, spent] for at, spent in costs]}


def _in_tree_order(nodes: Sequence[Node]) -> Iterable[Node]:
    below: dict[int | None, list[Node]] = {}
    for node in nodes:
        below.setdefault(node.parent, []).append(node)
    waiting = list(below.get(None, ()))
    while waiting:
        node = waiting.pop()
        yield node
        waiting += reversed(below.get(node.index, ()))


def _rows(node: Node) -> Iterable[dict[str, Any]]:
    for step in node.steps:
        if step.kind == "note":
            continue
        base = {"node": node.index, "depth": node.depth, "number": step.number, "seq": step.seq}
        call = {"from": step.at - step.seconds, "to": step.at}
        if step.kind != "children":
            yield {**base, "kind": step.kind, "label": step.label, **call, "cost_usd": step.cost_usd}
        if step.cell_at:
            start = min(step.at, step.cell_at - step.cell_seconds)
            yield {
                **base, "kind": "cell", "label": step.status, "from": max(step.at, start), "to": step.cell_at,
                "cost_usd": None,
            }  # fmt: skip
        if step.children:
            mine = node.children[step.first_child : step.first_child + step.children]
            yield {
                **base,
                "kind": "children",
                "label": f"{step.children}",
                "from": step.children_start,
                "to": step.children_end,
                "cost_usd": step.children_cost_usd,
                "failed": step.failed,
                "busy": _busy(mine, step),
            }


def _busy(children: Sequence[Child], step: Step) -> str:
    """Return how many children were in flight over the time of the step, as digits 0 to 9 of the most."""
    length = step.children_end - step.children_start
    if length <= 0 or len(children) < 2:
        return ""
    count = 40
    changes = [0] * (count + 1)
    for child in children:
        begin = int((child.at - child.seconds - step.children_start) / length * count)
        end = int((child.at - step.children_start) / length * count)
        changes[max(0, min(count - 1, begin))] += 1
        changes[max(0, min(count, end + 1))] -= 1
    flights, now = [], 0
    for change in changes[:count]:
        now += change
        flights.append(now)
    most = max(flights) or 1
    return "".join(str(round(9 * one / most)) for one in flights)
