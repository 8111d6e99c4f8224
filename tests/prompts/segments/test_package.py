"""Test the public names of rlm.prompts.segments."""

from __future__ import annotations

import importlib
import pkgutil
import subprocess
import sys

import pytest

from rlm.prompts import segments

MODULES = sorted(name for _, name, _ in pkgutil.walk_packages(segments.__path__, "rlm.prompts.segments."))


def test_everything_that_is_named_is_there() -> None:
    for home in ("segment", "store", "exchange"):
        module = importlib.import_module(f"rlm.prompts.segments.{home}")
        assert all(getattr(segments, name) is getattr(module, name) for name in module.__all__)
    with pytest.raises(AttributeError, match="has no attribute 'nothing'"):
        segments.nothing  # noqa: B018


def test_a_database_is_loaded_by_nothing_but_the_store() -> None:
    code = (
        "import sys, rlm.prompts\nfrom rlm.prompts import ScopedPrompt, ScopedInput\n"
        "from rlm.prompts.segments import MemoryAdapter, Segment\n"
        "ScopedPrompt(MemoryAdapter([Segment('c', 'core', 'x')])).assemble(ScopedInput('e', 'w'))\n"
        "print(sorted({'sqlite3', 'psycopg'} & set(sys.modules)))\n"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout == "[]\n"
