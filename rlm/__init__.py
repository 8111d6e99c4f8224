"""rlm-runtime: ask questions of texts far larger than any model's window.

from rlm import RLM

result = RLM().run_sync("Which clause ends the contract early?", context=Path("contract.txt"))
print(result.answer, result.citations)
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

from rlm.version import __version__

if TYPE_CHECKING:
    from rlm.budget import Limits
    from rlm.engine import Settings
    from rlm.errors import RLMError
    from rlm.retrieval import Pack, Retriever
    from rlm.runtime import RLM
    from rlm.session import Session
    from rlm.types import Citation, Coverage, RunResult, Usage

__all__ = [
    "RLM",
    "Citation",
    "Coverage",
    "Limits",
    "Pack",
    "RLMError",
    "Retriever",
    "RunResult",
    "Session",
    "Settings",
    "Usage",
    "__version__",
]

# Each name is imported when it is first asked for: the command line's start, and a Ctrl-C in it, must not
# wait for the whole runtime.
_HOMES = {
    "RLM": "rlm.runtime",
    "Citation": "rlm.types",
    "Coverage": "rlm.types",
    "Limits": "rlm.budget",
    "Pack": "rlm.retrieval",
    "RLMError": "rlm.errors",
    "Retriever": "rlm.retrieval",
    "RunResult": "rlm.types",
    "Session": "rlm.session",
    "Settings": "rlm.engine",
    "Usage": "rlm.types",
}


def __getattr__(name: str) -> Any:
    home = _HOMES.get(name)
    if home is None:
        raise AttributeError(f"module 'rlm' has no attribute {name!r}")
    return getattr(import_module(home), name)


def __dir__() -> list[str]:
    return sorted(__all__)
