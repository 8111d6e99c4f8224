"""rlm-kernel: ask questions of texts far larger than any model's window.

from rlm import RLM

result = RLM().run_sync("Which clause ends the contract early?", context=Path("contract.txt"))
print(result.answer, result.citations)
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

from rlm.version import __version__

if TYPE_CHECKING:
    from rlm.errors import RLMError
    from rlm.limits import Limits
    from rlm.results import Citation, Coverage, Gate, Note, ProposedAnswer, RunResult, Usage
    from rlm.retrieval import Pack, Retriever
    from rlm.runs.session import Session
    from rlm.runtime import RLM
    from rlm.settings import Settings

__all__ = [
    "RLM",
    "Citation",
    "Coverage",
    "Gate",
    "Limits",
    "Note",
    "Pack",
    "ProposedAnswer",
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
    "Citation": "rlm.results",
    "Coverage": "rlm.results",
    "Gate": "rlm.results",
    "Limits": "rlm.settings",
    "Note": "rlm.results",
    "Pack": "rlm.retrieval",
    "ProposedAnswer": "rlm.results",
    "RLMError": "rlm.errors",
    "Retriever": "rlm.retrieval",
    "RunResult": "rlm.results",
    "Session": "rlm.runs.session",
    "Settings": "rlm.settings",
    "Usage": "rlm.results",
    # For `%load_ext rlm`.
    "load_ipython_extension": "rlm.notebook",
}


def __getattr__(name: str) -> Any:
    home = _HOMES.get(name)
    if home is None:
        raise AttributeError(f"module 'rlm' has no attribute {name!r}")
    return getattr(import_module(home), name)


def __dir__() -> list[str]:
    return sorted(__all__)
