"""Right answers of runs, from a file of JSON Lines, and the rules that compare an answer with them."""

from __future__ import annotations

import json
import math
import re
from collections import Counter
from collections.abc import Mapping
from dataclasses import field
from pathlib import Path
from typing import Any, Literal, get_args

from rlm.errors import UsageError
from rlm.lazy_dataclass import dataclass

__all__ = ["RULES", "Golds", "Rule", "correctness"]

Rule = Literal["exact", "contains", "number", "f1"]
"""exact: the same words, whatever their case and blanks. contains: the answer holds the gold's words. number:
the last number of the answer is the gold. f1: the overlap of the words, from 0 to 1."""
RULES: tuple[Rule, ...] = get_args(Rule)

_NUMBER = re.compile(r"[-+]?\d[\d,]*(?:\.\d+)?(?:[eE][-+]?\d{1,3})?")
_MAX_CHARS = 100_000
"""Characters of an answer that are compared."""


@dataclass(frozen=True, slots=True)
class Golds:
    """The accepted answers and their rule, by the name of a run or by its question."""

    answers: Mapping[str, tuple[tuple[Any, ...], Rule]] = field(default_factory=dict)

    @classmethod
    def read(cls, file: Path, rule: Rule = "exact") -> Golds:
        """Read lines with `id` (the name of a run, or its question) and `answer` (one value, or a list of
        those accepted). A line may have a `rule` of its own. Raises UsageError, with the line's number."""
        answers: dict[str, tuple[tuple[Any, ...], Rule]] = {}
        try:
            lines = file.read_text(encoding="utf-8").splitlines()
        except (OSError, UnicodeDecodeError) as error:
            raise UsageError(f"cannot read the golds of {file}: {error}") from error
        for number, line in enumerate(lines, 1):
            if not line.strip():
                continue
            try:
                one = json.loads(line)
                name, given = str(one["id"]), one["answer"]
                own: Rule = one.get("rule", rule)
            except (ValueError, KeyError, TypeError, AttributeError, RecursionError) as error:
                raise UsageError(f"{file}:{number} is no JSON object with id and answer") from error
            if own not in RULES:
                raise UsageError(f"{file}:{number} has an unknown rule. Use one of {', '.join(RULES)}")
            answers[name.strip()] = (tuple(given) if isinstance(given, list) else (given,), own)
        return cls(answers)

    def judge(self, run_id: str, task: str, answer: Any) -> float | None:
        """Return how right the answer is, from 0 to 1. None if there is no gold for it."""
        found = self.answers.get(run_id) or self.answers.get(task.strip())
        if found is None:
            return None
        accepted, rule = found
        if answer is None:
            return 0.0
        return max((correctness(answer, gold, rule) for gold in accepted), default=0.0)


def correctness(answer: Any, gold: Any, rule: Rule) -> float:
    """Return from 0 to 1 how right an answer is by a rule. Values that are no text are compared as JSON."""
    given, right = _text(answer), _text(gold)
    if rule == "number":
        found, wanted = _number(given), _number(right)
        both = found is not None and wanted is not None
        return float(both and math.isclose(found or 0.0, wanted or 0.0, rel_tol=1e-9, abs_tol=1e-12))
    if rule == "contains":
        return float(bool(right) and _spaced(right) in _spaced(given))
    if rule == "f1":
        return round(_f1(given, right), 4)
    return float(given == right)


def _text(value: Any) -> str:
    shown = value if isinstance(value, str) else json.dumps(value, sort_keys=True, ensure_ascii=False)
    return " ".join(shown[:_MAX_CHARS].casefold().split()).rstrip(".")


def _words(text: str) -> list[str]:
    return re.findall(r"\w+", text)


def _spaced(text: str) -> str:
    return f" {' '.join(_words(text))} "


def _number(text: str) -> float | None:
    found = _NUMBER.findall(text)
    return float(found[-1].replace(",", "")) if found else None


def _f1(given: str, right: str) -> float:
    mine, theirs = Counter(_words(given)), Counter(_words(right))
    shared = (mine & theirs).total()
    if not shared:
        return float(mine == theirs)
    return 2 * shared / (mine.total() + theirs.total())
