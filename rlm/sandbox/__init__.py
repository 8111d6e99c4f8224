"""The sandbox: kernels that run model-written code, and the context files that they read.

The other rooms import its names from here. Nothing is imported until a name is used: the launcher and
the forkserver import this package first, and must stay small.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from rlm.sandbox.context.search import search_body
    from rlm.sandbox.context.writer import ContextFile, ContextFileWriter
    from rlm.sandbox.errors import (
        ContextFileError,
        KernelDied,
        KernelStartError,
        ProtocolError,
        SandboxError,
        SandboxRefused,
    )
    from rlm.sandbox.folders.owner_process import OwnerProcess
    from rlm.sandbox.folders.private_folder import private_folder, sweep_folders
    from rlm.sandbox.host.jupyter_sandbox import JupyterSandbox, SandboxLevel
    from rlm.sandbox.host.kernel_process import FreshKernels, KernelSource
    from rlm.sandbox.host.pool import KernelPool
    from rlm.sandbox.host.requests import BadCall
    from rlm.sandbox.in_kernel.context_handle.handle import Handle
    from rlm.sandbox.in_kernel.context_handle.sections import section_of
    from rlm.sandbox.isolation.policy import IsolationReport
    from rlm.sandbox.launch.forkserver import warm_forkserver
    from rlm.sandbox.protocol import AnswerSink, KernelHandler, Sandbox
    from rlm.sandbox.text.body import Body, BodyError, Document, Span
    from rlm.sandbox.text.json_stream import BadJson, JsonStream
    from rlm.sandbox.text.place_index import MessageHeader
    from rlm.sandbox.types import (
        CellReport,
        CellResult,
        CellStatus,
        ChildAnswer,
        ChildBatch,
        ChildSlice,
        Finalization,
        FinalizeVerdict,
        KernelLimits,
        Progress,
        RankedSpan,
        RankQuery,
        SubRLMBatch,
        ToolCall,
        VariableInfo,
    )
    from rlm.sandbox.worker.confined_worker import (
        ConfinedWorker,
        WorkerFailed,
        WorkerTimeout,
        WorkerUnavailable,
    )

__all__ = [
    "AnswerSink",
    "BadCall",
    "BadJson",
    "Body",
    "BodyError",
    "CellReport",
    "CellResult",
    "CellStatus",
    "ChildAnswer",
    "ChildBatch",
    "ChildSlice",
    "ConfinedWorker",
    "ContextFile",
    "ContextFileError",
    "ContextFileWriter",
    "Document",
    "Finalization",
    "FinalizeVerdict",
    "FreshKernels",
    "Handle",
    "IsolationReport",
    "JsonStream",
    "JupyterSandbox",
    "KernelDied",
    "KernelHandler",
    "KernelLimits",
    "KernelPool",
    "KernelSource",
    "KernelStartError",
    "MessageHeader",
    "OwnerProcess",
    "Progress",
    "ProtocolError",
    "RankQuery",
    "RankedSpan",
    "Sandbox",
    "SandboxError",
    "SandboxLevel",
    "SandboxRefused",
    "Span",
    "SubRLMBatch",
    "ToolCall",
    "VariableInfo",
    "WorkerFailed",
    "WorkerTimeout",
    "WorkerUnavailable",
    "private_folder",
    "search_body",
    "section_of",
    "sweep_folders",
    "warm_forkserver",
]

_HOMES = {
    "rlm.sandbox.context.search": ("search_body",),
    "rlm.sandbox.context.writer": ("ContextFile", "ContextFileWriter"),
    "rlm.sandbox.errors": (
        "ContextFileError",
        "KernelDied",
        "KernelStartError",
        "ProtocolError",
        "SandboxError",
        "SandboxRefused",
    ),
    "rlm.sandbox.folders.owner_process": ("OwnerProcess",),
    "rlm.sandbox.folders.private_folder": ("private_folder", "sweep_folders"),
    "rlm.sandbox.launch.forkserver": ("warm_forkserver",),
    "rlm.sandbox.host.jupyter_sandbox": ("JupyterSandbox", "SandboxLevel"),
    "rlm.sandbox.host.kernel_process": ("FreshKernels", "KernelSource"),
    "rlm.sandbox.host.pool": ("KernelPool",),
    "rlm.sandbox.host.requests": ("BadCall",),
    "rlm.sandbox.text.body": ("Body", "BodyError", "Document", "Span"),
    "rlm.sandbox.text.place_index": ("MessageHeader",),
    "rlm.sandbox.in_kernel.context_handle.handle": ("Handle",),
    "rlm.sandbox.text.json_stream": ("BadJson", "JsonStream"),
    "rlm.sandbox.in_kernel.context_handle.sections": ("section_of",),
    "rlm.sandbox.isolation.policy": ("IsolationReport",),
    "rlm.sandbox.protocol": ("AnswerSink", "KernelHandler", "Sandbox"),
    "rlm.sandbox.types": (
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
        "SubRLMBatch",
        "ToolCall",
        "VariableInfo",
    ),
    "rlm.sandbox.worker.confined_worker": (
        "ConfinedWorker",
        "WorkerFailed",
        "WorkerTimeout",
        "WorkerUnavailable",
    ),
}


def __getattr__(name: str) -> Any:
    for home, names in _HOMES.items():
        if name in names:
            value = globals()[name] = getattr(import_module(home), name)
            return value
    raise AttributeError(f"module 'rlm.sandbox' has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted(__all__)
