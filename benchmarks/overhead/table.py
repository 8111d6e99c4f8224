"""Writes the figures of a run as Markdown."""

from __future__ import annotations

import statistics
from collections.abc import Mapping, Sequence
from typing import Any

__all__ = ["robustness_table", "times_table"]

OURS = "ours"


def times_table(facts: Mapping[str, Any]) -> str:
    """Return the medians with spread and number, the goal, and whether ours is first. Losses are told."""
    arms = list(facts["arms"])
    head = ["work", *arms, "goal", "ours is"]
    rows = []
    for row in facts["rows"]:
        cells = [_cell(row["arms"][arm]) for arm in arms]
        goal = "–" if row["goal"] is None else f"≤ {row['goal']:,g}"
        rows.append([f"{row['name']}, {row['unit']}", *cells, goal, _standing(row)])
    noisy = {arm: sum(len(row["arms"][arm].get("noisy", ())) for row in facts["rows"]) for arm in arms}
    dropped = ", ".join(f"{arm} {count}" for arm, count in noisy.items() if count) or "none"
    return _table(head, rows) + f"\nRepetitions dropped as noisy: {dropped}.\n" + _arms(facts)


def robustness_table(facts: Mapping[str, Any]) -> str:
    """Return what held and what did not, with the reason."""
    arms = list(facts["arms"])
    rows, reasons = [], []
    for row in facts["rows"]:
        cells = []
        for arm in arms:
            cell = row["arms"][arm]
            held, runs = cell["held"], cell["runs"]
            cells.append(_held(held, runs))
            if held < runs:
                reasons.append(f"- {row['name']}, {arm}: {_safe(cell['reason'])}.\n")
        rows.append([f"{row['name']}: {row['wanted']}", *cells])
    held = [
        sum(0 < one["arms"][arm]["runs"] == one["arms"][arm]["held"] for one in facts["rows"]) for arm in arms
    ]
    held_by = [f"{count} of {len(rows)}" for count in held]
    rows.append(["held in every run", *held_by])
    why = f"\nWhat happened instead:\n\n{''.join(reasons)}" if reasons else ""
    return _table(["what happens, and what should", *arms], rows) + why + _arms(facts)


def _held(held: int, runs: int) -> str:
    if not runs:
        return "–"
    if held in (0, runs):
        return "yes" if held else "**no**"
    return f"**no** ({held} of {runs})"


def _cell(cell: Mapping[str, Any]) -> str:
    if "not_for" in cell:
        return "–"
    values, failures = cell["values"], len(cell["failures"])
    if not values:
        return f"failed {failures} times" if failures else f"all {len(cell['noisy'])} noisy"
    middle, low, high = statistics.median(values), min(values), max(values)
    told = f", {failures} failed" if failures else ""
    return f"{_number(middle)} ({_number(low)}–{_number(high)}, n {len(values)}{told})"


def _number(value: float) -> str:
    return f"{value:,.0f}" if value >= 100 else f"{value:.3g}"


def _standing(row: Mapping[str, Any]) -> str:
    """Tell the place of ours among the arms that have a figure, and by how much it lost if it did."""
    medians = {
        arm: statistics.median(cell["values"]) for arm, cell in row["arms"].items() if cell.get("values")
    }
    if OURS not in medians:
        return "not measured"
    mine = medians.pop(OURS)
    missed = "" if row["goal"] is None or mine <= row["goal"] else ", misses its goal"
    if not medians:
        return f"alone{missed}"
    best = min(medians, key=lambda arm: medians[arm])
    if mine <= medians[best]:
        return f"first{missed}"
    place = 1 + sum(value < mine for value in medians.values())
    return f"**behind**: {place} of {len(medians) + 1}, {mine / medians[best]:.2g} × {best}{missed}"


def _arms(facts: Mapping[str, Any]) -> str:
    lines = [f"- {arm}: `{one['requirement']}`, {one['note']}.\n" for arm, one in facts["arms"].items()]
    lines += [f"- {arm} could not be installed: {_safe(why)}.\n" for arm, why in facts["missing"].items()]
    cells = [(row["name"], arm, cell) for row in facts["rows"] for arm, cell in row["arms"].items()]
    failed = [
        f"- {name}, {arm}: {_safe(cell['failures'][-1])}.\n"
        for name, arm, cell in cells
        if cell.get("failures")
    ]
    unfit = sorted({f"- –, {arm}: {cell['not_for']}.\n" for _, arm, cell in cells if "not_for" in cell})
    machine = facts["machine"]
    where = f"{machine['cores']} cores, Python {machine['python']}, {machine['date']}"
    return f"\nThe arms ({where}):\n\n{''.join(lines + unfit + failed)}"


def _safe(text: str) -> str:
    """Return text of a foreign program as one line that is no markup."""
    line = " ".join(text.split()).rstrip(".").replace("`", "'")
    return "`" + line[:160] + "`" if line else "no reason given"


def _table(head: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    lines = [list(head), ["---"] + ["---:"] * (len(head) - 1), *map(list, rows)]
    return "".join(f"| {' | '.join(cell.replace('|', '/') for cell in line)} |\n" for line in lines)
