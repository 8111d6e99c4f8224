"""Run the blocks of docs/coming-from.md, in order and in one namespace. Those that need another package are
marked `<!-- not run: … -->`, and only compiled."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest

PAGE = Path(__file__).parents[3] / "docs" / "coming-from.md"
BLOCK = re.compile(r"(?P<marked><!-- not run: [^\n]+ -->\n)?```python\n(?P<code>.+?)```", re.DOTALL)


def test_the_blocks_of_the_page_run(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    names: dict[str, Any] = {"__name__": "__main__"}
    blocks = list(BLOCK.finditer(PAGE.read_text(encoding="utf-8")))
    assert len(blocks) > 5
    for block in blocks:
        code = compile(block["code"], "coming-from.md", "exec")
        if block["marked"] is None:
            exec(code, names)
    shown = capsys.readouterr().out
    assert "The notice period is six weeks." in shown
    assert "lease.md:3" in shown
