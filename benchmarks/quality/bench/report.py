"""The report of a bench, from its folder alone: for a terminal, as JSON and as Markdown."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict
from statistics import median
from typing import Any

from benchmarks.quality.bench.folder import BenchFolder, Row
from benchmarks.quality.bench.scoring import Interval, Paired, interval_of, paired
from rlm.escaping import markdown_line
from rlm.lazy_dataclass import dataclass
from rlm.results import LIMITS_OF

__all__ = ["ArmReport", "BenchReport", "report_of"]

_HEAD = (
    "arm",
    "n",
    "score (95 %)",
    "to {reference} (95 %)",
    "tokens",
    "dollars",
    "seconds",
    "citations",
    "claims",
)
_NOTE = (
    "Scores go from 0 to 1. Intervals are Wilson's for right or wrong, and a bootstrap over items otherwise. "
    "Differences are paired: over the items of both arms, with more, equal and fewer points. "
    "Tokens and seconds are medians of a run, dollars are the sum. Citations: found in the text. "
    "Claims: supported by their citations, of those that were checked."
)


@dataclass(frozen=True, slots=True)
class ArmReport:
    """The figures of one arm. `difference` is that to the reference, None for itself. `cost_usd` is None if a
    price is unknown."""

    name: str
    runs: int
    interval: Interval | None
    difference: Paired | None
    tokens: float
    total_tokens: int
    cost_usd: float | None
    seconds: float
    citations: int
    verified: int
    supported: int
    checked: int
    not_found: int
    no_answer: int
    too_long: int
    errors: int
    limited: int
    cut: int
    groups: Mapping[str, Interval]


@dataclass(frozen=True, slots=True)
class BenchReport:
    """All arms of a bench, in their order. `reference` is the arm that the others are compared with."""

    facts: Mapping[str, Any]
    reference: str
    arms: Sequence[ArmReport]

    def to_json(self) -> dict[str, Any]:
        """Return a JSON-safe mapping. The questions are in `bench.json`, the answers in `results.jsonl`."""
        facts = {name: value for name, value in self.facts.items() if name != "items"}
        return {
            **facts,
            "items": len(self.facts["items"]),
            "reference": self.reference,
            "arms": [asdict(arm) for arm in self.arms],
        }

    def rows(self) -> list[tuple[str, ...]]:
        """Return the table: its head, and a row for each arm."""
        head = tuple(name.format(reference=self.reference) for name in _HEAD)
        return [head, *(_row(arm) for arm in self.arms)]

    def text(self) -> str:
        """Return the table for a terminal."""
        rows = self.rows()
        widths = [max(len(row[place]) for row in rows) for place in range(len(rows[0]))]
        lines = [
            "  ".join(
                cell.ljust(width) if place == 0 else cell.rjust(width)
                for place, (cell, width) in enumerate(zip(row, widths, strict=True))
            ).rstrip()
            for row in rows
        ]
        return "\n".join([*lines, *self.remarks()])

    def remarks(self) -> list[str]:
        """Return a line for each arm of which runs have no answer."""
        return [line for arm in self.arms if (line := _remark(arm))]

    def markdown(self) -> str:
        """Return the report as Markdown, with the command that replays a run."""
        rows = self.rows()
        facts = self.facts
        lines = [
            f"# {markdown_line(str(facts['suite']))}",
            "",
            f"Model {markdown_line(str(facts['model']))}, children {markdown_line(str(facts['sub_model']))}, "
            f"{len(facts['items']):,} items, seed {facts['seed']}, rlm {facts['rlm']}" + ".",
            "",
            "| " + " | ".join(rows[0]) + " |",
            "| --- |" + " ---: |" * (len(rows[0]) - 1),
            *("| " + " | ".join(markdown_line(cell) for cell in row) + " |" for row in rows[1:]),
            "",
            *(f"- {markdown_line(line)}" for line in self.remarks()),
            "",
            _NOTE,
            "",
            *self._groups(),
            "Every run is in `runs.db`, by the name `ITEM.ARM.REPETITION`. Replay one without a model:",
            "",
            "```sh",
            f"rlm replay {self._example()} --store runs.db",
            "```",
        ]
        return "\n".join(lines) + "\n"

    def _groups(self) -> list[str]:
        """Return a table of the scores by kind of question, if there are several kinds."""
        groups = sorted({group for arm in self.arms for group in arm.groups})
        if len(groups) < 2:
            return []
        lines = [
            "| kind of question | " + " | ".join(arm.name for arm in self.arms) + " |",
            "| --- |" + " ---: |" * len(self.arms),
        ]
        for group in groups:
            cells = [
                f"{found.mean:.2f} (n {found.count})" if (found := arm.groups.get(group)) else "–"
                for arm in self.arms
            ]
            lines.append(f"| {markdown_line(group)} | " + " | ".join(cells) + " |")
        return [*lines, ""]

    def _example(self) -> str:
        item = next(iter(self.facts["items"]), "ITEM")
        arm = self.arms[-1].name if self.arms else "ARM"
        return f"{item}.{arm}.01"


def report_of(folder: BenchFolder, reference: str | None = None) -> BenchReport:
    """Return the report of all rows of a folder. `reference` is the arm to compare with: by default `direct`,
    or else the first arm."""
    by_arm: dict[str, list[Row]] = {}
    for row in folder.rows.values():
        if row.score is not None:
            by_arm.setdefault(row.arm, []).append(row)
    names = sorted(by_arm, key=_order)
    if reference not in by_arm:
        reference = "direct" if "direct" in by_arm else names[0] if names else ""
    base = _scores(by_arm.get(reference, ()))
    groups = {name: item["group"] for name, item in folder.facts["items"].items()}
    arms = [_arm_report(name, by_arm[name], None if name == reference else base, groups) for name in names]
    return BenchReport(folder.facts, reference, arms)


def _arm_report(
    name: str, rows: Sequence[Row], base: Mapping[str, Sequence[float]] | None, groups: Mapping[str, str]
) -> ArmReport:
    scores = _scores(rows)
    ran = [row for row in rows if row.status != "too long"]
    costs = [row.cost_usd for row in ran]
    kinds = sorted({groups.get(item, "") for item in scores} - {""})
    by_kind = {
        kind: found
        for kind in kinds
        if (found := interval_of({item: one for item, one in scores.items() if groups.get(item) == kind}))
    }
    return ArmReport(
        name=name,
        runs=len(rows),
        interval=interval_of(scores),
        difference=None if base is None else paired(scores, base),
        tokens=median([row.tokens for row in ran]) if ran else 0,
        total_tokens=sum(row.tokens for row in ran),
        cost_usd=None if None in costs else round(sum(filter(None, costs)), 6),
        seconds=median([row.seconds for row in ran]) if ran else 0.0,
        citations=sum(row.citations for row in rows),
        verified=sum(row.verified for row in rows),
        supported=sum(row.supported for row in rows),
        checked=sum(row.checked for row in rows),
        not_found=sum(row.status == "not found" for row in rows),
        no_answer=sum(row.status == "no answer" for row in rows),
        too_long=sum(row.status == "too long" for row in rows),
        errors=sum(row.status == "error" for row in rows),
        limited=sum(row.stop_reason in LIMITS_OF for row in rows),
        cut=sum(row.is_cut for row in rows),
        groups=by_kind,
    )


def _scores(rows: Iterable[Row]) -> dict[str, list[float]]:
    """Return the scores by item, in the order of the repetitions."""
    found: dict[str, list[float]] = {}
    for row in sorted(rows, key=lambda row: row.key):
        assert row.score is not None
        found.setdefault(row.item, []).append(row.score)
    return found


_ORDER = ("auto", "direct", "truncated", "map-reduce", "bm25", "code", "depth", "attempts")


def _order(name: str) -> tuple[int, str]:
    kind = name if name in _ORDER else name.rpartition("-")[0]
    return (_ORDER.index(kind) if kind in _ORDER else len(_ORDER), name)


def _row(arm: ArmReport) -> tuple[str, ...]:
    score, difference = arm.interval, arm.difference
    return (
        arm.name,
        f"{arm.runs:,}",
        "–" if score is None else f"{score.mean:.2f} ({score.low:.2f} to {score.high:.2f})",
        "–"
        if difference is None
        else f"{difference.mean:+.2f} ({difference.low:+.2f} to {difference.high:+.2f}), "
        f"{difference.better}/{difference.equal}/{difference.worse}",
        f"{arm.tokens:,.0f}",
        "unknown" if arm.cost_usd is None else f"{arm.cost_usd:.4f}",
        f"{arm.seconds:.1f}",
        f"{arm.verified:,} of {arm.citations:,}",
        f"{arm.supported:,} of {arm.checked:,}",
    )


def _remark(arm: ArmReport) -> str:
    parts = [
        f"{count:,} {words}"
        for count, words in (
            (arm.too_long, "too long for one prompt (scored 0)"),
            (arm.not_found, "said to be not in the text"),
            (arm.no_answer, "without an answer (scored 0)"),
            (arm.errors, "failed (scored 0)"),
            (arm.limited, "stopped at a limit"),
            (arm.cut, "got a part of the text"),
        )
        if count
    ]
    return f"{arm.name}: {', '.join(parts)}" if parts else ""
