"""Batches: a run for each line of a tasks file, and one line of results for each task."""
