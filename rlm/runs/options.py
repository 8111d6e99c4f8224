"""The options of one run: what it continues, what it belongs to, and what its answer must be."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from rlm.accounting.coverage import Above
from rlm.accounting.run_context import RunContext
from rlm.answers.answer_type import AnswerType
from rlm.playback.recording import Recording
from rlm.prompts import EarlierQuestion

__all__ = ["Parent", "RunOptions"]


@dataclass(frozen=True, slots=True)
class Parent:
    """The run above a sub-RLM: its context, its coverage as the sub-RLM sees it, its depth. The parts of a
    job have the job above them, at depth -1."""

    run_context: RunContext
    coverage: Above
    depth: int


@dataclass(frozen=True, slots=True)
class RunOptions:
    """Everything optional about a run.

    `recording` holds its earlier rounds, which are replayed. With a `parent` it spends from the parent's
    budget and writes to the parent's log. `warnings` are those of loading its input. `earlier` are the
    questions asked before it in the same kernel, and `variables` are what they left there.
    """

    recording: Recording | None = None
    answer_type: AnswerType | None = None
    warnings: Sequence[str] = ()
    parent: Parent | None = None
    earlier: Sequence[EarlierQuestion] = ()
    variables: Sequence[str] = ()
