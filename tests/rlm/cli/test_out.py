"""Test where `--out` writes, with which mode, and that a planted link gets nothing."""

from __future__ import annotations

import os
import stat
from pathlib import Path

import pytest

from rlm.cli.console.out import check_out, open_output, write_output
from rlm.errors import ConfigurationError, JournalError, UsageError
from rlm.journal import Journal
from rlm.trace import TraceFile


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "folder").mkdir()
    return tmp_path / "folder"


def mode(path: Path) -> int:
    return stat.S_IMODE(path.stat().st_mode)


def test_a_private_file_is_the_owner_s_alone_even_if_it_was_not(folder: Path) -> None:
    out = folder / "run.jsonl"
    out.write_text("before")
    out.chmod(0o666)
    with open_output(out, private=True) as file:
        file.write(b"secret")
        assert all(mode(path) == 0o600 for path in folder.iterdir() if path != out)
    assert (mode(out), out.read_bytes()) == (0o600, b"secret")
    assert list(folder.iterdir()) == [out]


def test_another_file_keeps_its_mode(folder: Path) -> None:
    out = folder / "report.md"
    write_output("new", out)
    umask = os.umask(0o077)
    os.umask(umask)
    assert mode(out) == 0o666 & ~umask
    out.chmod(0o640)
    write_output("newer", out)
    assert (mode(out), out.read_text()) == (0o640, "newer\n")


def test_a_link_planted_beside_it_is_not_written_to(folder: Path) -> None:
    """The name of the temporary file was known, and followed."""
    victim = folder / "victim"
    victim.write_text("kept")
    (folder / ".report.md.part").symlink_to(victim)
    write_output("text", folder / "report.md")
    assert victim.read_text() == "kept"
    assert (folder / ".report.md.part").is_symlink()


def test_a_failure_leaves_what_was_there(folder: Path) -> None:
    out = folder / "run.jsonl"
    out.write_text("before")
    with pytest.raises(TypeError), open_output(out) as file:
        file.writelines([b"half", "of it"])  # type: ignore[list-item]
    assert out.read_text() == "before"
    assert list(folder.iterdir()) == [out]


def test_a_link_of_the_user_s_and_a_pipe_are_written_through(folder: Path) -> None:
    (folder / "link").symlink_to(folder / "real")
    write_output("text", folder / "link")
    assert (folder / "real").read_text() == "text\n"
    assert (folder / "link").is_symlink()
    write_output("text", Path("/dev/null"))
    assert Path("/dev/null").is_char_device()


def test_what_can_not_be_written_is_reported_before(folder: Path) -> None:
    with pytest.raises(UsageError, match="is a folder"):
        check_out(folder)
    with pytest.raises(UsageError, match="cannot write"):
        check_out(folder / "missing" / "file")


def test_a_link_out_of_its_folder_is_refused(tmp_path: Path) -> None:
    """Whoever made the folder may have planted it. A link within the folder is the user's own."""
    folder, victim = tmp_path / "clone", tmp_path / "bashrc"
    folder.mkdir()
    victim.write_text("mine")
    (folder / "out").symlink_to(victim)
    (folder / "dangling").symlink_to(tmp_path / "new")
    (folder / "real").write_text("x")
    (folder / "inside").symlink_to("real")
    for name in ("out", "dangling"):
        with pytest.raises(UsageError, match="is a link to"):
            check_out(folder / name)
        with pytest.raises(ConfigurationError, match="is a link to"):
            TraceFile(folder / name)
    assert check_out(folder / "inside") == folder / "inside"
    assert victim.read_text() == "mine"
    assert not (tmp_path / "new").exists()


async def test_a_store_is_not_made_through_a_dangling_link(tmp_path: Path) -> None:
    (tmp_path / "rlm.db").symlink_to(tmp_path / "elsewhere.db")
    with pytest.raises(JournalError, match="does not exist"):
        async with Journal.open(tmp_path / "rlm.db"):
            pass
    assert not (tmp_path / "elsewhere.db").exists()
