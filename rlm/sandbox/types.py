"""What crosses the border of the sandbox, in either direction: frozen and plain.

Offsets are characters (Unicode code points) of the context body, 0-based, end-exclusive.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

from rlm.sandbox.in_kernel.body.body import Span

__all__ = [
    "CellReport",
    "CellResult",
    "CellStatus",
    "ChildAnswer",
    "ChildBatch",
    "ChildSlice",
    "Finalization",
    "FinalizeVerdict",
    "KernelLimits",
    "Progress",
    "RankQuery",
    "RankedSpan",
    "Span",
    "SubRLMBatch",
    "ToolCall",
    "VariableInfo",
]

CellStatus = Literal["ok", "error", "timeout", "died"]


@dataclass(frozen=True, slots=True)
class KernelLimits:
    """What one kernel may take. Sizes in megabytes (2**20 bytes); zero is never a valid limit."""

    memory_mb: int = 1536
    scratch_mb: int = 256
    processes: int = 64
    open_files: int = 256
    start_seconds: float = 60.0


@dataclass(frozen=True, slots=True)
class VariableInfo:
    """One user variable as the root is told of it: `type` in words a model knows, `size` maybe empty."""

    name: str
    type: str
    size: str = ""

    def __str__(self) -> str:
        return f"{self.name}: {self.type}" + (f", {self.size}" if self.size else "")


@dataclass(frozen=True, slots=True)
class CellReport:
    """What the kernel itself says of a cell it ran. Bounds-checked, yet any of it can be forged by
    hostile code: it is shown as the kernel's word and nothing is paid or permitted because of it."""

    read: tuple[Span, ...] = ()
    scanned: tuple[Span, ...] = ()
    changed: tuple[VariableInfo, ...] = ()
    rebound: tuple[str, ...] = ()
    stdout_chars: int = 0


@dataclass(frozen=True, slots=True)
class CellResult:
    """The outcome of one cell. `stdout`, `stderr`, `result` (repr of the last expression) and
    `traceback` are bounded at the source; `stdout_chars` is what the cell really printed."""

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
    def truncated(self) -> bool:
        """Whether the cell printed more than was kept."""
        return self.stdout_chars > len(self.stdout)


@dataclass(frozen=True, slots=True)
class ChildSlice:
    """What a child is to read: pieces in order. A piece is a span of the body, or text made by the cell."""

    pieces: tuple[Span | str, ...]
    numbered: bool = False


@dataclass(frozen=True, slots=True)
class ChildBatch:
    """One helper call that wants children: `prompts` and `slices` have equal length; a slice may be None."""

    prompts: tuple[str, ...]
    slices: tuple[ChildSlice | None, ...]
    sample: int = 0
    schema: Mapping[str, Any] | None = None
    chunked: bool = False


@dataclass(frozen=True, slots=True)
class SubRLMBatch:
    """One helper call that wants sub-RLMs: `prompts` and `sources` have equal length; a source that is None
    is an empty handle."""

    prompts: tuple[str, ...]
    sources: tuple[ChildSlice | None, ...]


@dataclass(frozen=True, slots=True)
class ChildAnswer:
    """What became of one child. `error` is None exactly when the child answered. `how` says what answered:
    one call of a model, or a sub-RLM; `evidence` are the spans on which the latter rests its answer."""

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


@dataclass(frozen=True, slots=True)
class Finalization:
    """A cell's claim to have the answer. `evidence` holds spans and quotes, in the order given; `access` is
    what the cell has read and scanned so far."""

    value: Any
    confidence: Literal["low", "medium", "high"] | float | None = None
    evidence: tuple[Span | str, ...] = ()
    access: CellReport = field(default_factory=CellReport)


@dataclass(frozen=True, slots=True)
class FinalizeVerdict:
    """Whether the run ends with it; if not, `reason` tells the root what to do about it."""

    accepted: bool
    reason: str = ""


@dataclass(frozen=True, slots=True)
class RankQuery:
    """A cell's wish for the `k` best passages of the body for the words of `query`."""

    query: str
    k: int


@dataclass(frozen=True, slots=True)
class RankedSpan:
    """A passage of the body: where it stands, how well it fits (higher is better), the headings above it."""

    span: Span
    score: float
    heading_path: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class ToolCall:
    """A cell's call of a function of the host: JSON values, not yet held against its signature."""

    name: str
    args: tuple[Any, ...] = ()
    kwargs: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Progress:
    """Where the run stands, as told to a cell: JSON-safe mappings, small."""

    has_final_answer: bool
    limits: Mapping[str, Mapping[str, float]]
    coverage: Mapping[str, Any]
    plan: Mapping[str, Any]
