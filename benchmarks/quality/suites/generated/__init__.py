"""Suites that are generated from a seed, at any length, with exact golds."""
