"""Lets a model decide whether an answer is right. It must play no arm."""

from __future__ import annotations

import json
import math
import re
import tomllib
from collections.abc import Iterable
from pathlib import Path

from benchmarks.quality.bench.item import Item
from benchmarks.quality.bench.scoring.rules import final_part
from rlm.accounting.metered_model import estimate
from rlm.errors import ConfigurationError, ModelError
from rlm.lazy_dataclass import dataclass
from rlm.models.base import EXTRACTIVE, Message, Model, Request, is_extractive
from rlm.models.catalog.names import parse_name
from rlm.models.catalog.prices import Prices
from rlm.models.registry import OFFLINE

__all__ = ["Judge", "Verdict", "check_judge"]

_OUTPUT = 600
_SHOWN = 8_000
"""Characters of an answer that the judge sees."""
_VERDICT = re.compile(r"\b(incorrect|correct)\b", re.IGNORECASE)


@dataclass(frozen=True, slots=True)
class Verdict:
    """A verdict: 1 or 0, the judge's reply, and what it took. `cost_usd` is None if the price is unknown."""

    score: float
    judge: str
    reply: str
    tokens: int
    cost_usd: float | None


def check_judge(judge: str, arms: Iterable[str]) -> None:
    """Raise ConfigurationError if the judge plays an arm, whatever server or provider it is reached by, or
    cannot judge."""
    for name in arms:
        if _bare(name) == _bare(judge):
            raise ConfigurationError(
                f"the judge {judge} is a model of the arms, and would judge its own answers: give another "
                "--judge"
            )
    if judge == EXTRACTIVE:
        raise ConfigurationError("extractive cannot judge: give --judge a language model")


@dataclass(frozen=True, slots=True)
class Judge:
    """Asks `model` about one answer at a time. It sees question, golds and answer, and not the arm."""

    model: Model
    prices: Prices

    def at_most(self, item: Item, answer: str) -> float | None:
        """Return the most that a verdict costs; None if the price is unknown."""
        return self.prices.at_most(self.model, 2 * estimate(_prompt(item, answer)), 2 * _OUTPUT)

    async def judge(self, item: Item, answer: str) -> Verdict:
        """Return the verdict on an answer. Raises ModelError, also if two replies hold no verdict."""
        if not answer.strip():
            return Verdict(0.0, self.model.name, "", 0, 0.0)
        assert not is_extractive(self.model)
        tokens, cost = 0, 0.0
        for _ in range(2):
            messages = (Message("user", _prompt(item, answer)),)
            output = min(_OUTPUT, self.model.window.output)
            reply = await self.model.generate(Request("check", messages, output, item.question))
            tokens += reply.usage.input_tokens + reply.usage.output_tokens
            price = self.prices.of(self.model, reply.usage)
            cost = cost + price if price is not None else math.nan
            found = _VERDICT.findall(reply.text)
            if found:
                known = None if math.isnan(cost) else cost
                score = float(found[-1].casefold() == "correct")
                return Verdict(score, self.model.name, reply.text, tokens, known)
        raise ModelError(f"{self.model.name} gave no verdict: it wrote neither `correct` nor `incorrect`")


def _prompt(item: Item, answer: str) -> str:
    golds = json.dumps(list(item.golds), ensure_ascii=False)
    words: str = tomllib.loads(Path(__file__).with_name("judge.toml").read_text("utf-8"))["verdict"]
    said = json.dumps(final_part(answer)[:_SHOWN], ensure_ascii=False)
    return words.strip().format(
        question=json.dumps(item.question, ensure_ascii=False), golds=golds, said=said
    )


def _bare(name: str) -> str:
    """Return the model of a name: `gpt-5` for `openai:gpt-5@https://…` and `openrouter:openai/gpt-5`."""
    parsed = parse_name(name)
    if parsed.provider in OFFLINE:
        return parsed.text
    return parsed.model.rpartition("/")[2].casefold().removesuffix(":latest")
