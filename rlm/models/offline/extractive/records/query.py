"""What a question asks of records: the work, the fields, and the conditions."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, Literal

from rlm.models.offline.extractive.records.fields import Record, norm, to_date, to_number

__all__ = ["NO_LIMIT", "Condition", "Query", "Work"]

Work = Literal["count", "distinct", "list", "show", "sum", "mean", "median", "top"]
NO_LIMIT = 10


@dataclass
class Condition:
    """What a field of a record must be: one of `values`, or compared with the first by `sign`."""

    name: str
    sign: str
    values: list[str] = field(default_factory=list)

    def holds(self, record: Record) -> bool:
        own = record.get(self.name, [])
        if self.sign == "empty":
            return not own
        if self.sign in ("is", "not"):
            wanted = {norm(value) for value in self.values}
            return any(norm(value) in wanted for value in own) == (self.sign == "is")
        return any(self._compares(value) for value in own)

    def _compares(self, text: str) -> bool:
        bound = self.values[0]
        if self.sign[:1] == "@":
            day = to_date(text)
            return day is not None and _compare(day[: len(bound)], self.sign[1:], bound)
        number, limit = to_number(text), to_number(bound)
        return number is not None and limit is not None and _compare(number, self.sign, limit)

    def __str__(self) -> str:
        name = self.name.rsplit(".", 1)[-1]
        if self.sign == "empty":
            return f"no {name}"
        shown = " or ".join(value if to_number(value) is not None else repr(value) for value in self.values)
        if self.sign in ("is", "not"):
            return f"{name} {'not ' if self.sign == 'not' else ''}{shown}"
        sign = self.sign.lstrip("@")
        return f"{name} {'in' if sign == '=' else sign} {self.values[0]}"


def _compare(one: Any, sign: str, two: Any) -> bool:
    return bool({">": one > two, ">=": one >= two, "<": one < two, "<=": one <= two, "=": one == two}[sign])


@dataclass
class Query:
    """What a question asks. `group` is a field, `period` the characters of a date that make its groups.
    `words` must occur in a record, as no field explains them. `subject` is the field
    that `which` asks for."""

    work: Work = "list"
    target: str | None = None
    group: str | None = None
    period: int | None = None
    highest: bool = True
    limit: int = NO_LIMIT
    is_most: bool = False
    asks_why: bool = False
    counts: bool = False
    conditions: list[Condition] = field(default_factory=list)
    words: list[str] = field(default_factory=list)
    asked: list[str] = field(default_factory=list)
    subject: str | None = None
