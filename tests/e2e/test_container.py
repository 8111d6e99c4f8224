"""Test what can be tested of the image without a Docker daemon: its files, its command, its flags."""

from __future__ import annotations

import json
import re
import shlex
from pathlib import Path

from typer.main import get_command

from rlm.cli.app import app
from rlm.sandbox.isolation.advice import CONTAINER_FLAGS

ROOT = Path(__file__).parents[2]
DOCKERFILE = (ROOT / "Dockerfile").read_text()


def test_what_the_image_copies_is_there_and_not_ignored() -> None:
    ignore = (ROOT / ".dockerignore").read_text().splitlines()
    assert ignore[0] == "*"
    copied = [
        name
        for line in re.findall(r"^COPY (?!--)(.+)$", DOCKERFILE, re.MULTILINE)
        for name in line.split()[:-1]
    ]
    assert "rlm" in copied
    for name in copied:
        assert (ROOT / name).exists()
        assert f"!{name}" in ignore


def test_the_image_runs_as_an_ordinary_user() -> None:
    assert re.findall(r"^USER (\w+)$", DOCKERFILE, re.MULTILINE) == ["rlm"]


def test_the_default_command_is_one_of_ours() -> None:
    """The demo of the image is a command line that parses, about the library of the image's Python."""
    (given,) = re.findall(r"^CMD (.+)$", DOCKERFILE, re.MULTILINE)
    name, *arguments = json.loads(given)
    command = get_command(app).get_command(None, name)  # type: ignore[attr-defined, arg-type]
    options = {flag for one in command.params for flag in one.opts}
    assert {one for one in arguments if one.startswith("--")} <= options
    version = re.findall(r"^FROM python:([\d.]+)-slim", DOCKERFILE, re.MULTILINE)
    assert len(set(version)) == 1
    assert f"/usr/local/lib/python{version[0]}" in arguments


def test_the_flags_that_are_documented_are_those_that_the_doctor_names() -> None:
    page = (ROOT / "docs" / "container.md").read_text()
    for text in (DOCKERFILE, page):
        runs = re.findall(r"docker run (?:[^\n]*\\\n)*[^\n]*", text)
        assert runs
        for line in runs:
            words = shlex.split(line.replace("\\\n", " "))
            assert " ".join(shlex.split(CONTAINER_FLAGS)) in " ".join(words)
