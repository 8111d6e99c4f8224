"""`python tools/trace_syscalls.py` prints the system calls of a kernel, and which the filter refuses.

It runs representative cells at level 0 under strace. The lists in `seccomp_filters.py` were reviewed against
its output. numpy and pandas are traced if they are installed.
"""

from __future__ import annotations

import asyncio
import collections
import re
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

from seccomp_filters import KERNEL_RULES

from rlm.sandbox.context.writer import ContextFileWriter
from rlm.sandbox.host.jupyter_sandbox import JupyterSandbox
from rlm.sandbox.host.kernel_process import FreshKernels
from rlm.sandbox.launch.forkserver import Forkserver

CELLS = (
    "import json, re, csv, gzip, zipfile, decimal, datetime, statistics, uuid, secrets; print(search('one'))",
    "import sqlite3; db = sqlite3.connect(':memory:'); db.execute('create table t(a)'); db.close()",
    "import sqlite3; db = sqlite3.connect('file:x.db?nolock=1', uri=True); db.execute('create table t(a)')",
    "import threading; one = threading.Thread(target=print); one.start(); one.join()",
    "from concurrent.futures import ThreadPoolExecutor; print(*ThreadPoolExecutor(4).map(abs, [1, 2]))",
    "import subprocess; print(subprocess.run('ls -l | sort; date; cp /bin/true t; ./t', shell=True))",
    "import asyncio; one = await asyncio.create_subprocess_exec('true'); await one.wait()",
    "import os; child = os.fork() or os._exit(0); os.waitpid(child, 0)",
    "import multiprocessing as m; one = m.get_context('fork').Process(target=print); one.start(); one.join()",
    "import shutil, tempfile; open('a', 'w').close(); shutil.copy2('a', 'b'); tempfile.TemporaryFile()",
    "import mmap, signal, select, time; mmap.mmap(-1, 4096, 34); signal.alarm(0); time.sleep(0.01); 1 / 0",
    "import numpy; print(numpy.linalg.svd(numpy.ones((99, 99)))[1].sum()); numpy.save('n', numpy.ones(9))",
    "import pandas; frame = pandas.DataFrame({'a': [1, 2]}); frame.to_csv('c'); pandas.read_csv('c')",
)


async def run_cells() -> None:
    """Run every cell in one kernel that is started as a program, without any confinement."""
    with tempfile.TemporaryDirectory() as folder:
        with ContextFileWriter(Path(folder) / "context") as writer:
            writer.begin_document("text")
            writer.write("one\ntwo\n")
            writer.end_document()
            context = writer.finish()
        kernels = FreshKernels(level=0, minimum=0, forkserver=Forkserver("program"))
        kernel = JupyterSandbox(context, None, kernels=kernels)  # type: ignore[arg-type]
        await kernel.open()
        for number, cell in enumerate(CELLS):
            result = await kernel.execute(cell, round=number, timeout=120.0)
            print(f"{result.status:<6} {cell[:80]}  {result.ename}", flush=True)
        await kernel.close()


def calls_of_kernels(trace: Path) -> collections.Counter[str]:
    """Count the calls of each process that executed `launch.py`, and of all that it started."""
    parents: dict[str, str] = {}
    kernels: set[str] = set()
    calls: dict[str, collections.Counter[str]] = collections.defaultdict(collections.Counter)
    for line in trace.read_text(errors="replace").splitlines():
        pid, _, rest = line.partition(" ")
        rest = rest.strip()
        if found := re.match(r"(?:<\.\.\. )?(\w+)(?:\(| resumed)", rest):
            name = found[1]
            calls[pid][name] += not rest.startswith("<...")
            if name in ("clone", "clone3", "fork", "vfork") and (child := re.search(r"= (\d+)$", rest)):
                parents[child[1]] = pid
            # The launcher's own arguments name launch.py, too.
            if re.match(r'execve\("[^"]*", \["[^"]*", "-s", "-P"', rest):
                kernels.add(pid)
    total: collections.Counter[str] = collections.Counter()
    for pid, counted in calls.items():
        if kernels & set(_line(pid, parents)):
            total += counted
    return total


def _line(pid: str, parents: dict[str, str]) -> Iterator[str]:
    while pid:
        yield pid
        pid = parents.get(pid, "")


def main() -> int:
    if sys.argv[1:] == ["cells"]:
        asyncio.run(run_cells())
        return 0
    strace = shutil.which("strace")
    if strace is None:
        sys.exit("strace is not installed: sudo apt install strace")
    with tempfile.TemporaryDirectory() as folder:
        trace = Path(folder, "trace")
        # Long enough for the arguments of the kernel's own program.
        command = [strace, "-f", "-qq", "-s", "300", "-o", str(trace), sys.executable, __file__, "cells"]
        subprocess.run(command, check=True)
        calls = calls_of_kernels(trace)
    for name, count in calls.most_common():
        # strace calls these by their older names.
        known = {"umount2": "umount2", "pread": "pread64", "pwrite": "pwrite64"}.get(name, name)
        rule = KERNEL_RULES.get(known)
        judged = "not in the list" if rule is None else "by argument" if rule.conditions else "allowed"
        print(f"{count:>9,}  {name:<24} {judged}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
