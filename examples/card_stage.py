"""Work on a card in the stage `error_fixing`: its first run asks for research, and its second run acts.

It runs offline, because its model is a script (`rlm.testing.ScriptedModel`). Give the name of a real model to
use that one:

    .venv/bin/python examples/card_stage.py openai:gpt-5

The run is refused if this machine cannot isolate code that a model writes. `RLM_SANDBOX=0` runs it anyway.
"""

from __future__ import annotations

import asyncio
import json
import os
import sys
import tempfile
from pathlib import Path

from rlm import RLM, Settings
from rlm.models.base import Request
from rlm.tasks.reports.card_stages import CardRun, work_card
from rlm.testing import ScriptedModel

HERE = Path(__file__).parent

LOOK = """```repl
# The card: which connection does the handler write through?
hits = search("locked|connection", max_hits=5)
for hit in hits:
    print(hit.line_text.strip())
finalize("The cause has to be known first.\\nRESEARCH: What caused the lock in the tests?")
```"""

ACT = """```repl
# The notes contain the report now, so act on it.
hits = search("takes its connection from the", max_hits=1)
finalize(
    "Take the connection from the request in the handler [1].\\n<promise>COMPLETE</promise>",
    evidence=hits,
)
```"""

FOUND = """```repl
hits = search("The lock was caused by[^.]*", max_hits=1)
finalize("Two connections that write in one test caused it [1].", evidence=hits)
```"""


def root(request: Request) -> str:
    """Return what a model would write. It depends on whether the notes contain the report."""
    if "Answer from the documents, the answer first" in request.task:
        return FOUND
    return ACT if "Research on “" in request.task else LOOK


def summary(request: Request) -> str:
    """Return the plan of the research, then its summary."""
    prompt = request.messages[-1].content
    if prompt.startswith("Plan research"):
        return "- What caused the lock in the tests?"
    return "Two connections that write in one test caused the lock [1]."


def script() -> ScriptedModel:
    return ScriptedModel.of(root=root, summary=summary)


async def work(model: str | ScriptedModel, store: Path) -> CardRun:
    card = json.loads((HERE / "card.json").read_text(encoding="utf-8"))
    level = os.environ.get("RLM_SANDBOX", "auto")
    settings = Settings(strategy="rlm", store=store, sandbox=int(level) if level.isdigit() else "auto")
    rlm = RLM(model, settings=settings)
    try:
        return await work_card(rlm, card, [HERE / "chat.md"])
    finally:
        await rlm.aclose()


def main() -> None:
    with tempfile.TemporaryDirectory() as folder:
        run = asyncio.run(work(sys.argv[1] if len(sys.argv) > 1 else script(), Path(folder) / "rlm.db"))
    print(
        f"stage {run.stage}, {len(run.turns)} turns, {len(run.reports)} research, completed: {run.completed}"
    )
    print(run.answer)
    for report in run.reports:
        print("\n" + report.report)


if __name__ == "__main__":
    main()
