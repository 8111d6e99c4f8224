"""The events that a run reports to its observers, in order: small frozen facts."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any, ClassVar, Literal

from rlm.results import RunResult, Strategy

__all__ = [
    "BatchesWaiting",
    "CellRun",
    "ChildEnded",
    "ChildrenStarted",
    "ContextLoaded",
    "Event",
    "KernelOpened",
    "Loading",
    "ModelAnswered",
    "Observer",
    "PartRun",
    "ReplyStreaming",
    "Resumed",
    "Retrying",
    "RoundStarted",
    "RoundsFolded",
    "RunEnded",
    "RunFinished",
    "RunStarted",
    "SubRLMStarted",
    "TextDelta",
    "TextObserver",
    "ToolEnded",
    "Violated",
    "Warned",
    "describe_violation",
]


class Event:
    """Something that a run did. Every kind is a dataclass."""

    __slots__ = ()
    __dataclass_fields__: ClassVar[dict[str, Any]]


@dataclass(frozen=True, slots=True)
class Loading(Event):
    """The sources are being read: `done` bytes so far, with the current document, reported once a second. Or
    the ranked index of the input is being built: `done` of `indexed` characters."""

    document: str
    done: int
    indexed: int | None = None


@dataclass(frozen=True, slots=True)
class ContextLoaded(Event):
    """The sources were joined into one body. `skipped` of them are not in it."""

    chars: int
    documents: int
    skipped: int
    seconds: float


@dataclass(frozen=True, slots=True)
class RunStarted(Event):
    run_id: str
    strategy: Strategy
    model: str


@dataclass(frozen=True, slots=True)
class PartRun(Event):
    """A part of a job began or ended: a question of a research, a method of a comparison. `done` of `of`
    have ended. A `known` part has its result in the journal, and nothing is asked. A `finished` one has an
    answer."""

    name: str
    title: str
    status: Literal["running", "known", "finished", "failed"]
    done: int
    of: int


@dataclass(frozen=True, slots=True)
class Resumed(Event):
    """A run resumes, with so many rounds and children's replies from its journal. Or the blocks of so many
    earlier `questions` run again in a new kernel, which restores their variables."""

    run_id: str
    rounds: int
    replies: int
    questions: int = 0


@dataclass(frozen=True, slots=True)
class KernelOpened(Event):
    """A kernel is ready. `level` is its isolation; `missing` says which stronger layers failed, and why."""

    level: int
    missing: str


@dataclass(frozen=True, slots=True)
class RoundStarted(Event):
    """The root is being asked. `final` is its last round."""

    round: int
    limit: int
    final: bool


@dataclass(frozen=True, slots=True)
class ModelAnswered(Event):
    """One reply of a model, after `seconds`. `round` is 0 for all but the root; `cost_usd` is None where the
    price is not known. `output_tokens` includes `reasoning_tokens`."""

    role: str
    model: str
    round: int
    input_tokens: int
    output_tokens: int
    cached_tokens: int
    cost_usd: float | None
    finish_reason: str
    seconds: float
    reasoning_tokens: int = 0


@dataclass(frozen=True, slots=True)
class RoundsFolded(Event):
    """Rounds 1 to `last` were folded into notes: the root's messages took `before` tokens and take `after`.
    `fault` says why the summary model's notes were not used, "" when they were or none was asked."""

    last: int
    before: int
    after: int
    fault: str


@dataclass(frozen=True, slots=True)
class Violated(Event):
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
        "final_call": "called FINAL or SUBMIT, which another system uses",
        "tool_call": "called a tool, and there are none",
        "repeated_block": "repeated the block before it",
    }
)


def describe_violation(kind: str) -> str:
    """Return what a reply of that ViolationKind did: `held several blocks`."""
    return _VIOLATIONS.get(kind, f"broke the contract ({kind})")


@dataclass(frozen=True, slots=True)
class CellRun(Event):
    """A block began, or ended with another `status` than `running`. `output` is what it printed, else its
    value or its error, cut to 4,000 characters."""

    round: int
    code: str
    status: str = "running"
    seconds: float = 0.0
    output: str = ""


@dataclass(frozen=True, slots=True)
class ChildrenStarted(Event):
    """A batch of that many children was asked for, and will cost about so much (None: no price is known)."""

    count: int
    cost_usd: float | None = None


@dataclass(frozen=True, slots=True)
class ChildEnded(Event):
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
class SubRLMStarted(Event):
    """A sub-RLM at `depth` (the root is 0) began. Its rounds are not reported, its children are."""

    depth: int
    prompt: str


@dataclass(frozen=True, slots=True)
class ToolEnded(Event):
    """A function of the host ran for a cell."""

    name: str
    ok: bool
    seconds: float


@dataclass(frozen=True, slots=True)
class ReplyStreaming(Event):
    """A reply that has not ended brought about so many tokens since the last such event. At most one event a
    second and reply."""

    tokens: int


@dataclass(frozen=True, slots=True)
class TextDelta(Event):
    """The answer, or the reply to call `call` in `role`, grows by `text` while a model writes it. Any reply
    but the answer is a root's code, a child's notes, a part of a job. `restarted`: what came before is void,
    and the text begins again with `text`, or is withdrawn.

    An answer comes without reasoning and quotes, and is not checked yet: only the result says what is
    verified. Answers that code computes do not come in pieces. Control characters are removed, so the text
    can be printed as it comes.
    """

    text: str
    is_answer: bool = False
    role: str = ""
    call: int = 0
    restarted: bool = False


@dataclass(frozen=True, slots=True)
class BatchesWaiting(Event):
    """Calls of `model` wait in its provider's batches: `done` of `total` are answered. The oldest batch was
    sent `seconds` ago. `batches` are the provider's ids; none, once all have ended."""

    model: str
    done: int
    total: int
    seconds: float
    batches: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Retrying(Event):
    """A provider is asked again after `wait` seconds."""

    attempt: int
    wait: float
    reason: str


@dataclass(frozen=True, slots=True)
class Warned(Event):
    """The run has a new note. `depth` counts the sub-RLMs between the run and the one that warned: 0 is the
    run itself. `kind` is that of the note."""

    message: str
    depth: int = 0
    kind: str = "warning"


@dataclass(frozen=True, slots=True)
class RunEnded(Event):
    stop_reason: str
    seconds: float


@dataclass(frozen=True, slots=True)
class RunFinished(Event):
    """The last event of `RLM.stream`, with the result. Observers do not get it."""

    result: RunResult


Observer = Callable[[Event], None]
"""Called from the event loop. It must not block, and what it raises reaches the caller of the run."""
TextObserver = Callable[[TextDelta], None]
"""Called like an Observer, with the text of replies while it is written."""
