"""Test what `rlm ask` does before it reads its input."""

from __future__ import annotations

from pathlib import Path

import pytest

from rlm.cli.commands.ask import takes_rounds


@pytest.fixture
def long(tmp_path: Path) -> str:
    path = tmp_path / "long.txt"
    path.write_bytes(b"long\n" * 300_000)
    return str(path)


@pytest.fixture
def short(tmp_path: Path) -> str:
    path = tmp_path / "short.txt"
    path.write_text("short")
    return str(path)


def test_a_kernel_is_expected_for_what_no_single_call_can_hold(long: str, short: str, tmp_path: Path) -> None:
    assert takes_rounds([short, long], "auto")
    assert takes_rounds([str(tmp_path)], "auto")
    assert takes_rounds([short], "rlm")


def test_no_kernel_is_expected_for_what_one_call_answers(long: str, short: str, tmp_path: Path) -> None:
    assert not takes_rounds([short], "auto")
    assert not takes_rounds([long], "direct")
    assert not takes_rounds(["-", str(tmp_path / "missing"), "a\0b"], "auto")
