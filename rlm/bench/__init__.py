"""Benches: several ways to answer the same questions with the same model, scored, with all evidence kept."""

from __future__ import annotations

from rlm.bench.arms import DEFAULT_ARMS, Arm, find_arm
from rlm.bench.bench import Bench, BenchEnd
from rlm.bench.chart import chart_of
from rlm.bench.folder import BenchFolder, Row, write_whole
from rlm.bench.item import Item
from rlm.bench.plan import ArmPlan, plan_bench
from rlm.bench.report import BenchReport, report_of
from rlm.bench.scoring import Judge, check_judge, score
from rlm.bench.suites import SUITES, Suite, find_suite, load_items

__all__ = [
    "DEFAULT_ARMS",
    "SUITES",
    "Arm",
    "ArmPlan",
    "Bench",
    "BenchEnd",
    "BenchFolder",
    "BenchReport",
    "Item",
    "Judge",
    "Row",
    "Suite",
    "chart_of",
    "check_judge",
    "find_arm",
    "find_suite",
    "load_items",
    "plan_bench",
    "report_of",
    "score",
    "write_whole",
]
