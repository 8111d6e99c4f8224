"""What a page shows of a run, kept up to date from the events of its journal."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from rlm.accounting.intervals import IntervalSet
from rlm.journal.events import JournalEvent
from rlm.sandbox.types import Span
from rlm.viewer.run_tree import Child, Node, Step, Stretch

__all__ = ["LANES", "RunDigest", "head", "new_messages"]

LANES = ("scanned", "read", "sent", "answered", "failed", "cited")
"""What can have happened to a character of the input: a search passed it, a cell read it, a child got it, a
child answered about it, a child failed, the answer cites it."""

_CODE, _OUTPUT, _HEAD, _TITLE = 20_000, 8_000, 300, 400
_SPANS_KEPT, _HELPERS_SHOWN, _VARIABLES_SHOWN = 64, 40, 40
_MAX_SPANS = 50_000
_MAX_NODES = 20_000


def head(text: object, size: int = _HEAD) -> str:
    """Return the first `size` characters of a text, with a mark if more follow."""
    text = text if isinstance(text, str) else json.dumps(text, ensure_ascii=False, default=str)
    return text if len(text) <= size else text[: size - 1] + "…"


class RunDigest:
    """Reads events in order. Texts are kept up to a size; the rest is read again from the journal.

    An event of another version may lack a field: it is then shown without it.
    """

    def __init__(self) -> None:
        self.version = 0
        self.nodes: list[Node] = [Node(0, "", "run", None, 0)]
        self.settings: Mapping[str, Any] = {}
        self.result: Mapping[str, Any] | None = None
        self.lanes: dict[str, IntervalSet] = {lane: IntervalSet(limit=_MAX_SPANS) for lane in LANES}
        self.costs: list[tuple[float, float]] = []
        """Moments, and the dollars spent until then."""
        self._by_name = {"": 0}
        self._spent = 0.0

    def add(self, event: JournalEvent) -> None:
        """Take in the next event."""
        self.version = event.seq
        data = event.data
        node = self._node(str(data.get("within", "")), event.at)
        match event.kind:
            case "run_started":
                self.settings = _mapping(data.get("settings"))
                node.title, node.started_at = head(data.get("task", ""), _TITLE), event.at
                node.model = str(self.settings.get("model", ""))
            case "sub_rlm":
                self._start_sub_rlm(node, event)
            case "part":
                part = self._node(_below(node, data.get("name")), event.at)
                part.title = head(data.get("title", ""), _TITLE)
            case "sub_rlm_ended" | "part_ended":
                self._end(self._node(_below(node, data.get("name")), event.at), event)
            case "model_call":
                self._add_call(node, event)
            case "child":
                self._add_child(node, event)
            case "cell":
                self._add_cell(node, event)
            case "tool":
                refused = _sequence(event.data.get("refused"))
                result = refused[-1] if refused else event.data.get("value", "")
                self._add_helper(node, event, str(event.data.get("tool", "")), result, ok=not refused)
            case "charge":
                self._spend(node, event)
                node.steps.append(
                    Step(
                        "note", event.seq, event.at, label="charge", title=head(data.get("error", ""), _TITLE)
                    )
                )
            case "limit" if data.get("violation"):
                self._round(node, event).violation = str(data["violation"])
            case "finished":
                self._finish(node, event)
            case kind:
                node.steps.append(Step("note", event.seq, event.at, label=kind, title=_note(kind, data)))

    # Nodes

    def _node(self, name: str, at: float) -> Node:
        found = self._by_name.get(name)
        if found is not None:
            return self.nodes[found]
        if len(self.nodes) >= _MAX_NODES:
            return self.nodes[0]
        parent = self._node(name.rpartition("/")[0], at)
        # A part of a job is named for what it does, a sub-RLM by a hash and its number.
        kind = "sub_rlm" if "." in name.rpartition("/")[2] else "part"
        node = Node(
            len(self.nodes), name, "part" if kind == "part" else "sub_rlm", parent.index, parent.depth + 1,
            title=name.rpartition("/")[2], started_at=at,
        )  # fmt: skip
        node.stretches = None if kind == "part" else ()
        self.nodes.append(node)
        self._by_name[name] = node.index
        if (round_ := parent.current_round()) is not None:
            round_.nodes.append(node.index)
        return node

    def _start_sub_rlm(self, node: Node, event: JournalEvent) -> None:
        node.kind, node.title = "sub_rlm", head(event.data.get("prompt", ""), _TITLE)
        node.model = str(event.data.get("model", ""))
        node.stretches = tuple(
            Stretch(*stretch)
            for stretch in event.data.get("stretches", ())
            if isinstance(stretch, list) and len(stretch) == 3 and all(type(one) is int for one in stretch)
        )

    def _end(self, node: Node, event: JournalEvent) -> None:
        node.ended_at, node.has_ended = event.at, True
        node.error = head(event.data.get("error") or "", _TITLE)
        result = _mapping(event.data.get("result"))
        node.answer = head(result.get("answer") or "", _TITLE) if result else ""
        for lane, spans in _mapping(event.data.get("seen")).items():
            self._note("scanned" if lane == "looked" else lane, node, spans)

    # Steps

    def _add_call(self, node: Node, event: JournalEvent) -> None:
        data, usage = event.data, _mapping(event.data.get("usage"))
        role, number = str(data.get("role", "")), _number(data.get("round"))
        report = _mapping(data.get("report"))
        step = Step(
            "round" if role == "root" else "call",
            event.seq,
            event.at,
            number=number,
            label=role,
            title="" if role == "root" else head(_prompt(data), _TITLE),
            model=str(data.get("model", "")),
            reply=head(data.get("reply", ""), _OUTPUT),
            finish_reason=str(data.get("finish_reason", "")),
            seconds=_real(data.get("seconds")),
            prompt_tokens=_number(data.get("prompt_tokens")),
            tokens_in=_number(usage.get("input_tokens")),
            tokens_out=_number(usage.get("output_tokens")),
            thinking=_number(usage.get("reasoning_tokens")),
            cost_usd=_cost(data.get("cost_usd")),
            sections=sections_of(report),
            actions=tuple(head(action) for action in _sequence(report.get("actions"))[:20]),
        )
        node.steps.append(step)
        self._spend(node, event)
        if role != "child" and not node.model:
            node.model = step.model

    def _round(self, node: Node, event: JournalEvent) -> Step:
        """Return the step of the event's round. A cell without a call (of a damaged journal) gets one."""
        number = _number(event.data.get("round"))
        step = node.round(number)
        if step is None:
            step = Step("round", event.seq, event.at, number=number)
            node.steps.append(step)
        return step

    def _add_cell(self, node: Node, event: JournalEvent) -> None:
        data, step = event.data, self._round(node, event)
        result = _mapping(data.get("result"))
        report = _mapping(result.get("report"))
        step.code, step.prose = head(data.get("code", ""), _CODE), head(data.get("prose", ""), _OUTPUT)
        printed, value = str(result.get("stdout") or ""), result.get("result")
        step.output = head("\n".join(part for part in (printed, str(value or "")) if part), _OUTPUT)
        step.stderr = head(result.get("stderr") or "", _HEAD)
        step.error = head(result.get("traceback") or result.get("evalue") or "", _OUTPUT)
        step.status = str(result.get("status", ""))
        step.cell_seq, step.cell_at = event.seq, event.at
        step.cell_seconds = _real(result.get("seconds"))
        step.variables = tuple(
            head(f"{one.get('name')}: {one.get('type')}, {one.get('size')}", 120)
            for one in _sequence(report.get("changed"))[:_VARIABLES_SHOWN]
            if isinstance(one, Mapping)
        )
        for lane in ("read", "scanned"):
            self._note(lane, node, report.get(lane))
        for answer in _sequence(data.get("answers")):
            if refusal := _mapping(_mapping(answer).get("refusal")):
                self._add_helper(node, event, "finalize", refusal.get("reason", ""), ok=False)

    def _add_helper(self, node: Node, event: JournalEvent, name: str, result: object, *, ok: bool) -> None:
        step = self._round(node, event)
        step.helper_count += 1
        if len(step.helpers) < _HELPERS_SHOWN:
            arguments = head(event.data.get("arguments", ""))
            step.helpers.append(
                {"seq": event.seq, "name": name, "arguments": arguments, "result": head(result), "ok": ok}
            )

    # Children

    def _add_child(self, node: Node, event: JournalEvent) -> None:
        data = event.data
        error = data.get("error")
        if error is not None and (known := self._rejected(node, data)) is not None:
            child = node.children[known]
            child.error, child.error_type = head(error), str(data.get("error_type", ""))
            child.error_seq = event.seq
            self._fail(node, child)
            return
        usage, spans = _mapping(data.get("usage")), _spans(data.get("spans"))
        child = Child(
            event.seq,
            event.at,
            _number(data.get("round")),
            str(data.get("model", "")),
            head(data.get("prompt", ""), 200),
            head(data.get("reply") or ""),
            spans[:_SPANS_KEPT],
            sum(end - start for start, end in spans),
            _number(usage.get("input_tokens")),
            _number(usage.get("output_tokens")),
            _cost(data.get("cost_usd", 0.0)),
            _real(data.get("seconds")),
            "cached" if data.get("cached") else "ok",
            head(error or ""),
            str(data.get("error_type", "") or ""),
        )
        step = self._step_of(node, child)
        if step.children == 0:
            step.first_child = len(node.children)
            step.children_start = event.at - child.seconds
        step.children += 1
        step.cached += child.status == "cached"
        step.children_start = min(step.children_start, event.at - child.seconds)
        step.children_end = event.at
        if child.cost_usd is None or step.children_cost_usd is None:
            step.children_cost_usd = None
        else:
            step.children_cost_usd += child.cost_usd
        node.asked[_identity(data)] = len(node.children)
        node.children.append(child)
        self._spend(node, event)
        if error is not None:
            self._fail(node, child)

    def _rejected(self, node: Node, data: Mapping[str, Any]) -> int | None:
        """Return the child whose reply this event rejects, or None if the call had no reply."""
        known = node.asked.get(_identity(data))
        return None if known is None or node.children[known].status == "failed" else known

    def _fail(self, node: Node, child: Child) -> None:
        child.status = "failed"
        node.failed += 1
        self._step_of(node, child).failed += 1

    @staticmethod
    def _step_of(node: Node, child: Child) -> Step:
        """Return the step whose children these are. Those of no round (map-reduce, a summary) get one."""
        step = node.round(child.round)
        if step is None:
            step = next((one for one in reversed(node.steps) if one.kind == "children"), None)
        if step is None:
            step = Step("children", child.seq, child.at, number=child.round)
            node.steps.append(step)
        return step

    # Sums

    def _spend(self, node: Node, event: JournalEvent) -> None:
        usage = _mapping(event.data.get("usage"))
        node.tokens += _number(usage.get("input_tokens")) + _number(usage.get("output_tokens"))
        cost = _cost(event.data.get("cost_usd", 0.0))
        if cost is None or node.cost_usd is None:
            node.cost_usd = None
        else:
            node.cost_usd += cost
        self._spent += cost or 0.0
        self.costs.append((event.at, self._spent))
        if len(self.costs) > 4_000:
            self.costs = self.costs[::2]

    def _note(self, lane: str, node: Node, spans: Any) -> None:
        if lane not in self.lanes:
            return
        found: Sequence[Span] = spans if isinstance(spans, tuple) else _spans(spans)
        self.lanes[lane].update(self.absolute(node, found))

    def absolute(self, node: Node, spans: Iterable[Span]) -> tuple[Span, ...]:
        """Return spans of a node as characters of the run's input. Text from elsewhere is left out."""
        at: Node = node
        found = tuple(spans)
        while at.parent is not None:
            found = tuple(at.above(found))
            at = self.nodes[at.parent]
        return found

    def spans_of_lanes(self) -> dict[str, IntervalSet]:
        """Return the spans of each lane. Those of children are added here: a reply may be rejected later."""
        lanes = {lane: IntervalSet(spans, limit=_MAX_SPANS) for lane, spans in self.lanes.items()}
        for node in self.nodes:
            for child in node.children:
                done = "failed" if child.status == "failed" else "answered"
                spans = self.absolute(node, child.spans)
                lanes["sent"].update(spans)
                lanes[done].update(spans)
        return lanes

    def _finish(self, node: Node, event: JournalEvent) -> None:
        node.ended_at, node.has_ended = event.at, True
        self.result = event.data
        for citation in _sequence(event.data.get("citations")):
            start, end = citation.get("start"), citation.get("end")
            if isinstance(start, int) and isinstance(end, int):
                self.lanes["cited"].update([(start, end)])


