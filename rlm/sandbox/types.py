"""Values that cross the border of the sandbox, in either direction.

Offsets are characters (Unicode code points) of the context body, 0-based, end-exclusive.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

from rlm.sandbox.text.body import Span

__all__ = [
    "DIED",
    "CellReport",
    "CellResult",
    "CellStatus",
    "ChildAnswer",
    "ChildBatch",
    "ChildSlice",
    "ComputedFrom",
    "Evidence",
    "Finalization",
    "FinalizeVerdict",
    "KernelLimits",
    "Progress",
    "RankQuery",
    "RankedSpan",
    "SeenPages",
    "Span",
    "SubRLMBatch",
    "ToolCall",
    "VariableInfo",
]

DIED = "KernelDied"
"""The `ename` of the result of a cell that killed its kernel."""

CellStatus = Literal["ok", "error", "timeout", "died"]


@dataclass(frozen=True, slots=True)
class KernelLimits:
    """Resource limits of one kernel. Sizes are megabytes (2**20 bytes); zero is never valid."""

    memory_mb: int = 1536
    scratch_mb: int = 256
    processes: int = 64
    open_files: int = 256
    start_seconds: float = 60.0


@dataclass(frozen=True, slots=True)
class VariableInfo:
    """One user variable, as shown to the root model. `size` may be empty."""

    name: str
    type: str
    size: str = ""

    def __str__(self) -> str:
        return f"{self.name}: {self.type}" + (f", {self.size}" if self.size else "")


@dataclass(frozen=True, slots=True)
class CellReport:
    """The kernel's own report of a cell.

    It is bounds-checked, but hostile code can forge any of it: no payment or permission depends on it.
    `changed` holds the first variables that changed, of `changed_count`.
    """

    read: tuple[Span, ...] = ()
    scanned: tuple[Span, ...] = ()
    changed: tuple[VariableInfo, ...] = ()
    rebound: tuple[str, ...] = ()
    stdout_chars: int = 0
    changed_count: int = 0


@dataclass(frozen=True, slots=True)
class CellResult:
    """The outcome of one cell.

    `stdout`, `stderr`, `result` (repr of the last expression) and `traceback` are bounded by the kernel.
    `stdout_chars` counts all characters that the cell printed.
    """

    status: CellStatus
    stdout: str = ""
    stderr: str = ""
    stdout_chars: int = 0
    result: str | None = None
    ename: str = ""
    evalue: str = ""
    traceback: str = ""
    seconds: float = 0.0
    report: CellReport = field(default_factory=CellReport)

    @property
    def shown(self) -> str:
        """Return what the cell printed, else its value, else its error."""
        return self.stdout or self.result or self.traceback or self.evalue

    @property
    def truncated(self) -> bool:
        """Return whether the cell printed more than `stdout` holds."""
        return self.stdout_chars > len(self.stdout)


@dataclass(frozen=True, slots=True)
class ChildSlice:
    """The input of a child: spans of the body and texts made by the cell, in order.

    `numbered`: lines are shown with their numbers.
    """

    pieces: tuple[Span | str, ...]
    numbered: bool = False

    @property
    def spans(self) -> tuple[Span, ...]:
        return tuple(piece for piece in self.pieces if not isinstance(piece, str))


@dataclass(frozen=True, slots=True)
class ChildBatch:
    """One helper call for children. `prompts` and `slices` have equal length; a slice may be None.

    `schema` is a JSON Schema or a short form of one, not yet checked. `retries` are the reasons why earlier
    answers to the same calls were refused by the cell, one for each prompt, or empty. `model` is the name of
    a sub-model, or "" for the default one. With `look`, each slice is spans of pages, which the child sees as
    pictures.
    """

    prompts: tuple[str, ...]
    slices: tuple[ChildSlice | None, ...]
    sample: int = 0
    schema: Any = None
    chunked: bool = False
    retries: tuple[str, ...] = ()
    model: str = ""
    look: bool = False


@dataclass(frozen=True, slots=True)
class SubRLMBatch:
    """One helper call for sub-RLMs. `prompts` and `sources` have equal length.

    A source of None gives the sub-RLM an empty handle. `model` is the name of the sub-model that is its root,
    or "" for the model of this root.
    """

    prompts: tuple[str, ...]
    sources: tuple[ChildSlice | None, ...]
    model: str = ""


@dataclass(frozen=True, slots=True)
class ChildAnswer:
    """The answer or the failure of one child. `error` is None exactly when the child answered.

    `how` is "child" for one model call and "rlm" for a sub-RLM, which makes `calls` calls of its own.
    `evidence` holds the spans that a sub-RLM cited. `cost_usd` is None if a price is not known.
    """

    text: str
    error: str | None = None
    error_type: str | None = None
    found: bool = True
    cached: bool = False
    input_tokens: int = 0
    output_tokens: int = 0
    value: Any = None
    how: Literal["child", "rlm"] = "child"
    evidence: tuple[Span, ...] = ()
    calls: int = 0
    cost_usd: float | None = 0.0

    def to_json(self) -> dict[str, Any]:
        """Return the fields by name. `dataclasses.asdict` would copy each value."""
        return {name: getattr(self, name) for name in self.__slots__}


@dataclass(frozen=True, slots=True)
class SeenPages:
    """A piece of evidence: what a child saw on the pages of this span. Their text need not hold it."""

    span: Span


@dataclass(frozen=True, slots=True)
class ComputedFrom:
    """A piece of evidence: the records that a value was computed from. `rows` are a few of `total`."""

    rows: tuple[Span, ...]
    total: int


Evidence = Span | str | SeenPages | ComputedFrom


@dataclass(frozen=True, slots=True)
class Finalization:
    """The final answer that a cell submits.

    `evidence` holds spans, quotes, seen pages and computed values in the order given. `access` is what the
    cell has read and scanned so far.
    """

    value: Any
    confidence: Literal["low", "medium", "high"] | float | None = None
    evidence: tuple[Evidence, ...] = ()
    access: CellReport = field(default_factory=CellReport)


@dataclass(frozen=True, slots=True)
class FinalizeVerdict:
    """The verdict on a final answer. If it is not accepted, `reason` tells the root what to do."""

    accepted: bool
    reason: str = ""


@dataclass(frozen=True, slots=True)
class RankQuery:
    """A cell's request for the `k` passages that match the words of `query` best, in all or in a part."""

    query: str
    k: int
    within: Span | None = None


@dataclass(frozen=True, slots=True)
class RankedSpan:
    """A ranked passage of the body. A higher `score` is better; `heading_path` starts at the top heading."""

    span: Span
    score: float
    heading_path: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class ToolCall:
    """A cell's call of a host tool. Arguments are JSON values, not yet checked against its signature."""

    name: str
    args: tuple[Any, ...] = ()
    kwargs: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Progress:
    """The progress of the run, for `evaluate_progress`. Small JSON-safe mappings."""

    has_final_answer: bool
    limits: Mapping[str, Mapping[str, float]]
    coverage: Mapping[str, Any]
    plan: Mapping[str, Any]
