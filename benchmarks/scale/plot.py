"""Draws one measure against a size on two logarithmic axes, as SVG without a library."""

from __future__ import annotations

import math
from collections.abc import Sequence
from xml.sax.saxutils import escape

from benchmarks.scale.fit import fit

__all__ = ["log_log"]

_WIDTH, _HEIGHT = 640, 400
_LEFT, _RIGHT, _TOP, _BOTTOM = 84, 24, 48, 56
_INK, _GRID, _MARK = "#333333", "#dddddd", "#3f51b5"


def log_log(title: str, axis: str, measure: str, points: Sequence[tuple[float, float]]) -> str:
    """Return the picture: the points, the fitted line and its exponent. Points of zero are not drawn."""
    points = [(x, y) for x, y in points if x > 0 and y > 0]
    if not points:
        raise ValueError("there is no point above zero to draw")
    across, up = _decades([x for x, _ in points]), _decades([y for _, y in points])

    def at(x: float, y: float) -> tuple[float, float]:
        right = (math.log10(x) - across[0]) / (across[1] - across[0])
        high = (math.log10(y) - up[0]) / (up[1] - up[0])
        return (
            _LEFT + right * (_WIDTH - _LEFT - _RIGHT),
            _HEIGHT - _BOTTOM - high * (_HEIGHT - _TOP - _BOTTOM),
        )

    drawn = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {_WIDTH} {_HEIGHT}" role="img" '
        'font-family="sans-serif" font-size="13">',
        f"<title>{escape(title)}: {escape(measure)}</title>",
        f'<rect width="{_WIDTH}" height="{_HEIGHT}" fill="white"/>',
    ]
    for power in range(across[0], across[1] + 1):
        x, _ = at(10.0**power, 10.0 ** up[0])
        drawn.append(_line(x, _TOP, x, _HEIGHT - _BOTTOM, _GRID))
        drawn.append(_words(x, _HEIGHT - _BOTTOM + 18, _power(power), "middle"))
    for power in range(up[0], up[1] + 1):
        _, y = at(10.0 ** across[0], 10.0**power)
        drawn.append(_line(_LEFT, y, _WIDTH - _RIGHT, y, _GRID))
        drawn.append(_words(_LEFT - 8, y + 4, _power(power), "end"))
    found, told = fit(points), ""
    if found is not None:
        ends = [x for x, _ in points]
        (x1, y1), (x2, y2) = (at(x, found.factor * x**found.exponent) for x in (min(ends), max(ends)))
        drawn.append(_line(x1, y1, x2, y2, _MARK, ' stroke-dasharray="6 4"'))
        told = f", exponent {found.exponent:.2f} ({found.low:.2f} to {found.high:.2f})"
    for point in points:
        x, y = at(*point)
        drawn.append(f'<circle cx="{x:.1f}" cy="{y:.1f}" r="4" fill="{_MARK}"/>')
    drawn.append(_words(_LEFT, 20, title, "start", ' font-weight="bold"'))
    drawn.append(_words(_LEFT, 38, f"{measure}{told}", "start"))
    drawn.append(_words((_LEFT + _WIDTH - _RIGHT) / 2, _HEIGHT - 14, axis, "middle"))
    return "\n".join([*drawn, "</svg>"]) + "\n"


def _decades(values: Sequence[float]) -> tuple[int, int]:
    """Return the powers of ten around the values, at least one apart."""
    low, high = math.floor(math.log10(min(values))), math.ceil(math.log10(max(values)))
    return low, max(high, low + 1)


def _line(x1: float, y1: float, x2: float, y2: float, colour: str, more: str = "") -> str:
    return f'<line x1="{x1:.1f}" y1="{y1:.1f}" x2="{x2:.1f}" y2="{y2:.1f}" stroke="{colour}"{more}/>'


def _words(x: float, y: float, text: str, anchor: str, more: str = "") -> str:
    return f'<text x="{x:.1f}" y="{y:.1f}" text-anchor="{anchor}" fill="{_INK}"{more}>{escape(text)}</text>'


def _power(power: int) -> str:
    return "1" if power == 0 else "10" + str(power).translate(str.maketrans("-0123456789", "⁻⁰¹²³⁴⁵⁶⁷⁸⁹"))
