"""Test the report of a missing layer: the decisive reason, and one command that would help."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path

import pytest

from rlm.sandbox.isolation.advice import CONTAINER_FLAGS, advice, explain_missing, refusal
from rlm.sandbox.isolation.policy import read_report

NO_BUBBLEWRAP = {"bubblewrap": "bubblewrap is not installed (bwrap)"}
NO_NAMESPACES = {"namespaces": "[Errno 1] clone: Operation not permitted"}
NO_ROOT = {"root": "[Errno 13] mount on /: Permission denied"}
NO_LANDLOCK = {"landlock": "not built in"}
NO_GROUP = {"cgroup": "none may be written to"}
APPARMOR = "proc/sys/kernel/apparmor_restrict_unprivileged_userns"
PROFILE = "etc/apparmor.d/bwrap-userns-restrict"
SYSCTL = (
    "sudo sysctl -w kernel.apparmor_restrict_unprivileged_userns=0 (for all programs, until the next boot)"
)
LOADED = (
    "sudo apt install bubblewrap apparmor-profiles && "
    "sudo cp /usr/share/apparmor/extra-profiles/bwrap-userns-restrict /etc/apparmor.d/ && "
    "sudo apparmor_parser -r /etc/apparmor.d/bwrap-userns-restrict"
)
SETTINGS = [
    ("proc/sys/user/max_user_namespaces", "0", "sudo sysctl -w user.max_user_namespaces=15000"),
    ("proc/sys/kernel/unprivileged_userns_clone", "0", "sudo sysctl -w kernel.unprivileged_userns_clone=1"),
    (APPARMOR, "1", f"{LOADED}; or {SYSCTL}"),  # Ubuntu 24.04 ships the profile, and does not load it
]


def put(machine: Path, files: Mapping[str, str]) -> None:
    """Write files of a machine, by their paths below its root."""
    for name, text in files.items():
        (machine / name).parent.mkdir(parents=True, exist_ok=True)
        (machine / name).write_text(f"{text}\n")


@pytest.mark.parametrize(("setting", "value", "command"), SETTINGS)
def test_advice_is_one_command(tmp_path, setting, value, command) -> None:
    """It names the missing layer and the one command that would help."""
    put(tmp_path, {setting: value})
    assert advice(NO_NAMESPACES, machine=tmp_path) == command
    assert advice(NO_ROOT, machine=tmp_path) == command


def test_a_setting_that_lets_them_is_not_blamed(tmp_path) -> None:
    for setting, value, _ in SETTINGS:
        put(tmp_path, {setting: "1" if value == "0" else "0"})
    assert explain_missing(NO_NAMESPACES, machine=tmp_path) == NO_NAMESPACES
    assert "sysctl" not in advice(NO_NAMESPACES, machine=tmp_path)
    put(tmp_path, {"run/.containerenv": ""})
    assert advice(NO_NAMESPACES, machine=tmp_path).startswith("start the container with --security-opt")


@pytest.mark.parametrize("mark", [".dockerenv", "run/.containerenv", "var/run/secrets/kubernetes.io/token"])
def test_in_a_container_the_flags_are_named_that_its_start_needs(tmp_path, mark) -> None:
    put(tmp_path, {mark: ""})
    assert advice(NO_ROOT, machine=tmp_path) == f"start the container with {CONTAINER_FLAGS}"
    # A kernel's parameter is not the container's to set, nor can it change a setting of its host.
    assert "--memory" in advice({"cgroup": "no cgroup v2 is mounted"}, machine=tmp_path)
    setting, value, command = SETTINGS[0]
    put(tmp_path, {setting: value})
    assert advice(NO_NAMESPACES, machine=tmp_path) == f"on the host of the container: {command}"


def test_a_refusal_does_not_ask_for_what_was_not_asked(tmp_path) -> None:
    missing = NO_GROUP | NO_LANDLOCK
    assert "cgroup" not in refusal("auto", missing, machine=tmp_path)
    assert "lsm=landlock" in refusal("auto", missing, machine=tmp_path)
    assert "cgroup" in refusal(3, missing, machine=tmp_path)


@pytest.mark.parametrize("missing", [NO_BUBBLEWRAP | NO_NAMESPACES, NO_NAMESPACES | NO_BUBBLEWRAP])
@pytest.mark.parametrize(("setting", "value", "command"), SETTINGS)
def test_bubblewrap_does_not_hide_why_namespaces_are_refused(
    tmp_path, missing, setting, value, command
) -> None:
    """Bubblewrap would be refused them as well, so the advice names the machine's setting and how to
    change it.
    """
    put(tmp_path, {setting: value})
    message = refusal("auto", missing, machine=tmp_path)
    name = setting.removeprefix("proc/sys/").replace("/", ".")
    reason = f"{NO_NAMESPACES['namespaces']}; {name} is {value}"
    assert f"this machine gives no namespaces ({reason}). To get it: {command}. Or" in message
    assert "bubblewrap is not installed" not in message


@pytest.mark.parametrize("files", [{}, {".dockerenv": ""}], ids=["nothing is known", "a container"])
@pytest.mark.parametrize(
    "refused", [NO_NAMESPACES, NO_ROOT, NO_LANDLOCK, {"probe": "TimeoutExpired: 10 s"}], ids=list
)
def test_bubblewrap_is_not_advised_where_it_would_not_help(tmp_path, refused, files) -> None:
    """A container refuses both, and neither provides Landlock."""
    put(tmp_path, files)
    assert "bubblewrap" not in refusal("auto", NO_GROUP | NO_BUBBLEWRAP | refused, machine=tmp_path)
    assert "bubblewrap" not in refusal(3, NO_GROUP | NO_BUBBLEWRAP | refused, machine=tmp_path)


@pytest.mark.parametrize("refused", [NO_NAMESPACES, NO_ROOT], ids=list)
def test_bubblewrap_is_advised_where_only_it_may(tmp_path, refused) -> None:
    """AppArmor has a profile that lets bubblewrap alone make namespaces, and that setting stays."""
    put(tmp_path, {APPARMOR: "1", PROFILE: "profile bwrap /usr/bin/bwrap"})
    message = refusal("auto", NO_BUBBLEWRAP | refused, machine=tmp_path)
    assert "To get it: sudo apt install bubblewrap. Or" in message
    assert f"{next(iter(refused.values()))}; kernel.apparmor_restrict_unprivileged_userns is 1" in message
    assert "bubblewrap is not installed" in message
    # A level that is named by its number is not probed, so a missing bubblewrap is not known.
    assert "To get it: sudo apt install bubblewrap. Or" in refusal(2, refused, machine=tmp_path)


def test_bubblewrap_is_not_advised_where_it_is_or_something_else_refuses(tmp_path) -> None:
    put(tmp_path, {APPARMOR: "1", PROFILE: "profile bwrap /usr/bin/bwrap"})
    assert "bubblewrap" not in refusal("auto", NO_BUBBLEWRAP | NO_LANDLOCK, machine=tmp_path)
    put(tmp_path, {"usr/bin/bwrap": ""})
    assert f"To get it: {SYSCTL}. Or" in refusal("auto", NO_NAMESPACES, machine=tmp_path)
    (tmp_path / "usr/bin/bwrap").unlink()
    put(tmp_path, {"proc/sys/user/max_user_namespaces": "0"})
    message = refusal("auto", NO_BUBBLEWRAP | NO_NAMESPACES, machine=tmp_path)
    assert "sudo sysctl -w user.max_user_namespaces=15000" in message
    assert "bubblewrap" not in message


def test_a_reason_is_completed_once(tmp_path) -> None:
    put(tmp_path, {"proc/sys/user/max_user_namespaces": "0"})
    once = explain_missing(NO_NAMESPACES, machine=tmp_path)
    assert explain_missing(once, machine=tmp_path) == once != NO_NAMESPACES


def test_the_most_important_layer_is_advised_first(tmp_path) -> None:
    put(tmp_path, {"proc/sys/user/max_user_namespaces": "0"})
    everything = NO_BUBBLEWRAP | NO_GROUP | NO_LANDLOCK | NO_NAMESPACES
    assert "sysctl" in advice(everything, machine=tmp_path)
    del everything["namespaces"]
    assert "lsm=landlock" in advice(everything, machine=tmp_path)
    del everything["landlock"]
    assert "systemd-run" in advice(everything, machine=tmp_path)


def test_a_refusal_always_names_a_reason(tmp_path) -> None:
    """Also where bubblewrap is all that was tried, and would not help."""
    assert "gives no bubblewrap (bubblewrap is not installed" in refusal(2, NO_BUBBLEWRAP, machine=tmp_path)


def test_layers_that_were_not_tried_are_named() -> None:
    """Where the first mount is refused, nothing after it was applied, and the message says so."""
    lines = [{"layer": "namespaces", "detail": "on"}, {"failed": "root", "detail": "mount on /: refused"}]
    report = read_report(2, b"\n".join(json.dumps(line).encode() for line in lines))
    assert report.failed["root"].startswith("mount on /: refused; not tried after that: rlimits, ")
    assert "landlock" in report.failed["root"]
    assert list(report.failed) == ["root"]
