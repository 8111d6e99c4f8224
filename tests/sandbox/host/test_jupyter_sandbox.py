"""Test a real kernel: what one cell leaves for the next, and how cells that misbehave end."""

from __future__ import annotations

import asyncio
import os
import time

import pytest

from rlm.sandbox.errors import KernelDied
from rlm.sandbox.host.compute_clock import waiting
from rlm.sandbox.types import KernelLimits, VariableInfo


async def run(kernel, code, *, round=1, timeout=20.0):
    return await kernel.execute(code, round=round, timeout=timeout)


async def test_a_cell_that_raises_keeps_what_it_had_assigned(open_kernel) -> None:
    """A paid batch must not be lost to a typo."""
    kernel = await open_kernel()
    failed = await run(kernel, "paid = [1, 2, 3]\nresult = undefined_name")
    assert (failed.status, failed.ename) == ("error", "NameError")
    assert [variable.name for variable in failed.report.changed] == ["paid"]
    assert (await run(kernel, "len(paid)", round=2)).result == "3"


async def test_a_failing_cell_costs_no_second_traceback(open_kernel) -> None:
    """IPython would write a coloured one for its history: 30 ms of the first cell that fails or finalizes."""
    kernel = await open_kernel()
    await run(kernel, "import sys\nbefore = set(sys.modules)\n1 / 0")
    result = await run(kernel, "sorted({name.split('.')[0] for name in set(sys.modules) - before})", round=2)
    assert result.result == "[]"


async def test_a_traceback_holds_the_cells_own_frames_only(open_kernel) -> None:
    """The traceback is cut to the model's own frames."""
    kernel = await open_kernel()
    result = await run(kernel, "def inner():\n    return peek(0, 10, unit='words')\ninner()")
    assert result.ename == "ValueError"
    assert "in inner" in result.traceback
    assert "handle.py" not in result.traceback
    assert "IPython" not in result.traceback
    syntax = await run(kernel, "for x in\n", round=2)
    assert syntax.status == "error"
    assert syntax.ename == "SyntaxError"
    assert "for x in" in syntax.traceback


async def test_what_utf8_cannot_carry_is_replaced(open_kernel) -> None:
    """Any JSON may hold a lone surrogate. A message that could not be sent would be waited for until the
    deadline.
    """
    kernel = await open_kernel()
    for code, where, expected in (
        ("print('a\\ud800b')", "stdout", "a?b\n"),
        ("import sys; n = sys.stderr.write('a\\ud800b')", "stderr", "a?b"),
        ("raise ValueError('a\\ud800b')", "evalue", "a?b"),
        ("raise ValueError('a\\ud800b')", "traceback", "ValueError: a?b"),
        ("class A:\n    __repr__ = lambda self: 'a\\ud800b'\nA()", "result", "a?b"),
    ):
        assert expected in getattr(await run(kernel, code, timeout=5.0), where)
    assert (await run(kernel, "1 + 1", round=2)).result == "2"


async def test_a_block_that_utf8_cannot_carry_is_a_syntax_error(open_kernel) -> None:
    """A model's reply may hold half a character, which Python text may not."""
    kernel = await open_kernel()
    result = await run(kernel, "x = '\ud83d'", timeout=5.0)
    assert (result.status, result.ename) == ("error", "SyntaxError")
    assert "\\ud83d" in result.evalue
    assert (await run(kernel, "1 + 1", round=2)).result == "2"


async def test_top_level_await_works(open_kernel) -> None:
    kernel = await open_kernel()
    assert (await run(kernel, "import asyncio\nawait asyncio.sleep(0.01)\n'done'")).result == "'done'"


async def test_new_and_changed_variables_are_reported_in_words(open_kernel) -> None:
    """Name, type and size are shown, but no modules, functions or loop scalars. The types are ones that a
    model knows.
    """
    kernel = await open_kernel()
    result = await run(
        kernel,
        "import re\ndef f(): pass\nnames = ['a', 'b']\ntext = 'xyz'\n"
        "for i in range(3):\n    last = i\n"
        "answers = sub_query_batch('q', [(0, 3), (4, 7)])\nhits = search('t')",
    )
    assert set(result.report.changed) == {
        VariableInfo("names", "list", "2 items"),
        VariableInfo("text", "str", "3 chars"),
        VariableInfo("answers", "list", "2 answers"),
        VariableInfo("hits", "list", "2 hits"),
    }
    again = await run(kernel, "names.append('c')", round=2)
    assert again.report.changed == (VariableInfo("names", "list", "3 items"),)
    assert (await run(kernel, "1 + 1", round=3)).report.changed == ()


async def test_a_rebound_helper_is_reported_and_still_reachable(open_kernel) -> None:
    """A cell may rebind a helper's name. helpers.NAME always reaches it."""
    kernel = await open_kernel()
    result = await run(kernel, "chunk = 5")
    assert result.report.rebound == ("chunk",)
    assert (await run(kernel, "len(helpers.chunk(5))", round=2)).result == "3"


