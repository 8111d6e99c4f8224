"""What a model is shown of a cited passage."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from rlm import RLM, Settings
from rlm.answers.support.passages import statement_of
from rlm.documents import TextSource
from rlm.tasks.jobs.job import open_job

WRAPPED = """\
The rate was cut in May, because the demand had been
weak for long. The borrowing costs of the banks fell by an
order of one percent. Nobody had expected that.
"""
CHAT = "[D1:8] Jon: Dancing helps me de-stress. It is great.\n[D1:9] Gina: Same here!\n"
CARDS = "".join(
    json.dumps({"id": f"quarry-{n}", "title": f"Card {n}", "reason": f"Done in PR #{n}. It works. All good."})
    + "\n"
    for n in range(4)
)


@pytest.mark.parametrize(
    ("name", "text", "quote", "shown"),
    [
        (
            "paper.txt",
            WRAPPED,
            "order of one percent.",
            "The borrowing costs of the banks fell by an order of one percent.",
        ),
        ("chat.txt", CHAT, "Dancing helps me", "[D1:8] Jon: Dancing helps me de-stress. It is great."),
        ("cards.jsonl", CARDS, "PR #2. It", json.dumps(json.loads(CARDS.splitlines()[2]))),
    ],
    ids=["wrapped lines", "speaker", "record"],
)
async def test_a_passage_is_shown_as_whole_sentences_or_a_whole_record(
    tmp_path: Path, name: str, text: str, quote: str, shown: str
) -> None:
    rlm: Any = RLM("extractive", settings=Settings(store=tmp_path / "rlm.db"))
    source = TextSource(name, text, name.rpartition(".")[2].replace("txt", "text"))
    async with open_job(rlm, "plan", "?", [source], facts=lambda _: {}) as (job, _):
        start = job.body.text(0, job.body.chars).index(quote)
        found = statement_of(job.body, start, start + len(quote))
    assert shown in found
    assert len(found) < len(shown) + 80
