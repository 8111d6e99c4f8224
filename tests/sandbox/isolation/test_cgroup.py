"""Test where a control group may be made, over a folder that looks like cgroup v2."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from rlm.sandbox.isolation.layers import cgroup


@pytest.fixture
def cgroups(tmp_path, monkeypatch) -> Callable[..., Path]:
    """Make a hierarchy of folders with the files of cgroup v2."""

    def make(controllers: str, *groups: tuple[str, str], own: str = "/") -> Path:
        top = tmp_path / "cgroup"
        top.mkdir()
        (top / "cgroup.controllers").write_text(controllers)
        for name, delegated in groups:
            folder = top / name
            folder.mkdir(parents=True, exist_ok=True)
            (folder / "cgroup.subtree_control").write_text(delegated)
            (folder / "cgroup.procs").write_text("")
        (tmp_path / "mounts").write_text(f"30 24 0:26 / {top} rw - cgroup2 cgroup2 rw\n")
        (tmp_path / "own").write_text(f"0::{own}\n")
        monkeypatch.setattr(cgroup, "_MOUNTS", tmp_path / "mounts")
        monkeypatch.setattr(cgroup, "_MEMBERSHIP", tmp_path / "own")
        return top

    return make


def test_the_nearest_group_that_delegates_is_taken(cgroups) -> None:
    top = cgroups(
        "cpu memory pids", ("", "memory pids"), ("user", "memory pids"), ("user/app", "cpu"), own="/user/app"
    )
    (top / "user" / "app" / "cgroup.subtree_control").unlink()
    assert cgroup.place() == top / "user"


def test_a_cgroup_without_its_controllers_is_refused_in_words(cgroups) -> None:
    cgroups("hugetlb", ("", ""))
    with pytest.raises(cgroup.CgroupUnavailable, match="no memory and pids controller"):
        cgroup.place()


def test_no_cgroup_is_refused_in_words(tmp_path, monkeypatch) -> None:
    (tmp_path / "mounts").write_text("24 1 0:22 / /proc rw - proc proc rw\n")
    monkeypatch.setattr(cgroup, "_MOUNTS", tmp_path / "mounts")
    with pytest.raises(cgroup.CgroupUnavailable, match="no cgroup v2 is mounted"):
        cgroup.place()


def test_groups_of_launchers_that_were_killed_are_removed(cgroups, monkeypatch) -> None:
    """The next launcher removes a group at the latest."""
    top = cgroups("memory pids", ("", "memory pids"))
    (top / "rlm-4194305-0").mkdir()
    (top / "rlm-1-0").mkdir()
    (top / "other").mkdir()
    cgroup._sweep(top)
    assert sorted(folder.name for folder in top.iterdir() if folder.is_dir()) == ["other", "rlm-1-0"]
