"""rlm-runtime: ask questions of texts far larger than any model's window.

from rlm import RLM

result = RLM().run_sync("Which clause ends the contract early?", context=Path("contract.txt"))
print(result.answer, result.citations)
"""

from rlm.budget import Limits
from rlm.errors import RLMError
from rlm.runtime import RLM, Settings
from rlm.types import Citation, Coverage, RunResult, Usage
from rlm.version import __version__

__all__ = [
    "RLM",
    "Citation",
    "Coverage",
    "Limits",
    "RLMError",
    "RunResult",
    "Settings",
    "Usage",
    "__version__",
]
