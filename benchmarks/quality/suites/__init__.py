"""The suites: generated ones with exact golds, and loaders for the data of others."""

from __future__ import annotations

from benchmarks.quality.suites.suite import SUITES, Suite, find_suite, load_items

__all__ = ["SUITES", "Suite", "find_suite", "load_items"]
