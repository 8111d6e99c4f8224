"""Test the levels of isolation in `rlm doctor`."""

from __future__ import annotations

from pathlib import Path

import pytest

from rlm.cli.commands.doctor import _levels
from rlm.sandbox.isolation import probe
from rlm.sandbox.isolation.probe import Candidate, Probed


@pytest.fixture
def refusing_machine(monkeypatch) -> None:
    """Make a machine that refuses namespaces and has no bubblewrap."""

    def fake_probe(candidate: Candidate) -> Probed:
        if candidate.level == 1:
            return Probed(candidate)
        layer = "namespaces" if candidate.launcher == "own" else "bubblewrap"
        return Probed(candidate, failed={layer: "not here"})

    monkeypatch.setattr(probe, "_found", {})
    monkeypatch.setattr(probe, "_probe", fake_probe)


def test_bubblewrap_is_not_recommended_where_it_would_not_help(refusing_machine, tmp_path) -> None:
    (tmp_path / "proc/sys/user").mkdir(parents=True)
    (tmp_path / "proc/sys/user/max_user_namespaces").write_text("0\n")
    first, second = (finding.detail for finding in _levels(tmp_path))
    assert first.startswith("level 3 does not work")
    assert "user.max_user_namespaces is 0" in first
    assert first.endswith("sudo sysctl -w user.max_user_namespaces=15000")
    assert second.startswith("level 1 works")


def test_bubblewrap_is_recommended_where_only_it_may_start(refusing_machine, tmp_path) -> None:
    for file in (
        Path("proc/sys/kernel/apparmor_restrict_unprivileged_userns"),
        Path("etc/apparmor.d/bwrap-userns-restrict"),
    ):
        (tmp_path / file.parent).mkdir(parents=True)
        (tmp_path / file).write_text("1\n")
    details = [finding.detail for finding in _levels(tmp_path)]
    (detail,) = [one for one in details if one.startswith("level 3 by bubblewrap does not work")]
    assert detail.endswith("sudo apt install bubblewrap")