@pytest.mark.parametrize("gone", ["del chunk, helpers", "chunk = helpers = None", "%reset -f"])
async def test_helpers_that_were_taken_away_are_back_in_the_next_cell(open_kernel, gone) -> None:
    """helpers.NAME always reaches the helper, whatever a cell did to the names."""
    kernel = await open_kernel()
    await run(kernel, gone)
    assert (await run(kernel, "len(helpers.chunk(5))", round=2)).result == "3"
    assert (await run(kernel, "chunk is None or len(chunk(5))", round=3)).result in ("3", "True")


async def test_only_user_variables_are_shown(open_kernel) -> None:
    """SHOW_VARS shows user variables and their types, and none of ours."""
    kernel = await open_kernel()
    await run(kernel, "repl_set('kept', [1]); count_of = 2")
    assert (
        await run(kernel, "SHOW_VARS()", round=2)
    ).result == "{'kept': 'list: 1 items', 'count_of': 'int'}"
    assert (await run(kernel, "repl_get('kept'), repl_get('none', 0)", round=3)).result == "([1], 0)"


async def test_there_is_no_context_variable(open_kernel) -> None:
    kernel = await open_kernel()
    for name in ("context", "ctx"):
        assert (await run(kernel, name)).ename == "NameError"


@pytest.mark.parametrize(
    "code", ["for i in range(10_000): print('x' * 99_999)", "print('x' * 999_999_999)"], ids=["lines", "one"]
)
async def test_printing_a_gigabyte_costs_neither_memory_nor_minutes(open_kernel, code) -> None:
    """The output is bounded at the source, with head and tail."""
    kernel = await open_kernel()
    result = await run(kernel, f"{code}\nprint('the end')")
    assert result.status == "ok"
    assert result.stdout_chars == 1_000_000_008
    assert len(result.stdout) < 1_010_000
    assert result.truncated
    assert result.stdout.endswith("the end\n")
    assert "characters not kept" in result.stdout
    assert result.seconds < 10


async def test_what_is_displayed_is_the_result_in_order(open_kernel) -> None:
    """`display` and the last expression. A screen that is updated or cleared does not exist."""
    kernel = await open_kernel()
    code = (
        "from IPython.display import clear_output, display, update_display\n"
        "display([1]); display('two'); clear_output()\n"
        "display({'text/plain': 'raw \\ud800', 'image/png': 'x'}, raw=True)\n"
        "update_display(3, display_id='none')\n4"
    )
    assert (await run(kernel, code)).result == "[1]\n'two'\nraw ?\n4"
    many = await run(kernel, "for i in range(1_000): display('x' * 30_000)", round=2)
    assert 15_000 < len(many.result or "") < 21_000
    assert (await run(kernel, "pass", round=3)).result is None


@pytest.mark.parametrize(
    "left", ["object()", "None", "open('f', 'w')", "type('S', (), {'flush': lambda s: 1 / 0})()"]
)
async def test_what_a_cell_leaves_as_stdout_loses_no_reply(open_kernel, left) -> None:
    """ipykernel flushes the streams before it replies."""
    kernel = await open_kernel()
    assert (await run(kernel, f"import sys; print(1); sys.stdout = sys.stderr = {left}")).stdout == "1\n"
    assert (await run(kernel, "sys.stdout.close(); sys.stdout = sys.__stdout__", round=2)).status == "ok"
    assert (await run(kernel, "2", round=3)).result == "2"


async def test_a_name_that_utf8_cannot_carry_is_reported(open_kernel) -> None:
    """It ended the kernel."""
    kernel = await open_kernel()
    result = await run(kernel, "globals()['\\ud800'] = 1")
    assert (result.status, result.report.changed) == ("ok", (VariableInfo("?", "int", ""),))


async def test_what_a_thread_prints_belongs_to_the_cell_that_runs(open_kernel) -> None:
    kernel = await open_kernel()
    code = (
        "import threading, time\n"
        "def tell():\n    time.sleep(0.2)\n    print('late', flush=True)\n    told.set()\n"
        "told = threading.Event(); thread = threading.Thread(target=tell); thread.start()"
    )
    assert (await run(kernel, code)).stdout == ""
    assert (await run(kernel, "told.wait(20); print('on')", round=2)).stdout == "late\non\n"


async def test_an_earlier_rounds_output_is_available_whole(open_kernel) -> None:
    kernel = await open_kernel()
    await run(kernel, "print('y' * 100_000)", round=4)
    assert (await run(kernel, "len(output_of(4))", round=6)).result == "100001"
    missing = await run(kernel, "output_of(5)", round=7)
    assert missing.ename == "ValueError"
    assert "4, 6" in missing.evalue


async def test_a_cell_over_its_time_is_interrupted_and_variables_stay(open_kernel) -> None:
    kernel = await open_kernel()
    await run(kernel, "kept = 1")
    began = time.monotonic()
    for code in (
        "while True: pass",
        "import time; time.sleep(60)",
        "import asyncio; await asyncio.sleep(60)",
    ):
        result = await run(kernel, code, timeout=0.3)
        assert result.status == "timeout"
        assert kernel.alive
    assert time.monotonic() - began < 9
    assert (await run(kernel, "kept", round=2)).result == "1"


