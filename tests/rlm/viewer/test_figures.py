"""Test that the page of a run shows the figures of its account."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

from rlm.journal import Journal
from rlm.testing import ScriptedModel
from rlm.viewer.run_digest import RunDigest


async def test_what_the_last_block_read_is_on_the_page_too(
    run: Any, block: Callable[[str], str], tmp_path: Path
) -> None:
    """A block that reads everything and submits the answer: its account said 100 %, its page < 1 %."""
    model = ScriptedModel.of(root=[block("n = len(list(read_lines()))\nfinalize(str(n), evidence=[(0, 3)])")])
    result = await run(model, "one two three\n" * 2_000)
    digest = RunDigest()
    async with Journal.open(tmp_path / "rlm.db") as journal:
        for event in await journal.events(result.run_id):
            digest.add(event)
    read = sum(end - start for start, end in digest.spans_of_lanes()["read"])
    assert read == result.coverage.read_chars == 28_000
