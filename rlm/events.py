"""What a run says of itself while it goes on, for whoever watches: small frozen facts, in order."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from types import MappingProxyType

from rlm.results import RunResult, Strategy

__all__ = [
    "CellEnded",
    "CellStarted",
    "ChildEnded",
    "ChildrenStarted",
    "ContextLoaded",
    "Event",
    "Indexing",
    "KernelOpened",
    "ModelAnswered",
    "Observer",
    "PartEnded",
    "PartStarted",
    "QuestionsRepeated",
    "Resumed",
    "Retrying",
    "RoundStarted",
    "RoundsFolded",
    "RunEnded",
    "RunFinished",
    "RunStarted",
    "SubRLMEnded",
    "SubRLMStarted",
    "ToolEnded",
    "Violated",
    "Warned",
    "describe_violation",
]


@dataclass(frozen=True, slots=True)
class ContextLoaded:
    """The sources are one body now; `skipped` of them were passed over."""

    chars: int
    documents: int
    skipped: int
    seconds: float


@dataclass(frozen=True, slots=True)
class RunStarted:
    run_id: str
    strategy: Strategy
    model: str


@dataclass(frozen=True, slots=True)
class PartStarted:
    """Of a job: a question of a research, a method of a comparison; one of `of`. `known`: its end is in the
    journal, nothing is asked."""

    name: str
    title: str
    of: int
    known: bool = False


@dataclass(frozen=True, slots=True)
class PartEnded:
    """`ok` when it came to an answer."""

    name: str
    ok: bool
    done: int
    of: int


@dataclass(frozen=True, slots=True)
class Resumed:
    """A run goes on with so many rounds and children's replies from its journal."""

    run_id: str
    rounds: int
    replies: int


@dataclass(frozen=True, slots=True)
class KernelOpened:
    """A kernel is ready. `level` is its isolation; `missing` says what a stronger one failed for."""

    level: int
    missing: str


@dataclass(frozen=True, slots=True)
class RoundStarted:
    """The root is being asked. `final` is its last round."""

    round: int
    limit: int
    final: bool


@dataclass(frozen=True, slots=True)
class ModelAnswered:
    """One reply of a model, after `seconds`. `round` is 0 for all but the root; `cost_usd` is None where the
    price is not known."""

    role: str
    model: str
    round: int
    input_tokens: int
    output_tokens: int
    cached_tokens: int
    cost_usd: float | None
    finish_reason: str
    seconds: float


@dataclass(frozen=True, slots=True)
class RoundsFolded:
    """Rounds 1 to `last` were folded into notes: the root's messages took `before` tokens and take `after`.
    `fault` says why the summary model's notes were not used, "" when they were or none was asked."""

    last: int
    before: int
    after: int
    fault: str


@dataclass(frozen=True, slots=True)
class Violated:
    """A reply broke the contract; nothing of it was run. `kind` is a ViolationKind."""

    round: int
    kind: str


_VIOLATIONS: Mapping[str, str] = MappingProxyType(
    {
        "no_block": "held no repl block",
        "several_blocks": "held several blocks",
        "unclosed_block": "did not close its block",
        "wrong_language": "held a block that is not marked repl",
        "empty_block": "held an empty block",
        "truncated_reply": "was cut by the output limit",
        "prose_around": "held prose around its block",
    }
)


def describe_violation(kind: str) -> str:
    """Return what a reply of that ViolationKind did: `held several blocks`."""
    return _VIOLATIONS.get(kind, f"broke the contract ({kind})")


@dataclass(frozen=True, slots=True)
class CellStarted:
    round: int
    code: str


@dataclass(frozen=True, slots=True)
class CellEnded:
    round: int
    status: str
    seconds: float


@dataclass(frozen=True, slots=True)
class ChildrenStarted:
    """A batch of that many children was asked for, and will cost about so much (None: no price is known)."""

    count: int
    cost_usd: float | None = None


@dataclass(frozen=True, slots=True)
class ChildEnded:
    """One more child is done; the totals are of the whole run."""

    ok: bool
    cached: bool
    done: int
    asked: int
    tokens: int
    cost_usd: float | None
    covered_chars: int
    chars: int


@dataclass(frozen=True, slots=True)
class Indexing:
    """The ranked index is being built: characters done, of all."""

    done: int
    chars: int


@dataclass(frozen=True, slots=True)
class SubRLMStarted:
    """A sub-RLM at `depth` (the root is 0) began; its rounds are not told, its children are."""

    depth: int
    prompt: str


@dataclass(frozen=True, slots=True)
class SubRLMEnded:
    depth: int
    ok: bool


@dataclass(frozen=True, slots=True)
class ToolEnded:
    """A function of the host was run for a cell."""

    name: str
    ok: bool
    seconds: float


@dataclass(frozen=True, slots=True)
class QuestionsRepeated:
    """The blocks of so many earlier questions are run again: their variables come into a new kernel."""

    questions: int


@dataclass(frozen=True, slots=True)
class Retrying:
    """A provider is asked again after `wait` seconds."""

    attempt: int
    wait: float
    reason: str


@dataclass(frozen=True, slots=True)
class Warned:
    """`depth` counts the sub-RLMs between the run and the one that warned: 0 is the run itself."""

    message: str
    depth: int = 0


@dataclass(frozen=True, slots=True)
class RunEnded:
    stop_reason: str
    seconds: float


@dataclass(frozen=True, slots=True)
class RunFinished:
    """The last event of `RLM.stream`: what came of the run. Observers are not told it; they have the
    result."""

    result: RunResult


Event = (
    ContextLoaded
    | RunStarted
    | Resumed
    | PartStarted
    | PartEnded
    | KernelOpened
    | RoundStarted
    | ModelAnswered
    | RoundsFolded
    | Violated
    | CellStarted
    | CellEnded
    | ChildrenStarted
    | ChildEnded
    | Indexing
    | SubRLMStarted
    | SubRLMEnded
    | ToolEnded
    | QuestionsRepeated
    | Retrying
    | Warned
    | RunEnded
    | RunFinished
)
Observer = Callable[[Event], None]
"""Called from the event loop: it must not block, and what it raises is the caller's own affair."""
