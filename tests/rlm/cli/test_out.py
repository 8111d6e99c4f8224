"""Test where `--out` writes, with which mode, and that a planted link gets nothing."""

from __future__ import annotations

import os
import stat
from pathlib import Path

import pytest

from rlm.cli.console.out import check_out, open_output, write_output
from rlm.errors import UsageError


def mode(path: Path) -> int:
    return stat.S_IMODE(path.stat().st_mode)


def test_a_private_file_is_the_owner_s_alone_even_if_it_was_not(tmp_path: Path) -> None:
    out = tmp_path / "run.jsonl"
    out.write_text("before")
    out.chmod(0o666)
    with open_output(out, private=True) as file:
        file.write(b"secret")
        assert all(mode(path) == 0o600 for path in tmp_path.iterdir() if path != out)
    assert (mode(out), out.read_bytes()) == (0o600, b"secret")
    assert list(tmp_path.iterdir()) == [out]


def test_another_file_keeps_its_mode(tmp_path: Path) -> None:
    out = tmp_path / "report.md"
    write_output("new", out)
    umask = os.umask(0o077)
    os.umask(umask)
    assert mode(out) == 0o666 & ~umask
    out.chmod(0o640)
    write_output("newer", out)
    assert (mode(out), out.read_text()) == (0o640, "newer\n")


def test_a_link_planted_beside_it_is_not_written_to(tmp_path: Path) -> None:
    """The name of the temporary file was known, and followed."""
    victim = tmp_path / "victim"
    victim.write_text("kept")
    (tmp_path / ".report.md.part").symlink_to(victim)
    write_output("text", tmp_path / "report.md")
    assert victim.read_text() == "kept"
    assert (tmp_path / ".report.md.part").is_symlink()


def test_a_failure_leaves_what_was_there(tmp_path: Path) -> None:
    out = tmp_path / "run.jsonl"
    out.write_text("before")
    with pytest.raises(ZeroDivisionError), open_output(out) as file:
        file.write(b"half")
        raise ZeroDivisionError
    assert out.read_text() == "before"
    assert list(tmp_path.iterdir()) == [out]


def test_a_link_of_the_user_s_and_a_pipe_are_written_through(tmp_path: Path) -> None:
    (tmp_path / "link").symlink_to(tmp_path / "real")
    write_output("text", tmp_path / "link")
    assert (tmp_path / "real").read_text() == "text\n"
    assert (tmp_path / "link").is_symlink()
    write_output("text", Path("/dev/null"))
    assert Path("/dev/null").is_char_device()


def test_what_can_not_be_written_is_reported_before(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="is a folder"):
        check_out(tmp_path)
    with pytest.raises(UsageError, match="cannot write"):
        check_out(tmp_path / "missing" / "file")
