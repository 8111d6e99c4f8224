"""Run every shell block of README, CONTRIBUTING and docs/ in a scratch folder, and compare the output where a
page claims one. A block that cannot run says why: `<!-- not run: REASON -->` on the line above it.
"""

from __future__ import annotations

from pathlib import Path

import pytest
from doc_blocks import ROOT, Command, all_pages, blocks_of, missing_lines, run, scratch

PAGES = [page for page in all_pages() if any(block.commands for block in blocks_of(page))]


def _name(page: Path) -> str:
    return page.relative_to(ROOT).as_posix()


@pytest.mark.timeout(300)
@pytest.mark.parametrize("page", PAGES, ids=_name)
def test_the_shell_blocks_of_a_page_run(
    page: Path, tmp_path: Path, sandbox_flag: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("RLM_SANDBOX", sandbox_flag)
    folder = tmp_path / "reader"
    folder.mkdir()
    work = scratch(folder)
    for block in blocks_of(page):
        for command in () if block.reason else block.commands:
            done = run(command, work)
            assert done.returncode == 0, f"{block.place}: {command.script}\n{done.stdout}"
            missing = missing_lines(command.output or "", done.stdout)
            assert not missing, f"{block.place}: {command.script} does not print {missing} but\n{done.stdout}"


@pytest.mark.parametrize("page", all_pages(), ids=_name)
def test_every_block_names_its_language(page: Path) -> None:
    """A block without a language would escape the test above."""
    unnamed = [block.place for block in blocks_of(page) if not block.language]
    assert not unnamed


def test_a_block_that_fails_is_noticed(tmp_path: Path) -> None:
    page = ROOT / "README.md"
    assert any(block.reason for block in blocks_of(page))
    folder = tmp_path / "reader"
    folder.mkdir()
    assert run(Command("false\ntrue", None), scratch(folder)).returncode == 1
    assert run(Command("rlm ask --no-such-option", None), folder / "work").returncode == 2


def test_a_claimed_output_is_compared_but_for_seconds_and_names_of_runs() -> None:
    printed = "rlm, 2 rounds, 1.31 s\nanswer: dora\nrun 20261123-050550-3xjwdh\n2.5 tasks a second\n"
    assert missing_lines("rlm, 2 rounds, 12.5 s\nrun 20260101-000000-abcdef", printed) == []
    assert missing_lines("9 tasks a second", printed) == []
    assert missing_lines("rlm, 3 rounds, 1.31 s", printed) == ["rlm, 3 rounds, 1.31 s"]
    assert missing_lines("answer: …", printed) == []
    assert missing_lines("answer: emil", printed) == ["answer: emil"]
    assert missing_lines("answer: dora\nrlm, 2 rounds, 1.31 s", printed) == ["rlm, 2 rounds, 1.31 s"]
