"""Test the levels of isolation in `rlm doctor`."""

from __future__ import annotations

import asyncio
import re
from pathlib import Path

import pytest

from rlm.cli.commands import doctor_attacks
from rlm.cli.commands.doctor import _levels, _sandbox
from rlm.cli.commands.sandbox import run_cell
from rlm.sandbox.isolation.policy import Candidate
from rlm.sandbox.launch import probe
from rlm.sandbox.launch.probe import Probed
from tests.driver_processes import kernel_watchers


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


def test_the_attacks_cover_every_class_and_each_is_reported() -> None:
    """Run without confinement, most attacks succeed, and each names its class."""
    code = doctor_attacks.attacks(Path("/nonexistent"))
    names = re.findall(r'^attack\("([a-z ]+): ', code, re.MULTILINE)
    assert set(names) == set(doctor_attacks.CLASSES)
    result, _ = asyncio.run(run_cell(code, [], level=0, seconds=60.0))
    got_through = set(result.stdout.splitlines())
    assert {
        "all tried",
        "files: read /etc/passwd",
        "locks: flock",
        "network: open a network socket",
    } <= got_through
    assert not kernel_watchers(), "what an attack has traced is let go"
    assert doctor_attacks.expected(1)
    assert not doctor_attacks.expected(2)


def test_every_attack_is_blocked_at_the_level_that_is_chosen() -> None:
    """It says how many were tried, within a few seconds."""
    findings = {finding.what: finding for finding in _sandbox()}
    if "attacks" not in findings:
        pytest.skip(f"nothing is confined on this machine: {findings}")
    assert findings["attacks"].verdict == "ok", findings["attacks"].detail
    assert "21 attacks on files, processes, network" in findings["attacks"].detail
