"""Confined workers: processes that do risky work (parsing) behind a kernel's walls.

`confined_worker` is the driver's end. `template` runs confined and forks one process a job.
"""
