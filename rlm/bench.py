"""What a run works with, beside its input: a folder, kernels, ranked indexes of the bodies it is given."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from rlm.retrieval.ranking import Ranking
from sandbox.in_kernel.body import Body
from sandbox.kernel_process import KernelSource

__all__ = ["Bench"]


@dataclass(frozen=True, slots=True)
class Bench:
    """`folder` is private and outlives the run; `ranking` makes the ranking of a body."""

    folder: Path
    kernels: KernelSource
    ranking: Callable[[Body], Ranking]
