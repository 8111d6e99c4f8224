"""Keeps what the checks of a run said of its answers, for the result."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from typing import Any, Literal

from rlm.results import Gate

__all__ = ["GateName", "Gates"]

GateName = Literal["input", "schema", "evidence", "support", "check"]

_MAX_REFUSALS = 50
_MAX_REASON = 500


class Gates:
    """The armed gates of one run, by name, in the order in which they judge."""

    def __init__(self, names: Iterable[GateName]) -> None:
        self._gates: dict[str, Gate] = {name: Gate(name) for name in names}

    def passed(self, name: GateName) -> None:
        """Note that an answer passed."""
        if name in self._gates:
            self._gates[name] = replace(self._gates[name], passed=True, rejected=None)

    def refused(self, name: str, reasons: Iterable[str], value: Any = None) -> None:
        """Note that an answer was refused, and why."""
        gate = self._gates.get(name)
        if gate is not None:
            refusals = (*gate.refusals, *(reason[:_MAX_REASON] for reason in reasons))[:_MAX_REFUSALS]
            self._gates[name] = replace(gate, passed=False, refusals=refusals, rejected=value)

    def report(self, *, has_answer: bool) -> tuple[Gate, ...]:
        """Return the gates. Only a run without an answer shows what was rejected."""
        gates = self._gates.values()
        return tuple(replace(gate, rejected=None) if has_answer else gate for gate in gates)
