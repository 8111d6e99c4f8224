"""Suites of others, read from files that the user has."""
