"""Test the consent to level 1: the terminal asks once, and the answer is stored."""

from __future__ import annotations

import io
import os

import pytest

from rlm.cli import consent
from rlm.cli.consent import allowed_level, consent_file
from rlm.sandbox.isolation.policy import Candidate
from rlm.sandbox.launch import probe
from rlm.sandbox.launch.probe import Probed


@pytest.fixture
def only_level(monkeypatch):
    """Make a machine on which no stronger level holds."""

    def set_(level: int) -> None:
        def fake_probe(candidate: Candidate) -> Probed:
            return Probed(candidate, failed={} if candidate.level == level else {"namespaces": "not here"})

        monkeypatch.setattr(probe, "_found", {})
        monkeypatch.setattr(probe, "_probe", fake_probe)

    return set_


@pytest.fixture
def terminal(monkeypatch):
    """Make a terminal whose user types this text when asked."""

    def set_(*answers: str) -> None:
        monkeypatch.setattr(consent, "_on_terminal", lambda: True)
        monkeypatch.setattr("sys.stdin", io.StringIO("".join(f"{answer}\n" for answer in answers)))

    return set_


def test_a_yes_is_stored(only_level, terminal, capsys) -> None:
    only_level(1)
    terminal("y")
    assert allowed_level("auto") == 1
    shown = capsys.readouterr().err
    assert "namespaces: not here" in shown
    assert "To get it: " in shown
    terminal()
    assert allowed_level("auto") == 1
    assert consent_file(os.environ).exists()


def test_a_no_is_not_a_yes(only_level, terminal) -> None:
    only_level(1)
    terminal("n")
    assert allowed_level("auto") == "auto"
    assert not consent_file(os.environ).exists()


def test_without_a_terminal_nothing_is_asked_or_probed(monkeypatch) -> None:
    monkeypatch.setattr(probe, "_probe", lambda _: pytest.fail("probed"))
    monkeypatch.setattr("sys.stdin", io.StringIO("y\n"))
    assert allowed_level("auto") == "auto"


def test_a_stored_yes_applies_without_a_terminal(only_level, monkeypatch) -> None:
    only_level(1)
    path = consent_file(os.environ)
    path.parent.mkdir(parents=True)
    path.write_text('{"level": 1}')
    monkeypatch.setattr("sys.stdin", io.StringIO(""))
    assert allowed_level("auto") == 1
    path.write_text("yes")
    assert allowed_level("auto") == "auto"


@pytest.mark.parametrize("level", [0, 2, 3])
def test_nobody_is_asked_where_level_1_would_not_help(only_level, terminal, level) -> None:
    only_level(level)
    terminal()
    assert allowed_level("auto") == "auto"


def test_a_named_level_and_our_own_cells_need_no_consent(monkeypatch, terminal) -> None:
    monkeypatch.setattr(probe, "_probe", lambda _: pytest.fail("probed"))
    terminal()
    assert allowed_level("1") == 1
    assert allowed_level("auto", model_written=False) == "auto"


def test_the_reported_reason_is_not_a_missing_bubblewrap(monkeypatch, terminal, capsys) -> None:
    """The reason for our own namespaces comes first, whatever was tried after them."""
    failures = {
        "own": {"namespaces": "the real reason"},
        "bubblewrap": {"bubblewrap": "not installed", "namespaces": "another"},
    }

    def fake_probe(candidate: Candidate) -> Probed:
        return Probed(candidate, failed=failures[candidate.launcher] if candidate.level > 1 else {})

    monkeypatch.setattr(probe, "_found", {})
    monkeypatch.setattr(probe, "_probe", fake_probe)
    terminal("n")
    allowed_level("auto")
    shown = capsys.readouterr().err
    assert "(namespaces: the real reason" in shown
    assert "another" not in shown
