"""Test `rlm skill`: its file says the truth. Each command in it is run."""

from __future__ import annotations

import re
import shlex
import subprocess
import sys
from pathlib import Path

import pytest

from rlm.cli.console.exits import Exit

COMMAND = [sys.executable, "-m", "rlm"]


def rlm(*arguments: str, folder: Path) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [*COMMAND, *arguments],
        cwd=folder,
        capture_output=True,
        text=True,
        check=False,
        timeout=60,
        stdin=subprocess.DEVNULL,
    )


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Make the folder that the commands name."""
    here = tmp_path / "work"
    (here / "docs").mkdir(parents=True)
    contract = (
        "The contract ends early by clause 7.\nThe notice period is a month.\nThe crane costs 5 euros.\n"
    )
    (here / "docs" / "contract.md").write_text(contract, encoding="utf-8")
    (here / "app.log").write_text("10:01 ERR_17 the service did stop: no disk\n", encoding="utf-8")
    return here


@pytest.mark.timeout(240)
def test_each_command_of_the_skill_works(folder: Path) -> None:
    text = rlm("skill", folder=folder).stdout
    assert text.startswith("---\nname: rlm\ndescription: ")
    (block,) = re.findall(r"```bash\n(.*?)```", text, re.DOTALL)
    run = ""
    for line in block.splitlines():
        words = shlex.split(line)
        assert words[0] == "rlm"
        ran = rlm(*(run if word == "RUN" else word for word in words[1:]), folder=folder)
        assert ran.returncode == 0, f"{line}\n{ran.stderr}"
        assert ran.stdout or "--out" in words, line
        if "--json" in words:
            found = re.search(r'"run_id": "([^"]+)"', ran.stdout)
            assert found, line
            run = found[1]
    assert (folder / "report.md").exists()


def test_its_exit_codes_are_ours(folder: Path) -> None:
    rows = re.findall(r"^\| (\d+) \|", rlm("skill", folder=folder).stdout, re.MULTILINE)
    assert [int(code) for code in rows] == sorted(Exit)


def test_it_is_written_where_agents_look(folder: Path) -> None:
    ran = rlm("skill", "--out", "skills", folder=folder)
    file = folder / "skills" / "rlm" / "SKILL.md"
    assert ran.returncode == 0
    assert file.read_text(encoding="utf-8") == rlm("skill", folder=folder).stdout
    assert rlm("skill", "--out", "skills", folder=folder).returncode == 0
    file.write_text("another skill", encoding="utf-8")
    refused = rlm("skill", "--out", "skills", folder=folder)
    assert refused.returncode == 2
    assert "is another file" in refused.stderr
