"""The resources of a run besides its input: a folder, kernels, ranked indexes."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from rlm.lazy_dataclass import dataclass
from rlm.retrieval.ranking import Ranking
from rlm.runs.shared_kernel import SharedKernel
from rlm.sandbox.host.kernel_process import KernelSource
from rlm.sandbox.in_kernel.body.body import Body

__all__ = ["RunResources"]


@dataclass(frozen=True, slots=True)
class RunResources:
    """The resources of one run. `folder` is private and outlives the run. `ranking` makes the ranking of a
    body. `kernel` is the kernel that the run shares with earlier questions, if there are any."""

    folder: Path
    kernels: KernelSource
    ranking: Callable[[Body], Ranking]
    kernel: SharedKernel | None = None
