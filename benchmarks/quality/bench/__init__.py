"""Benches: several ways to answer the same questions with the same model, scored, with all evidence kept."""

from __future__ import annotations

from benchmarks.quality.bench.arms import DEFAULT_ARMS, Arm, find_arm
from benchmarks.quality.bench.bench import Bench, BenchEnd
from benchmarks.quality.bench.folder import BenchFolder, Row, write_whole
from benchmarks.quality.bench.item import Item
from benchmarks.quality.bench.report import BenchReport, report_of
from benchmarks.quality.bench.scoring import score
from benchmarks.quality.bench.suites import SUITES, Suite, find_suite, load_items

__all__ = [
    "DEFAULT_ARMS",
    "SUITES",
    "Arm",
    "Bench",
    "BenchEnd",
    "BenchFolder",
    "BenchReport",
    "Item",
    "Row",
    "Suite",
    "find_arm",
    "find_suite",
    "load_items",
    "report_of",
    "score",
    "write_whole",
]
