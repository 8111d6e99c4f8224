"""The tasks: ask, summarize, research, compare, and work_card, which works on a card by its state.

from rlm.tasks import ask

found = await ask(rlm, "When does the contract end?", [Path("contract.txt")])
print(found.result.text)
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from rlm.tasks.comparison import compare
    from rlm.tasks.question import ask
    from rlm.tasks.reports.card_stages import work_card
    from rlm.tasks.reports.research import research
    from rlm.tasks.resuming import resume_job
    from rlm.tasks.summaries.summarize import summarize

__all__ = ["ask", "compare", "research", "resume_job", "summarize", "work_card"]

# Each name is imported on first use, because it imports the whole runtime. No module of this package may have
# the name of a task: importing the module would replace the function here.
_HOMES = {
    "ask": "rlm.tasks.question",
    "compare": "rlm.tasks.comparison",
    "research": "rlm.tasks.reports.research",
    "resume_job": "rlm.tasks.resuming",
    "summarize": "rlm.tasks.summaries.summarize",
    "work_card": "rlm.tasks.reports.card_stages",
}


def __getattr__(name: str) -> Any:
    home = _HOMES.get(name)
    if home is None:
        raise AttributeError(f"module 'rlm.tasks' has no attribute {name!r}")
    return getattr(import_module(home), name)


def __dir__() -> list[str]:
    return sorted(__all__)
