"""Test a phrase that a wrapped text breaks: it is not found, and the cell gets a hint."""

from __future__ import annotations

import re

import pytest

from rlm.sandbox.in_kernel.handle import Handle
from rlm.sandbox.text.search_pattern import across_lines


@pytest.mark.parametrize(
    ("pattern", "wide"),
    [
        ("rate-only policy", r"rate-only\s+policy"),
        ("a   b", r"a\s+b"),
        (r"(red|blue) car\b", r"(red|blue)\s+car\b"),
        ("[a ]b c", r"[a ]b\s+c"),
        ("[] x]y z", r"[] x]y\s+z"),
        (r"a\ b", None),
        ("a +b", None),
        ("a {2}b", None),
        ("word", None),
        ("(?x) a b", None),
        ("(?<!the )house", None),
    ],
)
def test_blanks_may_be_line_ends(pattern: str, wide: str | None) -> None:
    assert across_lines(pattern) == wide


def test_a_compiled_pattern_keeps_its_flags() -> None:
    wide = across_lines(re.compile("one two", re.IGNORECASE))
    assert isinstance(wide, re.Pattern)
    assert wide.search("ONE\n  TWO")


BODY = "The committee chose a rate-only\npolicy, and the policymaker\r\n   is free to adjust.\n" * 2


@pytest.mark.parametrize("ask", [Handle.search, Handle.count])
def test_a_cell_gets_a_hint_about_a_phrase_across_lines(make_handle, capsys, ask) -> None:
    handle = make_handle(BODY)
    assert not ask(handle, "rate-only policy")
    (line,) = capsys.readouterr().err.splitlines()
    assert "'rate-only policy'" in line
    assert "more than once" in line
    assert "\\s+" in line
    assert ask(handle, r"rate-only\s+policy")
    assert not ask(handle, "policy maker")
    assert not ask(handle, "nowhere")
    assert ask(handle, "free to adjust")
    assert capsys.readouterr().err == ""


def test_a_cell_that_searches_in_a_loop_gets_few_hints(make_handle, capsys) -> None:
    handle = make_handle(BODY)
    for _ in range(100):
        handle.search("rate-only policy")
    assert len(capsys.readouterr().err.splitlines()) == 20
    handle.drain_access()
    handle.search("rate-only policy")
    assert len(capsys.readouterr().err.splitlines()) == 1


@pytest.mark.parametrize("pattern", [r"(rate)-only policy \1", r"rate-\w+(?= policy)"])
def test_what_needs_backtracking_is_not_looked_for_again(make_handle, capsys, pattern: str) -> None:
    """The search may have taken half a minute, and the second one could."""
    assert not make_handle(BODY).search(pattern)
    assert capsys.readouterr().err == ""
