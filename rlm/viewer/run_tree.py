"""The tree of a run: the run, its parts and sub-RLMs, each with its steps and its children."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import field
from typing import Any, Literal, NamedTuple

from rlm.lazy_dataclass import dataclass
from rlm.sandbox.types import Span

__all__ = ["Child", "Node", "NodeKind", "Step", "StepKind", "Stretch"]

NodeKind = Literal["run", "part", "sub_rlm"]
StepKind = Literal["round", "call", "children", "note"]
ChildStatus = Literal["ok", "failed", "cached"]


class Stretch(NamedTuple):
    """`length` characters from `start` of a sub-RLM's text are those from `origin` of the text above."""

    start: int
    origin: int
    length: int


@dataclass(slots=True)
class Child:
    """One child call, without its full texts: those are in the event `seq`. `spans` are characters of the
    node's text. `error_seq` is the event that says why its reply was rejected."""

    seq: int
    at: float
    round: int
    model: str
    prompt: str
    reply: str
    spans: tuple[Span, ...]
    chars: int
    tokens_in: int = 0
    tokens_out: int = 0
    cost_usd: float | None = 0.0
    seconds: float = 0.0
    status: ChildStatus = "ok"
    error: str = ""
    error_type: str = ""
    error_seq: int = 0


@dataclass(slots=True)
class Step:
    """One step of a node: a round of the root, another call, children of no round, or a note.

    A round has the number, code, output and violation of one reply. A call has the role of its model. The
    text of a note is in `title`, its kind in `label`. `seq` is the event of the call or note, `cell_seq` that
    of the cell. `at` is when the step ended, `seconds` how long its call took, `cell_seconds` its cell.
    """

    kind: StepKind
    seq: int
    at: float
    number: int = 0
    label: str = ""
    title: str = ""
    model: str = ""
    reply: str = ""
    code: str = ""
    prose: str = ""
    output: str = ""
    stderr: str = ""
    status: str = ""
    error: str = ""
    violation: str = ""
    finish_reason: str = ""
    cell_seq: int = 0
    cell_at: float = 0.0
    cell_seconds: float = 0.0
    seconds: float = 0.0
    prompt_tokens: int = 0
    tokens_in: int = 0
    tokens_out: int = 0
    thinking: int = 0
    cost_usd: float | None = 0.0
    variables: tuple[str, ...] = ()
    sections: tuple[Mapping[str, Any], ...] = ()
    actions: tuple[str, ...] = ()
    helpers: list[Mapping[str, Any]] = field(default_factory=list)
    helper_count: int = 0
    first_child: int = -1
    children: int = 0
    failed: int = 0
    cached: int = 0
    children_cost_usd: float | None = 0.0
    children_start: float = 0.0
    children_end: float = 0.0
    nodes: list[int] = field(default_factory=list)


@dataclass(slots=True)
class Node:
    """The run itself, a part of a job, or a sub-RLM. `name` is its path in the journal, "" for the run.

    `stretches` map its text to that of the node above: None means that both have the same text, an empty
    tuple that the journal does not say.
    """

    index: int
    name: str
    kind: NodeKind
    parent: int | None
    depth: int
    title: str = ""
    model: str = ""
    started_at: float = 0.0
    ended_at: float | None = None
    error: str = ""
    answer: str = ""
    stretches: tuple[Stretch, ...] | None = None
    steps: list[Step] = field(default_factory=list)
    children: list[Child] = field(default_factory=list)
    asked: dict[str, int] = field(default_factory=dict)
    cost_usd: float | None = 0.0
    tokens: int = 0
    failed: int = 0
    has_ended: bool = False

    @property
    def rounds(self) -> int:
        """The number of rounds of its root model."""
        return sum(step.kind == "round" for step in self.steps)

    def current_round(self) -> Step | None:
        """Return the last round, or None before the first one."""
        return next((step for step in reversed(self.steps) if step.kind == "round"), None)

    def round(self, number: int) -> Step | None:
        """Return the newest step of that round, or None."""
        for step in reversed(self.steps):
            if step.kind == "round" and step.number == number:
                return step
        return None

    def above(self, spans: Iterable[Span]) -> Iterator[Span]:
        """Yield the same characters in the text of the node above."""
        if self.stretches is None:
            yield from spans
            return
        for start, end in spans:
            for stretch in self.stretches:
                low, high = max(start, stretch.start), min(end, stretch.start + stretch.length)
                if low < high:
                    shift = stretch.origin - stretch.start
                    yield Span(low + shift, high + shift)
