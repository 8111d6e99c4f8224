"""Writes what grows as Markdown, and draws it."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from benchmarks.scale.fit import fit
from benchmarks.scale.plot import log_log
from benchmarks.scale.series import MEASURES, SERIES, Series

__all__ = ["draw_growth", "growth_pictures", "growth_table"]

_CLOSE = 0.1
"""How far an exponent may be from what is expected and still be called so."""


def growth_table(facts: Mapping[str, Any]) -> str:
    """Return a table of each series: the measures at each size, and the exponents with their intervals."""
    machine = facts["machine"]
    parts = [
        f"{_repeated(facts['repeat'])} in a new process; {machine['cores']} cores, "
        f"Python {machine['python']}, {machine['date']}.\n"
    ]
    for one in facts["series"]:
        series = _series(one["name"])
        head = [series.axis, *(_unit(name) for name in MEASURES)]
        rows = [
            [f"{int(size):,}", *(_shown(point[name]) for name in MEASURES)]
            for size, point in one["points"].items()
        ]
        rows.append(["exponent (95 %)", *(_exponent(one, name) for name in MEASURES)])
        rows.append(["expected", *(_expected(one, series, name) for name in MEASURES)])
        lines = [head, ["---:"] * len(head), *rows]
        table = "".join(f"| {' | '.join(line)} |\n" for line in lines)
        ended = f"\nThe series ended early, at {one['failure']}.\n" if one["failure"] else ""
        parts.append(f"**{series.title}**\n\n{table}{ended}")
    return "\n".join(parts)


def growth_pictures(facts: Mapping[str, Any]) -> dict[str, str]:
    """Return the pictures by the names of their files."""
    found = {}
    for one in facts["series"]:
        series = _series(one["name"])
        for name, words in MEASURES.items():
            points = _points(one, name)
            if any(y > 0 for _, y in points):
                picture = log_log(series.title, series.axis, words, points)
                found[f"{series.name}-{name.replace('_', '-')}.svg"] = picture
    return found


def draw_growth(facts: Mapping[str, Any], folder: Path) -> list[Path]:
    """Write the pictures to a folder, and return their paths."""
    folder.mkdir(parents=True, exist_ok=True)
    paths = []
    for name, picture in growth_pictures(facts).items():
        (folder / name).write_text(picture, "utf-8")
        paths.append(folder / name)
    return paths


def _repeated(runs: int) -> str:
    return "One run of each size," if runs == 1 else f"Medians of {runs} runs, each"


def _shown(value: float) -> str:
    return f"{value:,.0f}" if value >= 1_000 else f"{value:,.4g}"


def _series(name: str) -> Series:
    return next(series for series in SERIES if series.name == name)


def _points(one: Mapping[str, Any], name: str) -> list[tuple[float, float]]:
    return [(float(size), float(point[name])) for size, point in one["points"].items()]


def _unit(name: str) -> str:
    return {"root_tokens": "root tokens", "calls": "calls", "cost": "$", "megabytes": "MB", "seconds": "s"}[
        name
    ]


def _exponent(one: Mapping[str, Any], name: str) -> str:
    found = fit(_points(one, name))
    return "–" if found is None else f"{found.exponent:.2f} ({found.low:.2f} to {found.high:.2f})"


def _expected(one: Mapping[str, Any], series: Series, name: str) -> str:
    """Tell what the exponent should be, and whether it is that or less: growing slower is no fault."""
    if name not in series.expected:
        return "–"
    wanted, found = series.expected[name], fit(_points(one, name))
    if found is None:
        return f"≤ {wanted:g}"
    held = found.exponent <= wanted + _CLOSE
    return f"≤ {wanted:g}: {'held' if held else '**more**'}"