def sections_of(report: Mapping[str, Any]) -> tuple[Mapping[str, Any], ...]:
    """Return the sections of a prompt with their tokens before and after it was cut to its size."""
    sums: dict[str, dict[str, Any]] = {}
    for decision in _sequence(report.get("decisions"))[:2_000]:
        one = _mapping(decision)
        name = str(one.get("section", ""))
        section = sums.setdefault(name, {"section": head(name, 60), "before": 0, "after": 0, "cut": []})
        section["before"] += _number(one.get("tokens_before"))
        section["after"] += _number(one.get("tokens_after"))
        if one.get("status") != "included" and len(section["cut"]) < 20:
            section["cut"].append(head(f"{one.get('id')}: {one.get('status')} ({one.get('reason')})", 200))
    return tuple(list(sums.values())[:40])


def _note(kind: str, data: Mapping[str, Any]) -> str:
    match kind:
        case "compaction":
            before, after = data.get("tokens_before"), data.get("tokens_after")
            return f"rounds 1 to {data.get('last_round')} were folded from {before} to {after} tokens"
        case "planned":
            return head(data.get("questions", ""), _TITLE)
        case "kernel_died":
            return f"the kernel died in round {data.get('round')}: {head(data.get('reason', ''))}"
        case "diverged":
            return f"round {data.get('round')} diverged when it was re-run"
        case "interrupted":
            return str(data.get("stop_reason", ""))
        case _:
            return head(data.get("message") or "", _TITLE)


