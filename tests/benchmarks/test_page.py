"""Tests of benchmarks/page.py: the page follows from the results, and the tables tell losses."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from benchmarks import page
from benchmarks.micro.table import figures_of, micro_table
from benchmarks.overhead.table import robustness_table, times_table

ROOT = Path(__file__).parents[2]
MACHINE = {"cores": 2, "python": "3.11.7", "date": "2026-01-01"}
ARMS = {
    "ours": {"requirement": "this tree", "note": "confined"},
    "other": {"requirement": "other==1", "note": "no sandbox"},
}
_EMPTY: dict[str, Any] = {"values": [], "noisy": [], "failures": []}


def facts_of(*rows: dict[str, Any], missing: dict[str, str] | None = None) -> dict[str, Any]:
    return {"arms": ARMS, "missing": missing or {}, "machine": MACHINE, "rows": list(rows)}


def row(ours: dict[str, Any], other: dict[str, Any], goal: float | None = None) -> dict[str, Any]:
    cells = {"ours": ours, "other": other}
    arms = {arm: cell if "not_for" in cell else _EMPTY | cell for arm, cell in cells.items()}
    return {"name": "a round", "unit": "ms", "goal": goal, "arms": arms}


def test_the_page_and_the_pictures_are_what_the_results_give() -> None:
    for path in page.TABLES:
        text = path.read_text("utf-8")
        assert page.page_of(path, text, ROOT / "benchmarks") == text
    pictures = page.pictures_of(ROOT / "benchmarks")
    assert {path.name for path in page.PICTURES.glob("*.svg")} == set(pictures)
    for name, picture in pictures.items():
        assert (page.PICTURES / name).read_text("utf-8") == picture


def test_a_table_without_results_says_so(tmp_path: Path) -> None:
    for path in page.TABLES:
        assert page.page_of(path, path.read_text("utf-8"), tmp_path).count(page.NOT_MEASURED) == 8


def test_a_page_without_a_mark_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="no marks for times"):
        page.page_of(page.DETAILS, "# Benchmarks\n", tmp_path)


def test_results_reach_the_page(tmp_path: Path) -> None:
    results = tmp_path / "overhead" / "results"
    results.mkdir(parents=True)
    ours, other = {"values": [2.0, 3.0, 4.0], "noisy": [9.0]}, {"values": [1.5], "noisy": []}
    (results / "times.json").write_text(json.dumps(facts_of(row(ours, other, 4))))
    text = page.page_of(page.DETAILS, page.DETAILS.read_text("utf-8"), tmp_path)
    assert "| a round, ms | 3 (2–4, n 3) | 1.5 (1.5–1.5, n 1) | ≤ 4 | **behind**: 2 of 2, 2 × other |" in text
    assert page.page_of(page.DETAILS, text, tmp_path) == text
    details = page.page_of(page.DETAILS, page.DETAILS.read_text("utf-8"), tmp_path)
    assert "dropped as noisy: ours 1." in details


@pytest.mark.parametrize(
    ("ours", "other", "goal", "standing"),
    [
        ({"values": [1.0]}, {"values": [2.0]}, 1.0, "first"),
        ({"values": [1.5]}, {"values": [2.0]}, 1.0, "first, misses its goal"),
        ({"values": [3.0]}, {"values": [2.0]}, None, "**behind**: 2 of 2, 1.5 × other"),
        ({"values": [3.0]}, {"not_for": "reads no file"}, None, "alone"),
        ({"values": [], "noisy": [1.0, 2.0]}, {"values": [2.0]}, None, "not measured"),
        ({"values": [], "failures": ["it died"]}, {"values": [2.0]}, None, "not measured"),
    ],
)
def test_the_standing_of_ours(
    ours: dict[str, Any], other: dict[str, Any], goal: float | None, standing: str
) -> None:
    line = times_table(facts_of(row(ours, other, goal))).splitlines()[2]
    assert line.endswith(f"| {standing} |")


def test_failures_and_missing_arms_are_told_and_are_no_markup() -> None:
    failed = row({"values": [1.0]}, {"values": [], "failures": ["no `answer` | <b>\nat all"]})
    table = times_table(facts_of(failed, missing={"third": "no wheel"}))
    assert "| failed 1 times |" in table
    assert "- a round, other: `no 'answer' | <b> at all`." in table
    assert "- third could not be installed: `no wheel`." in table


def test_what_did_not_hold_is_told_with_its_reason() -> None:
    held, lost = {"held": 3, "runs": 3, "reason": ""}, {"held": 1, "runs": 3, "reason": "no end"}
    rows = [
        {"name": "loop", "wanted": "it ends", "arms": {"ours": held, "other": lost}},
        {"name": "flood", "wanted": "no more", "arms": {"ours": lost, "other": held}},
    ]
    table = robustness_table(facts_of(*rows))
    assert "| loop: it ends | yes | **no** (1 of 3) |" in table
    assert "| held in every run | 1 of 2 | 1 of 2 |" in table
    assert "- flood, ours: `no end`." in table


def test_the_micro_table_holds_times_and_facts() -> None:
    stats = {"median": 0.0045, "min": 0.004, "max": 1.2, "rounds": 7}
    report = {
        "machine_info": {"cpu": {"count": 2}, "python_version": "3.11.7"},
        "datetime": "2026-01-01T10:00:00",
        "benchmarks": [
            {"name": "test_one_cell", "fullname": "b/test_kernel.py::x", "stats": stats, "extra_info": {}},
            {
                "name": "test_search[a|b]",
                "fullname": "b/test_bodies.py::x",
                "stats": stats,
                "extra_info": {"ns_a_step": 0.4},
            },
            {
                "name": "test_start[plain]",
                "fullname": "b/test_kernel.py::y",
                "stats": stats,
                "extra_info": {"told": {"ratio": 0.19}},
            },
        ],
    }
    table = micro_table(figures_of(report))
    assert "| one cell | 4.5 ms | 4 ms | 1.2 s | 7 |" in table
    assert "| search `a\\|b`: ns a step 0.4 | 4.5 ms | 4 ms | 1.2 s | 7 |" in table
    assert "\n- start `plain`: ratio 0.19.\n" in table
    assert table.index("/test_bodies.py`:") < table.index("/test_kernel.py`:")
