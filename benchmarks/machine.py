"""Describes the machine that a benchmark ran on."""

from __future__ import annotations

import datetime
import os
import platform

__all__ = ["describe_machine"]


def describe_machine() -> dict[str, str | int | None]:
    """Return the cores, the Python, the system and today's date, for the results of a benchmark."""
    return {
        "cores": os.cpu_count(),
        "python": platform.python_version(),
        "system": platform.platform(),
        "date": datetime.datetime.now(datetime.UTC).date().isoformat(),
    }
