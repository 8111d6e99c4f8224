"""Test `rlm segments` and `rlm assemble scoped`."""

from __future__ import annotations

import io
import json
import os
import stat
import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

EXAMPLES = Path(__file__).parents[3] / "examples"


@dataclass
class Left:
    """The exit code and the output of a command."""

    code: int
    stdout: str
    stderr: str

    @property
    def json(self) -> Any:
        return json.loads(self.stdout)

    @property
    def one_line(self) -> str:
        lines = self.stderr.strip().splitlines()
        assert len(lines) == 1, self.stderr
        return lines[0]


@pytest.fixture
def command(
    monkeypatch: pytest.MonkeyPatch, capfdbinary: pytest.CaptureFixture[bytes]
) -> Callable[..., Left]:
    """Return `command("segments", "list", …)`, which runs the command in this process to save the start of
    one.
    """

    def run(*words: str, stdin: str = "") -> Left:
        from rlm.cli.app import run as run_app

        monkeypatch.setattr(sys, "argv", ["rlm", *words])
        monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(stdin.encode())))
        capfdbinary.readouterr()
        code = run_app()
        out, err = capfdbinary.readouterr()
        return Left(code, out.decode(), err.decode())

    return run


@pytest.fixture(params=["sqlite", "postgresql"])
def store(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    """Return the URL of a store with the examples' segments, once on each database."""
    if request.param == "sqlite":
        return str(tmp_path / "prompts.db")
    return str(request.getfixturevalue("postgres_url"))


def test_the_examples_make_a_prompt(rlm, command, store: str) -> None:
    """--json prints the prompt, its metadata and the report."""
    assert rlm("segments", "import", str(EXAMPLES / "segments.json"), "--store", store).one_line.endswith(
        "10 added, 0 replaced, 0 unchanged"
    )
    ran = rlm("assemble", "scoped", str(EXAMPLES / "scoped.json"), "--store", store, "--json")
    assert ran.code == 0
    assert ran.json["meta"]["order"] == [
        "core", "ruleset", "world", "entry", "entry_start", "npc", "game_state", "player", "rng", "input"
    ]  # fmt: skip
    assert ran.json["meta"]["tokens_after"] <= 400
    assert ran.json["meta"]["truncated"]["npc_dropped_tiers"] == [
        {"npc_id": "maren", "from_tier": 2, "to_tier": 1}
    ]
    assert [section["name"] for section in ran.json["sections"]] == ran.json["meta"]["order"]
    plain = command("assemble", "scoped", str(EXAMPLES / "scoped.json"), "--store", store, "--report")
    assert plain.stdout.startswith(ran.json["prompt"] + "\n")
    assert "tier 2 was dropped to make room" in " ".join(plain.stdout.split())
    labelled = command(
        "assemble", "scoped", "-", "--store", store, "--label", "production", "--json",
        stdin=(EXAMPLES / "scoped.json").read_text(),
    )  # fmt: skip
    assert len(labelled.json["meta"]["segment_ids_by_scope"]["npc"]) == 2


def test_a_segment_s_life(command, store: str, tmp_path: Path) -> None:
    """The commands are list, show, add, edit, diff, label, rollback, deactivate, export and import."""

    def segments(verb: str, *words: str, **more):
        return command("segments", verb, *words, "--store", store, **more)

    name = segments("add", "--scope", "core", "--content", "Be kind.").stdout.strip()
    (tmp_path / "core.md").write_text("Be kind.\nBe brief.\n")
    edited = segments("edit", name[:8], "--file", str(tmp_path / "core.md"), "--note", "shorter", "--json")
    assert (edited.json["version"], edited.json["content"]) == (2, "Be kind.\nBe brief.\n")
    assert segments("label", name, "production", "1").one_line.endswith("production is version 1")
    assert segments("diff", name, "production", "2").stdout.splitlines()[2:] == [
        "@@ -1 +1,2 @@",
        "-Be kind.",
        "\\ no line end here",
        "+Be kind.",
        "+Be brief.",
    ]
    assert segments("diff", name).stdout == segments("diff", name, "1", "2").stdout
    assert segments("rollback", name, "production").one_line.endswith("is at version 3")
    assert segments("show", name, "--version", "2", "--content").stdout == "Be kind.\nBe brief.\n"
    shown = segments("show", name, "--json").json
    assert [version["note"] for version in shown["versions"]] == ["", "shorter", "back to version 1"]
    assert shown["labels"] == {"production": 1}
    assert "back to version 1" in segments("show", name).stdout
    assert segments("deactivate", name).code == 0
    assert segments("list", "--json").json == []
    assert [one["active"] for one in segments("list", "--inactive", "--json").json] == [False]
    assert "inactive" in segments("list", "--inactive").stdout
    assert segments("deactivate", name, "--undo").code == 0
    exported = segments("export").stdout
    copied = ("--store", str(tmp_path / "copy.db"))
    assert command("segments", "import", "-", *copied, stdin=exported).one_line.endswith(
        "1 added, 0 replaced, 0 unchanged"
    )
    assert command("segments", "export", *copied).stdout == exported
    assert segments("migrate").one_line.endswith("the tables are up to date")


def test_entities_and_rulesets(command, store: str) -> None:
    """The error for a missing reference says how to make the entity."""
    dangling = command(
        "segments", "add", "--scope", "world", "--ref-id", "w", "--content", "x", "--store", store
    )
    assert dangling.code == 2
    assert dangling.one_line.endswith(
        "there is no world 'w': add it first with `rlm segments entity world w`"
    )
    for kind, name in (("world", "w"), ("entry", "e"), ("ruleset", "r"), ("ruleset", "q")):
        assert command("segments", "entity", kind, name, "--store", store).code == 0
    assert command("segments", "link", "e", "r", "2", "--store", store).code == 0
    assert command("segments", "link", "e", "q", "1", "--store", store).one_line.endswith("e: q, r")
    assert command("segments", "entity", "--store", store, "--json").json[0] == {"kind": "entry", "id": "e"}
    assert (
        command(
            "segments", "add", "--scope", "world", "--ref-id", "w", "--content", "x", "--store", store
        ).code
        == 0
    )


def test_the_store_is_found_without_being_named(command) -> None:
    """The default store is $XDG_STATE_HOME/rlm/rlm.db in any folder, and it is private."""
    assert command("segments", "add", "--scope", "core", "--content", "x").code == 0
    file = Path(os.environ["XDG_STATE_HOME"]) / "rlm" / "rlm.db"
    assert stat.S_IMODE(file.stat().st_mode) == 0o600
    assert len(command("segments", "list", "--json").json) == 1
    assert command("runs").one_line == "no runs yet"


def test_an_editor_s_text_becomes_a_version_and_a_failing_one_changes_nothing(
    command, monkeypatch: pytest.MonkeyPatch
) -> None:
    name = command("segments", "add", "--scope", "core", "--content", "Be kind.").stdout.strip()
    monkeypatch.setenv("VISUAL", "sed -i s/kind/brave/")
    assert command("segments", "edit", name).one_line.endswith("is at version 2")
    assert command("segments", "show", name, "--content").stdout == "Be brave."
    assert command("segments", "edit", name).one_line.endswith("is unchanged, at version 2")
    for editor, message in (
        ("false", "exited with code 1: nothing was saved"),
        ("no-such-editor", "set EDITOR"),
    ):
        monkeypatch.setenv("VISUAL", editor)
        ran = command("segments", "edit", name)
        assert ran.code == 2
        assert message in ran.one_line
    monkeypatch.delenv("VISUAL")
    monkeypatch.delenv("EDITOR", raising=False)
    assert "give --content or --file, or set EDITOR" in command("segments", "edit", name).one_line


def test_mistakes_are_one_line_and_code_2(command, tmp_path: Path) -> None:
    (tmp_path / "bad.json").write_text("{")
    (tmp_path / "turn.json").write_text(json.dumps({"world_id": "", "token_budget": 3}))
    for words, message in (
        (
            ("segments", "show", "zz"),
            "there is no segment 'zz': `rlm segments list` shows them",
        ),
        (("segments", "add", "--scope", "core"), "give --content or --file"),
        (("segments", "import", str(tmp_path / "bad.json")), "bad.json is not JSON"),
        (("segments", "import", str(tmp_path / "none.json")), "No such file or directory: check the path"),
        (("segments", "list", "--store", "mysql://x/y"), "mysql is not supported for a store"),
        (
            ("segments", "list", "--store", "postgresql://me:hunter2@127.0.0.1:9/x"),
            "check its URL, its password and that its",
        ),
        (
            ("assemble", "scoped", str(tmp_path / "turn.json")),
            "$.entry_point_id is missing: give it; $.world_id is '': give a text",
        ),
        (("assemble", "scoped", str(tmp_path / "bad.json")), "bad.json is not JSON"),
    ):
        ran = command(*words)
        assert ran.code == 2
        assert message in ran.one_line
        assert "hunter2" not in ran.stderr


def test_a_document_s_terminal_codes_are_not_printed_in_lists(command) -> None:
    command("segments", "add", "--scope", "core", "--content", "red \x1b[31malert")
    assert "\x1b" not in command("segments", "list").stdout
    assert os.linesep in command("segments", "list").stdout


def test_an_export_follows_no_link_out_of_its_folder(rlm: Any, tmp_path: Path) -> None:
    victim = tmp_path / "victim.txt"
    victim.write_text("mine")
    (tmp_path / "work" / "out.json").symlink_to(victim)
    refused = rlm("segments", "export", "--out", "out.json")
    assert refused.code == 2
    assert "is a link to" in refused.one_line
    assert victim.read_text() == "mine"
