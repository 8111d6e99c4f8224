"""Draws the scores of a report: a point and its interval for each arm, as SVG."""

from __future__ import annotations

from rlm.bench.report import ArmReport, BenchReport
from rlm.escaping import html_text

__all__ = ["chart_of"]

_LEFT, _WIDTH, _ROW, _TOP = 130, 520, 30, 56
_INK, _FAINT, _POINT = "#1f2933", "#d5dbe1", "#1864ab"


def chart_of(report: BenchReport) -> str:
    """Return the chart. Its axis goes from 0 to 1."""
    arms = [arm for arm in report.arms if arm.interval is not None]
    bottom = _TOP + _ROW * len(arms)
    width, height = _LEFT + _WIDTH + 150, bottom + 34
    title = f"{report.facts['suite']}, {report.facts['model']}, {len(report.facts['items'])} items"
    lines = [
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{width}" height="{height}" '
        f'viewBox="0 0 {width} {height}" font-family="sans-serif" font-size="13" fill="{_INK}">',
        f'<rect width="{width}" height="{height}" fill="#ffffff"/>',
        f'<text x="{_LEFT}" y="24" font-size="15">{html_text(title)}</text>',
        f'<text x="{_LEFT}" y="42" fill="#52606d">score with 95 % interval</text>',
    ]
    for step in range(6):
        x = _x(step / 5)
        lines.append(f'<line x1="{x}" y1="{_TOP}" x2="{x}" y2="{bottom}" stroke="{_FAINT}"/>')
        lines.append(f'<text x="{x}" y="{bottom + 18}" text-anchor="middle">{step / 5:.1f}</text>')
    for number, arm in enumerate(arms):
        lines += _arm(arm, _TOP + _ROW * number + _ROW // 2)
    return "\n".join([*lines, "</svg>"]) + "\n"


def _arm(arm: ArmReport, y: int) -> list[str]:
    found = arm.interval
    assert found is not None
    low, high, x = _x(found.low), _x(found.high), _x(found.mean)
    words = f"{found.mean:.2f}, n {found.count}, {arm.tokens:,.0f} tokens"
    return [
        f'<text x="{_LEFT - 10}" y="{y + 4}" text-anchor="end">{html_text(arm.name)}</text>',
        f'<line x1="{low}" y1="{y}" x2="{high}" y2="{y}" stroke="{_POINT}" stroke-width="2"/>',
        f'<circle cx="{x}" cy="{y}" r="5" fill="{_POINT}"/>',
        f'<text x="{_LEFT + _WIDTH + 10}" y="{y + 4}" font-size="11" fill="#52606d">'
        f"{html_text(words)}</text>",
    ]


def _x(score: float) -> float:
    return round(_LEFT + _WIDTH * score, 1)
