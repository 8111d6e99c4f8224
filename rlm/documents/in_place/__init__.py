"""Reads a large plain file where it is, without a copy of its text."""
