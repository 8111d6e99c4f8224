"""Test that the help of a command imports neither jobs nor runs nor a server."""

from __future__ import annotations

import subprocess
import sys

COMMANDS = ("ask", "summarize", "research", "compare", "batch", "view", "serve", "mcp")
HEAVY = {"rlm.tasks", "rlm.runs", "rlm.driver", "aiohttp", "fastapi", "mcp"}


def test_the_help_of_a_command_is_fast() -> None:
    imports = ", ".join(f"rlm.cli.commands.{command}" for command in COMMANDS)
    code = f"import sys, {imports}; print(*sys.modules)"
    command = [sys.executable, "-c", code]
    done = subprocess.run(command, capture_output=True, text=True, check=True, timeout=60)
    assert set(done.stdout.split()) & HEAVY == set()
