"""Run the examples of docs/segments.md."""

from __future__ import annotations

import contextlib
import io
import re
from pathlib import Path

import pytest

from rlm.prompts.segments import LAYERS

PAGE = (Path(__file__).parents[3] / "docs" / "segments.md").read_text(encoding="utf-8")


def test_the_example_prints_what_the_page_says(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    code, printed = re.findall(r"^```(?:python|text)\n(.*?)^```", PAGE, re.MULTILINE | re.DOTALL)
    monkeypatch.chdir(tmp_path)
    with contextlib.redirect_stdout(io.StringIO()) as out:
        exec(code, {})
    assert out.getvalue() == printed


def test_every_command_on_the_page_is_one_with_those_options() -> None:
    from typer.core import TyperGroup
    from typer.main import get_command

    from rlm.cli.app import app

    commands = get_command(app)
    assert isinstance(commands, TyperGroup)
    shown = "".join(re.findall(r"^```sh\n(.*?)^```", PAGE, re.MULTILINE | re.DOTALL)).splitlines()
    lines = [line.partition("#")[0].split() for line in shown if line.startswith("rlm ")]
    assert len(lines) > 8
    for _, *words in lines:
        command = commands
        while isinstance(command, TyperGroup):
            command = command.commands[words.pop(0)]
        known = {name for option in command.params for name in option.opts}
        assert {word for word in words if word.startswith("--")} <= known


def test_every_layer_is_on_the_page() -> None:
    assert all(f"`{layer}`" in PAGE for layer in LAYERS)
