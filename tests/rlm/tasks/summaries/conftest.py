"""What the tests of summaries share: chats, a fake reader, and a function that summarizes."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest

from rlm import RLM, Limits, Settings
from rlm.documents import TextSource
from rlm.models.base import Request
from rlm.tasks.summaries.summarize import Summary, summarize
from rlm.testing import ScriptedModel
from tests.rlm.answers.support.planted import claims_in, is_planted


def _chat_of(*said: tuple[str, str], day: str = "") -> TextSource:
    """A chat as JSON Lines, of authors and texts."""
    rows = [
        {"role": "user", "author": who, "content": text, **({"created_at": day} if day else {})}
        for who, text in said
    ]
    return TextSource("chat.jsonl", "\n".join(map(json.dumps, rows)), "jsonl")


def _careful(request: Request, *wrong: str) -> str:
    """Reply to a check as an honest reader: the planted claim and those with the words `wrong` are not
    supported."""
    prompt = request.messages[-1].content
    bad = [
        number
        for number, text in claims_in(prompt)
        if is_planted(text, prompt) or any(word in text for word in wrong)
    ]
    return json.dumps({"unsupported": [{"claim": number, "reason": "it says other"} for number in bad]})


@pytest.fixture
def chat_of() -> Callable[..., TextSource]:
    return _chat_of


@pytest.fixture
def careful() -> Callable[..., str]:
    return _careful


@pytest.fixture
def summary(tmp_path: Path) -> Callable[..., Any]:
    async def run(
        sources: Sequence[Any],
        model: ScriptedModel | str,
        *,
        limits: Limits | None = None,
        check: bool | None = None,
        **options: Any,
    ) -> Summary:
        settings = Settings(store=tmp_path / "rlm.db", check_support=check)
        rlm = RLM(model, settings=settings, limits=limits)
        return await summarize(rlm, sources, **options)

    return run
