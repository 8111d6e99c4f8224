"""Test that a kernel's report of a cell is checked."""

from __future__ import annotations

import json

import pytest

from rlm.sandbox.errors import ProtocolError
from rlm.sandbox.host.bridge import Bridge
from rlm.sandbox.types import CellReport

CHARS = 100
EMPTY_REPORT = {"read": [], "scanned": [], "changed": [], "rebound": []}


@pytest.mark.parametrize(
    "words",
    [
        json.dumps({**EMPTY_REPORT, "read": [[0, CHARS + 1]]}),
        json.dumps({**EMPTY_REPORT, "scanned": [[True, 2]]}),
        json.dumps({**EMPTY_REPORT, "changed": [["name"]]}),
        json.dumps({**EMPTY_REPORT, "changed": [["\ud800", "int", ""]]}),
        json.dumps({**EMPTY_REPORT, "stdout_chars": -1}),
        json.dumps({**EMPTY_REPORT, "changed_count": 2**70}),
        json.dumps(EMPTY_REPORT)[:-1],
        "[]",
        "{}",
        "[" * 100_000,
        '{"read": [' + "[]," * 2_000_000,
        "\ud800",
    ],
)
def test_a_report_no_honest_kernel_sends_breaks_the_bridge(handler, words) -> None:
    """It came with the result of a cell, from a hostile kernel."""
    broken: list[ProtocolError] = []
    bridge = Bridge(handler, CHARS, broken.append)
    assert bridge.read_report("") == bridge.read_report(json.dumps(EMPTY_REPORT)) == CellReport()
    assert not broken
    assert bridge.read_report(words) == CellReport()
    assert len(broken) == 1
