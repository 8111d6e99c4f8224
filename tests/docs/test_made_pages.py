"""Hold the pages that follow from the code equal to what `make docs` would write."""

from __future__ import annotations

import re
from pathlib import Path

import doc_build
import doc_reference
import pytest
from doc_blocks import ROOT

REFERENCE = ROOT / "docs" / "reference"


@pytest.mark.parametrize("name", doc_reference.PAGES)
def test_a_page_of_the_reference_is_current(name: str) -> None:
    """Run `make docs` after a change of an option, a setting or a helper."""
    assert (REFERENCE / name).read_text(encoding="utf-8") == doc_reference.PAGES[name]()


def test_every_option_and_variable_is_on_the_page() -> None:
    from typer.core import TyperGroup
    from typer.main import get_command

    from rlm.cli.app import app

    root = get_command(app)
    assert isinstance(root, TyperGroup)
    page = doc_reference.commands_page()
    for name, command in root.commands.items():
        if not command.hidden:
            assert f"## rlm {name}" in page
    for option in root.commands["ask"].params:
        if not getattr(option, "hidden", False) and option.name != "help":
            assert all(f"`{flag}`" in page for flag in option.opts if flag.startswith("-"))


def test_llms_txt_lists_every_page_with_a_sentence(tmp_path: Path) -> None:
    doc_build.copy_pages(tmp_path)
    listed = re.findall(
        r"^- \[(.+?)\]\((.+?)\): (.+)$", (tmp_path / "llms.txt").read_text("utf-8"), re.MULTILINE
    )
    assert {name for _, name, _ in listed} == {
        page.relative_to(tmp_path).as_posix() for page in tmp_path.rglob("*.md")
    }
    assert all(len(sentence) > 20 for *_, sentence in listed)


def test_a_link_that_leaves_docs_leads_to_the_repository(tmp_path: Path) -> None:
    doc_build.copy_pages(tmp_path)
    page = (tmp_path / "benchmarks.md").read_text(encoding="utf-8")
    assert f"]({doc_build.REPOSITORY}/benchmarks/readers/README.md)" in page
    assert "](../" not in page


def test_a_resource_of_another_host_is_found(tmp_path: Path) -> None:
    for name, text in {
        "a.html": '<script async src="https://cdn.example/x.js"></script><a href="https://example.org">fine</a>',
        "b.css": "@import url(//fonts.example/css); p { background: url(own.png) }",
        "c.html": '<link rel="stylesheet" href="own.css"><img src="https://example.org/p.png">',
    }.items():
        (tmp_path / name).write_text(text)
    found = sorted(doc_build.fetched_resources(tmp_path))
    assert [line.split(" loads ")[0] for line in found] == ["a.html", "b.css", "c.html"]
