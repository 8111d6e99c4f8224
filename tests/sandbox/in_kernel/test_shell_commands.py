"""Test `!` lines and `exit()` in a real kernel."""

from __future__ import annotations


async def test_a_shell_command_prints_what_it_prints(open_kernel) -> None:
    """There is no terminal in the sandbox, so the output comes through a pipe."""
    kernel = await open_kernel()
    result = await kernel.execute("x = 'héllo'\n!echo {x}; exit 3", round=1, timeout=20.0)
    assert (result.status, result.stdout) == ("ok", "héllo\n(exit code 3)\n")
    large = await kernel.execute("!yes | head -c 30000000", round=2, timeout=20.0)
    assert (large.status, large.stdout_chars) == ("ok", 30_000_000)
    assert len(large.stdout) < 2_000_000
    background = await kernel.execute("!sleep 5 &", round=3, timeout=20.0)
    assert "cannot start a process in the background" in background.evalue


async def test_a_shell_command_can_be_interrupted(open_kernel) -> None:
    kernel = await open_kernel()
    result = await kernel.execute("!sleep 30", round=1, timeout=1.0)
    assert result.status == "timeout"
    assert (await kernel.execute("1 + 1", round=2, timeout=20.0)).result == "2"


async def test_exit_says_that_it_does_nothing_and_does_nothing(open_kernel) -> None:
    """The kernel does not end behind the next block's back."""
    kernel = await open_kernel()
    result = await kernel.execute("x = 1\nexit()\nquit()", round=1, timeout=20.0)
    assert result.stdout.count("exit() has no effect: the kernel and its variables stay.") == 2
    bare = await kernel.execute("quit", round=4, timeout=20.0)
    assert "exit() has no effect" in bare.stdout
    later = await kernel.execute("import time; time.sleep(0.5); x", round=2, timeout=20.0)
    assert (later.status, later.result) == ("ok", "1")
    left = await kernel.execute("import sys\nsys.exit(3)", round=3, timeout=20.0)
    assert (left.status, left.ename, left.stderr) == ("error", "SystemExit", "")


async def test_every_changed_variable_is_counted(open_kernel) -> None:
    kernel = await open_kernel()
    code = "globals().update({f'v{n}': n for n in range(100_000)})"
    report = (await kernel.execute(code, round=1, timeout=60.0)).report
    assert (len(report.changed), report.changed_count) == (500, 100_000)
