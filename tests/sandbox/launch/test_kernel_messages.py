"""Test that messages of a broker are checked like those of a kernel: it may be as compromised."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from rlm.sandbox.errors import KernelStartError
from rlm.sandbox.host.events import checked_event
from rlm.sandbox.host.kernel_process import KernelProcess
from rlm.sandbox.in_kernel.wire import WireError
from rlm.sandbox.isolation.probe import Candidate
from rlm.sandbox.launch.supervisor_process import PlainSupervisors
from rlm.sandbox.types import KernelLimits

RESULT: dict[str, Any] = {
    "event": "result",
    "id": 1,
    "ok": True,
    "stdout": "",
    "stderr": "",
    "result": None,
    "report": "",
    "ename": "",
    "evalue": "",
    "traceback": "",
    "seconds": 0.1,
}


@pytest.fixture
def process() -> KernelProcess:
    return KernelProcess(KernelLimits(), PlainSupervisors())


async def test_a_result_is_kept_for_whoever_waits(process) -> None:
    process._queue(RESULT)
    assert await process.event() == RESULT


@pytest.mark.parametrize(
    "change",
    [
        {"id": "1"},
        {"ok": 1},
        {"seconds": "soon"},
        {"stdout": None},
        {"result": 5},
        {"evalue": ["x"]},
        {"report": {}},
    ],
)
def test_a_result_that_is_none_breaks_the_protocol(change) -> None:
    """A hostile broker ends its own kernel only."""
    with pytest.raises(WireError):
        checked_event({**RESULT, **change}, ["result"])


def test_words_that_nobody_asked_for_do_not_pile_up(process) -> None:
    for _ in range(32):
        process._queue(RESULT)
    with pytest.raises(WireError, match="too many unread events"):
        process._queue(RESULT)


async def test_a_start_without_an_answer_is_not_waited_for(monkeypatch) -> None:
    """A stopped broker or supervisor delays a start, and does not block it for ever."""
    process = KernelProcess(KernelLimits(start_seconds=0.2), PlainSupervisors())

    async def silent() -> dict[str, Any]:
        await asyncio.Event().wait()
        raise AssertionError

    monkeypatch.setattr(process, "event", silent)
    with pytest.raises(KernelStartError, match=r"no answer in 0\.2 s"):
        await process.start(Candidate(0, "own"))
