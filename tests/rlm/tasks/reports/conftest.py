"""A corpus that is too long for one call, and a model whose replies are of the kind that readers gave."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from rlm import RLM, Settings
from rlm.documents import TextSource
from rlm.settings import DirectSettings
from rlm.tasks.reports.research import Research, research

FILLER = "The tide tables of the harbour list the hours of high water for the pilots and the dredgers. "
FACTS = {
    "ferries.txt": "The ferry Halcyon was built by the Brann yard."
    " The ferry Orlop was built by the Tarn yard.",
    "yards.txt": "The Brann yard lies in the town of Ostrey. The Tarn yard lies in the town of Quill.",
    "towns.txt": "The town of Ostrey was founded in 1412. The town of Quill was founded in 1631.",
    "letters.txt": "A letter of the master in May says that the ferry Halcyon carries 240 passengers.",
    "press.txt": "The harbour newspaper of June says that the ferry Halcyon carries 310 passengers.",
}


@pytest.fixture
def corpus() -> list[TextSource]:
    return [TextSource(name, f"{FILLER * 60}\n{fact}\n{FILLER * 60}\n") for name, fact in FACTS.items()]


@pytest.fixture
def researched(sandbox_level: int, tmp_path: Path, corpus: list[TextSource]) -> Callable[..., Any]:
    async def run(task: str, model: Any, **options: Any) -> Research:
        settings = Settings(
            store=tmp_path / "rlm.db",
            sandbox=sandbox_level,
            strategy=options.pop("strategy", "auto"),
            direct=DirectSettings(below_tokens=2_000),
            check_support=options.pop("check_support", None),
        )
        return await research(RLM(model, settings=settings), task, options.pop("context", corpus), **options)

    return run
