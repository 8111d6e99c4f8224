"""Test that runs of commit 806c0b8 are replayed with a release whose children's prompts use other words."""

from __future__ import annotations

import pytest

from rlm import Settings
from rlm.prompts.recipes import child
from rlm.prompts.templates import table, words
from rlm.replay import replay


@pytest.mark.parametrize("name", ["deep", "direct", "session", "charged", "kernel_died", "folded"])
async def test_an_old_run_is_replayed_after_the_words_have_changed(
    store, run_ids, sandbox_flag, monkeypatch, name
) -> None:
    monkeypatch.setattr(child, "words", lambda file: f"{words(file)}\n- Be brief.")
    monkeypatch.setattr(child, "table", lambda file: {**table(file), "task": "Your task:"})
    level = 0 if sandbox_flag == "0" else "auto"
    replayed = await replay(run_ids[name], store=store, settings=Settings(sandbox=level))
    assert replayed.equal, replayed.result.warnings
    assert replayed.result.stop_reason == "finalized"
