"""Test the filter that a kernel puts on itself, in a process with threads of libzmq."""

from __future__ import annotations

import platform
import subprocess
import sys
from pathlib import Path

import pytest

from rlm.sandbox.isolation.syscall_numbers import MACHINES

# Each child makes its threads anew. Without the wait, most end by SIGABRT.
_KERNELS = """
import ctypes, os, signal, sys, time
import zmq
sys.path.insert(0, sys.argv[1])
from rlm.sandbox.in_kernel.shell import post_start_seccomp
from rlm.sandbox.isolation.filters.post_start import post_start_program

post_start_seccomp._BEGIN_SECONDS = 1_000.0  # names that it does not know would take so long
assert ctypes.CDLL(None).prctl(38, 1, 0, 0, 0) == 0
program = post_start_program(1)
statuses = []
for _ in range(40):
    child = os.fork()
    if not child:
        signal.alarm(20)
        held = zmq.Context().socket(zmq.ROUTER)
        post_start_seccomp.wait_for_libzmq()
        post_start_seccomp.install(program)
        time.sleep(0.005)
        try:
            os.sched_setscheduler(0, os.SCHED_OTHER, os.sched_param(0))
        except PermissionError:
            os._exit(0)
        os._exit(1)
    statuses.append(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))
print({status: statuses.count(status) for status in statuses})
"""


@pytest.mark.skipif(
    not sys.platform.startswith("linux") or platform.machine() not in MACHINES,
    reason="filters of system calls are Linux's, on machines whose calls are known",
)
def test_libzmqs_threads_outlive_the_filter_that_forbids_what_they_begin_with() -> None:
    """Other processes can't be slowed down, and the kernel does not abort for it."""
    code = [sys.executable, "-c", _KERNELS, str(Path(__file__).parents[4])]
    done = subprocess.run(code, capture_output=True, text=True, timeout=60, check=False)
    assert (done.stdout, done.stderr) == ("{0: 40}\n", "")
