"""The arms that are not the product: plain calls, as a person would write them without it."""

from __future__ import annotations

import hashlib
import time
import tomllib
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

from benchmarks.readers.items import Arm, Item
from benchmarks.retrieval.bm25 import top_passages
from rlm.accounting.metered_model import estimate
from rlm.models.base import Message, Model, Reply, Request

__all__ = ["PROMPTS", "Calls", "Skipped", "answer"]

PROMPTS = Path(__file__).with_name("prompts.toml")

TOP_K = 8
"""Passages of about 1,000 characters, the same number that `rlm compare` takes."""
MAX_PARTS = 12
_PROMPT_TOKENS = 600
"""Room for the words around the text, and for the question."""


class Skipped(Exception):
    """The arm is not asked about this item. The message says why."""


@dataclass(slots=True)
class Calls:
    """Makes the calls of one arm, and records them. Prompts hold texts of the data sets, so only their
    hashes are kept."""

    model: Model
    window: int
    output: int
    replies: list[dict[str, object]] = field(default_factory=list)

    @property
    def room(self) -> int:
        """Tokens of text that fit one call."""
        return self.window - self.output - _PROMPT_TOKENS

    async def ask(self, item: Item, instructions: str, text: str) -> str:
        """Return the reply to one call."""
        question = "" if item.kind == "summarize" else f"\n\nQuestion:\n{item.question}"
        prompt = f"{instructions}{question}\n\nText:\n{text}"
        began = time.monotonic()
        request = Request("direct", (Message("user", prompt),), self.output, item.question)
        reply: Reply = await self.model.generate(request)
        self.replies.append(
            {
                "prompt_sha256": hashlib.sha256(prompt.encode()).hexdigest(),
                "reply": reply.text,
                "input_tokens": reply.usage.input_tokens,
                "output_tokens": reply.usage.output_tokens,
                "seconds": round(time.monotonic() - began, 1),
            }
        )
        return reply.text.strip()


async def answer(arm: Arm, item: Item, texts: Sequence[Path], calls: Calls) -> str:
    """Return the answer of an arm. Raises Skipped, and ModelError if a call fails."""
    text = "\n\n".join(path.read_text("utf-8") for path in texts)
    if arm == "direct":
        return await calls.ask(item, _words("answer", item), _beginning(text, calls.room))
    if arm == "bm25":
        if item.kind == "summarize":
            raise Skipped("a summary has no question to rank passages by")
        passages = top_passages(text, item.question, TOP_K)
        return await calls.ask(item, _words("answer", item), "\n---\n".join(passages))
    parts = _parts(text, calls.room)
    if len(parts) == 1:
        raise Skipped("the text fits one call, so this is the direct call")
    if len(parts) > MAX_PARTS:
        raise Skipped(f"{len(parts)} parts, more than {MAX_PARTS}")
    notes = [await calls.ask(item, _words("notes", item), part) for part in parts]
    found = [note for note in notes if note.strip(" .").upper() != "NONE"]
    together = "\n\n".join(f"Notes on part {number}:\n{note}" for number, note in enumerate(found, 1))
    merged = f"{_words('answer', item)} The text is given as notes on its parts."
    return await calls.ask(item, merged, _beginning(together, calls.room) or "(no part has anything)")


def _words(use: str, item: Item) -> str:
    """Return the instructions for one use of an item's text."""
    words: str = tomllib.loads(PROMPTS.read_text("utf-8"))[use][item.kind]
    return words.strip()


def _fit(text: str, tokens: int) -> int:
    """Return how many characters of the beginning of `text` take at most `tokens`."""
    size = min(len(text), tokens * 8)
    while size and (taken := estimate(text[:size])) > tokens:
        size = min(size - 1, int(size * tokens / taken))
    return size


def _beginning(text: str, tokens: int) -> str:
    size = _fit(text, tokens)
    if size == len(text):
        return text
    return (
        f"{text[:size]}\n\n(Here the text was cut: {len(text) - size:,} more characters do not fit one call.)"
    )


def _parts(text: str, tokens: int) -> list[str]:
    """Cut the text at line ends into parts of at most `tokens`."""
    parts = []
    while text:
        size = _fit(text, tokens)
        if size < len(text):
            size = text.rfind("\n", size // 2, size) + 1 or size
        parts.append(text[:size])
        text = text[size:]
    return parts
