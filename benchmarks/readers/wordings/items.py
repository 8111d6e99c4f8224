"""The questions of the trial, and whether an answer is right."""

from __future__ import annotations

import re
import tomllib
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from benchmarks.readers.items import Item
from benchmarks.readers.score import is_right as occurs

__all__ = ["Question", "is_right", "load"]


@dataclass(frozen=True, slots=True)
class Question:
    """One question over one text. `golds` are groups of right answers, of which one is enough."""

    id: str
    text: str
    question: str
    scoring: str
    golds: tuple[tuple[str, ...], ...]


def load(only: Sequence[str] = ()) -> list[Question]:
    """Return the questions of `wordings.toml` whose ids are in `only`; all if it is empty."""
    entries = tomllib.loads(Path(__file__).with_name("wordings.toml").read_text("utf-8"))["item"]
    known = [Question(**{**entry, "golds": tuple(map(tuple, entry["golds"]))}) for entry in entries]
    return [one for one in known if not only or one.id in only]


def is_right(question: Question, answer: str, *, found: bool = True) -> bool:
    """Return whether the answer is right. `found` is False if the run says that the text holds none."""
    match question.scoring:
        case "exact":
            return _plain(answer) in map(_plain, question.golds[0])
        case "every":
            return all(_occurs("any", answer, group) for group in question.golds)
        case "list":
            return sorted(re.findall(r"\d+", _unmarked(answer))) == sorted(question.golds[0])
        case "absent":
            return _occurs("absent", answer, (), found=found)
        case _:
            raise ValueError(f"{question.id} has no such scoring: {question.scoring}")


def _occurs(scoring: str, answer: str, golds: tuple[str, ...], *, found: bool = True) -> bool:
    return occurs(Item("", "ask", "", (golds,), (), scoring), answer, found=found)


def _unmarked(answer: str) -> str:
    """Return the answer without the marks of its citations."""
    return re.sub(r"\s*(?:\[[\d, ]+\]|[\u00b9\u00b2\u00b3\u2070-\u2079]|\[[¹²³⁰-⁹]+\])", "", answer)


def _plain(answer: str) -> str:
    text = re.sub(r"(?<=\d)[,\u202f\u00a0](?=\d{3})", "", _unmarked(answer))
    return " ".join(text.casefold().strip(" .\"'`*").split())