def new_messages(data: Mapping[str, Any]) -> list[tuple[str, str]]:
    """Return role and text of the messages that the call of an event was sent and the one before it was not.
    A piece of the input is named by its place."""
    return [
        (str(one.get("role", "")), _shown(one.get("content")))
        for one in _sequence(data.get("messages"))
        if isinstance(one, Mapping)
    ]


def _shown(content: Any) -> str:
    if isinstance(content, str):
        return content
    pieces: list[str] = []
    for piece in _sequence(content):
        place = _spans([piece])
        pieces += [f"[characters {one.start:,} to {one.end:,}]" for one in place] or [str(piece)]
    return "".join(pieces)


def _prompt(data: Mapping[str, Any]) -> str:
    sent = new_messages(data)
    return sent[-1][1] if sent else ""


def _below(node: Node, name: object) -> str:
    return f"{node.name}/{name}" if node.name else str(name)


def _identity(data: Mapping[str, Any]) -> str:
    return str(data.get("asked") or data.get("key") or data.get("spans"))


def _mapping(value: Any) -> Mapping[str, Any]:
    return value if isinstance(value, Mapping) else {}


def _sequence(value: Any) -> Sequence[Any]:
    return value if isinstance(value, list | tuple) else ()


def _spans(value: Any) -> tuple[Span, ...]:
    return tuple(
        Span(*span)
        for span in _sequence(value)
        if isinstance(span, list | tuple) and len(span) == 2 and all(type(one) is int for one in span)
    )


def _number(value: Any) -> int:
    return value if type(value) is int else 0


def _real(value: Any) -> float:
    return float(value) if isinstance(value, int | float) else 0.0


def _cost(value: Any) -> float | None:
    return float(value) if isinstance(value, int | float) else None
