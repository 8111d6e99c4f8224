"""The options of one run: the run that it continues, its parent, the type of its answer."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path

from rlm.accounting.coverage import Above
from rlm.accounting.run_context import RunContext
from rlm.answers.answer_type import AnswerType
from rlm.lazy_dataclass import dataclass
from rlm.playback.recording import Recording
from rlm.prompts import EarlierQuestion
from rlm.retrieval.ranking import Ranking
from rlm.runs.shared_kernel import SharedKernel
from rlm.sandbox.host.kernel_process import KernelSource
from rlm.sandbox.text.body import Body

__all__ = ["Parent", "RunOptions", "RunResources"]


_NOTHING = Recording()


@dataclass(frozen=True, slots=True)
class Parent:
    """The run above a sub-RLM. `coverage` is its coverage in the characters of the sub-RLM. The parent of a
    part of a job is the job, at depth -1."""

    run_context: RunContext
    coverage: Above
    depth: int


@dataclass(frozen=True, slots=True)
class RunOptions:
    """The optional settings of a run.

    `recording` is what the journal holds of it. With a `parent` the run spends from the parent's
    budget and writes to the parent's log. `warnings` come from loading its input, and `unread` names the
    documents of it that were not read. `earlier` are the questions that were asked before it in the same
    kernel, `variables` describe the variables that they left there, and `session` is the first of these runs.
    `checks_support`: the claims of its answer are checked.
    """

    recording: Recording = _NOTHING
    answer_type: AnswerType | None = None
    warnings: Sequence[str] = ()
    unread: Sequence[str] = ()
    parent: Parent | None = None
    earlier: Sequence[EarlierQuestion] = ()
    variables: Sequence[str] = ()
    checks_support: bool = True
    session: str = ""


@dataclass(frozen=True, slots=True)
class RunResources:
    """The resources of one run. `folder` is private and outlives the run. `ranking` makes the ranking of a
    body. `kernel` is the kernel that the run shares with earlier questions, if there are any."""

    folder: Path
    kernels: KernelSource
    ranking: Callable[[Body], Ranking]
    kernel: SharedKernel | None = None
