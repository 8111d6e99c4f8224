"""Run the examples of docs/prompts.md."""

from __future__ import annotations

import contextlib
import io
import re
from pathlib import Path
from typing import Any

import pytest

from rlm.prompts import BudgetExceeded, assemble, counter_names, get_counter

PAGE = (Path(__file__).parents[2] / "docs" / "prompts.md").read_text(encoding="utf-8")


def test_the_worked_example_prints_what_the_page_says() -> None:
    code, printed, refused = re.findall(r"^```(?:python|text)\n(.*?)^```", PAGE, re.MULTILINE | re.DOTALL)
    names: dict[str, Any] = {}
    with contextlib.redirect_stdout(io.StringIO()) as out:
        exec(code, names)
    assert out.getvalue() == printed
    with pytest.raises(BudgetExceeded) as caught:
        assemble(names["sections"], 40, get_counter("chars"))
    assert str(caught.value) == refused.strip()


def test_every_counter_is_on_the_page() -> None:
    for name in counter_names():
        assert f"| `{name}`" in PAGE
