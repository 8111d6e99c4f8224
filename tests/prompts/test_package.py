"""Test the public names of rlm.prompts and what importing it loads."""

from __future__ import annotations

import ast
import importlib
import pkgutil
import subprocess
import sys
from pathlib import Path

import pytest

from rlm import prompts

MODULES = sorted(
    name
    for _, name, _ in pkgutil.walk_packages(prompts.__path__, "rlm.prompts.")
    if not name.startswith("rlm.prompts.segments")
)


def test_what_the_modules_export_is_found_and_nothing_else() -> None:
    for home in prompts._HOMES:
        module = importlib.import_module(f"rlm.prompts.{home}")
        assert all(getattr(prompts, name) is getattr(module, name) for name in module.__all__), home
    with pytest.raises(AttributeError, match="has no attribute 'nothing'"):
        prompts.nothing  # noqa: B018


def test_importing_prompts_loads_no_other_package_of_rlm_and_no_heavy_recipe() -> None:
    """Nor an SDK, the network, or a recipe that only jobs and the command line use."""
    code = (
        "import sys, rlm.prompts\n"
        "bad = {'anthropic', 'openai', 'rich', 'socket', 'ssl', 'asyncio'}\n"
        "others = {m for m in sys.modules if m.startswith('rlm.') and not m.startswith('rlm.prompts')}\n"
        "parts = ('segments', 'recipes.card', 'recipes.cited', 'recipes.scoped', 'recipes.tiles')\n"
        "late = {m for m in sys.modules if m.startswith(tuple(f'rlm.prompts.{p}' for p in parts))}\n"
        "print(sorted(bad & set(sys.modules) | late | others - {'rlm.version', 'rlm.escaping'}))"
    )
    run = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert run.stdout.strip() == "[]"


def test_no_module_reads_a_clock_or_draws_at_random() -> None:
    """No module imports time, randomness or the environment."""
    for path in Path(prompts.__path__[0]).rglob("*.py"):
        if "segments" in path.parts:
            continue
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            names = [alias.name for alias in node.names] if isinstance(node, ast.Import) else []
            names += [node.module or ""] if isinstance(node, ast.ImportFrom) else []
            assert not {name.partition(".")[0] for name in names} & {
                "time",
                "datetime",
                "random",
                "secrets",
                "os",
            }