async def test_a_cell_that_will_not_stop_is_killed(open_kernel) -> None:
    """SIGKILL follows after a grace period. The next cell needs a new kernel."""
    kernel = await open_kernel()
    began = time.monotonic()
    result = await run(
        kernel, "import signal; signal.signal(2, signal.SIG_IGN)\nwhile True: pass", timeout=0.3
    )
    assert result.status == "timeout"
    assert time.monotonic() - began < 0.3 + 2.0 + 1.0
    assert not kernel.alive
    with pytest.raises(KernelDied):
        await run(kernel, "1")


async def test_waiting_for_children_does_not_count_as_computing(open_kernel, handler) -> None:

    async def slow() -> None:
        with waiting():
            await asyncio.sleep(1.2)

    handler.before_answer = slow
    kernel = await open_kernel()
    result = await run(kernel, "answer = sub_query('q', (0, 3))\nprint(answer)", timeout=0.6)
    assert (result.status, result.stdout) == ("ok", "q 0\n")


async def test_nothing_pauses_the_deadline_of_a_cell(open_kernel, handler) -> None:
    """Not even children that never answer. The variables are kept."""

    async def never() -> None:
        with waiting():
            await asyncio.Event().wait()

    handler.before_answer = never
    kernel = await open_kernel()
    began = time.monotonic()
    code = "x = 1\nsub_query('q', (0, 3))"
    result = await kernel.execute(code, round=1, timeout=60.0, deadline=0.5)
    assert (result.status, result.ename) == ("timeout", "KeyboardInterrupt")
    assert time.monotonic() - began < 0.5 + 2.0 + 1.0
    assert (await run(kernel, "print(x)")).stdout == "1\n"


async def test_a_kernel_that_is_killed_says_so(open_kernel) -> None:
    kernel = await open_kernel()
    result = await run(kernel, "import os; os.kill(os.getpid(), 9)")
    assert (result.status, result.ename) == ("died", "KernelDied")
    assert "it was killed" in result.evalue
    assert not kernel.alive


async def test_out_of_memory_is_a_failed_cell(open_kernel) -> None:
    """The cell fails, or the kernel dies with a clear reason."""
    kernel = await open_kernel(limits=KernelLimits(memory_mb=512))
    result = await run(kernel, "x = bytearray(2 * 2**30)")
    assert (result.status, result.ename) == ("error", "MemoryError")
    assert (await run(kernel, "1 + 1", round=2)).result == "2"


async def test_nothing_is_left_when_it_closes(open_kernel, short_folder, monkeypatch) -> None:
    """No process and no file is left."""
    place = short_folder
    monkeypatch.setattr("tempfile.tempdir", str(place))
    kernel = await open_kernel()
    await run(kernel, "import subprocess\nsubprocess.Popen(['sleep', '4711.5'], start_new_session=True)")
    assert list(place.iterdir())
    await kernel.close()
    assert list(place.iterdir()) == []
    if kernel.isolation.level >= 2:
        assert not any(b"4711.5" in command for command in commands())


def commands() -> list[bytes]:
    found = []
    for pid in filter(str.isdigit, os.listdir("/proc")):
        try:
            with open(f"/proc/{pid}/cmdline", "rb") as file:
                found.append(file.read())
        except OSError:
            continue
    return found


async def test_the_driver_opens_no_zmq_socket() -> None:
    """Nor does it import jupyter_client: the watcher packs and checks Jupyter's messages."""
    import subprocess
    import sys

    code = (
        "import sys, rlm.sandbox.host.jupyter_sandbox; "
        "print([m for m in ('zmq', 'jupyter_client') if m in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"


async def test_chance_and_the_order_of_sets_come_from_the_seed(open_kernel) -> None:
    """The seed of the PRNG comes from run and depth. PYTHONHASHSEED is fixed."""
    code = "import random\nprint(random.random(), random.sample(range(99), 5), hash('a text'), {*'abcdefgh'})"
    drawn = []
    for seed in ("run:0", "run:0", "run:1"):
        kernel = await open_kernel(seed=seed)
        drawn.append((await run(kernel, code)).stdout)
    assert drawn[0] == drawn[1]
    assert drawn[0].split()[0] != drawn[2].split()[0]
    assert drawn[0].split()[6:] == drawn[2].split()[6:]


async def test_who_is_cancelled_while_it_closes_leaves_no_kernel(open_kernel) -> None:
    """The kernel ends even if the caller of `close` is cancelled."""
    kernel = await open_kernel()
    process = kernel._kernel
    closing = asyncio.ensure_future(kernel.close())
    await asyncio.sleep(0)
    closing.cancel()
    with pytest.raises(asyncio.CancelledError):
        await closing
    async with asyncio.timeout(10):
        await asyncio.gather(*asyncio.all_tasks() - {asyncio.current_task()})
    assert not process.alive
