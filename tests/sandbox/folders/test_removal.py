"""Test that the remains of a hostile process are removed, even by an ordinary user, who is bound by modes."""

from __future__ import annotations

import os
import subprocess
import sys
import threading
from pathlib import Path

import pytest

from rlm.sandbox.folders import remove, wait_at_most


def deep(folder: Path, depth: int) -> None:
    here = os.open(folder, os.O_RDONLY)
    for _ in range(depth):
        os.mkdir("d", dir_fd=here)
        below = os.open("d", os.O_RDONLY, dir_fd=here)
        os.close(here)
        here = below
    os.close(os.open("last", os.O_CREAT | os.O_WRONLY, dir_fd=here))
    os.close(here)


def test_folders_deeper_than_recursion_and_paths_go(tmp_path: Path) -> None:
    folder = tmp_path / "left"
    folder.mkdir()
    (folder / "d2").mkdir()
    (folder / "d2" / "file").write_text("x")
    deep(folder, 1_100)
    remove(folder)
    assert not folder.exists()


def test_many_files_go(tmp_path: Path) -> None:
    folder = tmp_path / "left"
    for name in ("a", "b"):
        (folder / name).mkdir(parents=True)
        for number in range(300):
            (folder / name / str(number)).touch()
    remove(folder)
    assert not folder.exists()


def test_links_are_removed_not_followed(tmp_path: Path) -> None:
    folder, other = tmp_path / "left", tmp_path / "other"
    folder.mkdir()
    other.mkdir(0o755)
    (other / "file").write_text("kept")
    (folder / "to").symlink_to(other)
    (folder / "nowhere").symlink_to("/nonexistent/at/all")
    (folder / "file").hardlink_to(other / "file")
    remove(folder)
    link = tmp_path / "link"
    link.symlink_to(other)
    remove(link)
    assert link.is_symlink()
    assert not folder.exists()
    assert (other / "file").read_text() == "kept"
    assert other.stat().st_mode & 0o777 == 0o755


@pytest.mark.timeout(20)
def test_what_cant_be_removed_stays_and_holds_up_nothing(tmp_path: Path, monkeypatch) -> None:
    """A file of another user, a folder that is a process's root, and one that may not be opened."""
    folder = tmp_path / "left"
    for name in ("busy", "closed", "free"):
        (folder / name).mkdir(parents=True)
        (folder / name / "file").touch()
    (folder / "fast").touch()
    (folder / "other").touch()

    def refusing(call, *names):
        def refuse(path, *args, **kwargs):
            if path in names:
                raise PermissionError(path)
            return call(path, *args, **kwargs)

        return refuse

    monkeypatch.setattr(os, "unlink", refusing(os.unlink, "fast"))
    monkeypatch.setattr(os, "rmdir", refusing(os.rmdir, "busy"))
    monkeypatch.setattr(os, "open", refusing(os.open, "closed"))
    remove(folder)
    assert sorted(path.relative_to(folder).as_posix() for path in folder.rglob("*")) == [
        "busy",
        "closed",
        "closed/file",
        "fast",
    ]


def test_a_long_removal_continues_elsewhere() -> None:
    begun, go_on = threading.Event(), threading.Event()

    def work() -> None:
        begun.set()
        go_on.wait(10)
        begun.clear()

    wait_at_most(0.05, work)
    assert begun.is_set()
    go_on.set()
    wait_at_most(10, begun.is_set)


def test_what_is_not_there_is_no_error(tmp_path: Path) -> None:
    remove(tmp_path / "absent")


@pytest.mark.parametrize("mode", [0, 0o100, 0o400])
def test_closed_folders_go_for_an_ordinary_user(tmp_path: Path, mode: int) -> None:
    """Root would enter them anyway, so as root a child process without privileges does it."""
    tmp_path.chmod(0o777)
    for parent in tmp_path.parents:
        if parent.stat().st_uid == os.getuid() and parent.stat().st_mode & 0o005 != 0o005:
            parent.chmod(parent.stat().st_mode | 0o005)
    code = (
        "import os, sys\n"
        "from pathlib import Path\n"
        f"sys.path.insert(0, {str(Path(__file__).parents[3])!r})\n"
        "from rlm.sandbox.folders import remove\n"
        "if os.getuid() == 0: os.setgid(65534); os.setuid(65534)\n"
        "folder = Path(sys.argv[1])\n"
        "(folder / 'closed/in/itself').mkdir(parents=True)\n"
        "(folder / 'closed/in/itself/file').touch()\n"
        f"for path in ('closed/in/itself', 'closed/in', 'closed', '.'): (folder / path).chmod({mode})\n"
        "remove(folder)\n"
        "print(folder.exists())"
    )
    done = subprocess.run(
        [sys.executable, "-c", code, str(tmp_path / "left")], capture_output=True, text=True, check=False
    )
    assert (done.stdout, done.stderr) == ("False\n", "")


def test_a_link_put_in_place_of_a_folder_changes_no_mode(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A folder becomes a link just after it was examined. Its target keeps its mode and contents."""
    victim = tmp_path / "victim"
    victim.mkdir(0o755)
    (victim / "file").write_text("kept")
    folder = tmp_path / "left"
    (folder / "below").mkdir(parents=True)

    def swap() -> None:
        (folder / "below").rmdir()
        (folder / "below").symlink_to(victim)

    swaps = [swap]
    for name in ("stat", "open", "chmod"):
        real = getattr(os, name)

        def swapping(path: object, *arguments: object, _real: object = real, **options: object) -> object:
            """Call it, then turn the folder into a link the first time that its name is used."""
            result = _real(path, *arguments, **options)  # type: ignore[operator]
            if path == "below" and swaps:
                swaps.pop()()
            return result

        monkeypatch.setattr(os, name, swapping)
    remove(folder)
    monkeypatch.undo()
    assert victim.stat().st_mode & 0o777 == 0o755
    assert (victim / "file").read_text() == "kept"
