"""Compare each recipe's prompt for its example with a snapshot, so that every change shows in review.

`RLM_WRITE_SNAPSHOTS=1 python -m pytest tests/prompts/recipes/test_snapshots.py` writes the snapshots.
"""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import pytest

from rlm.prompts import (
    AssembledPrompt,
    CardPrompt,
    ChildPrompt,
    CitedPrompt,
    HandleFacts,
    HelperDoc,
    RootInput,
    RootPrompt,
    TilePrompt,
)

FOLDER = Path(__file__).parent / "snapshots"
EXAMPLES = Path(__file__).parents[3] / "examples"


def example(kind: str) -> Any:
    return json.loads((EXAMPLES / f"{kind}.json").read_text(encoding="utf-8"))


def assemble(kind: str) -> AssembledPrompt:
    match kind:
        case "card":
            return CardPrompt().assemble(example("card"))
        case "cited":
            return CitedPrompt().assemble(example("cited"))
        case "tiles":
            return TilePrompt().assemble(example("tiles"))
        case "child":
            return ChildPrompt().assemble(example("child"))
    helpers = (HelperDoc("peek(start=0, end=None)", "a slice of the text"),)
    facts = HandleFacts(1_200, 30, 2, ("a.txt", "b.txt"), "It begins.", "It ends.", "0" * 64)
    return RootPrompt().assemble(RootInput("Who pays?", helpers, facts, (("rounds", "30 rounds"),)))


@pytest.mark.parametrize("kind", ["card", "cited", "tiles", "child", "root"])
def test_the_prompt_is_what_it_was(kind: str) -> None:
    prompt = assemble(kind)
    shown = "\n".join(
        [
            *(
                f"<<< {role} >>>\n{getattr(prompt, role)}"
                for role in ("system", "user")
                if getattr(prompt, role)
            ),
            "<<< report >>>",
            *(f"{d.section}/{d.id}: {d.status}, {d.reason}" for d in prompt.report.decisions),
            *prompt.report.actions,
            *prompt.report.warnings,
            "",
        ]
    )
    file = FOLDER / f"{kind}.txt"
    if os.environ.get("RLM_WRITE_SNAPSHOTS"):
        file.write_text(shown, encoding="utf-8")
    assert shown == file.read_text(encoding="utf-8")
