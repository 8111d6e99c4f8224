"""Test that loading takes limited time, whatever the documents hold."""

from __future__ import annotations

import time
import zipfile
from pathlib import Path
from typing import Any

import pytest
from document_tree import text_of

from rlm import RLM, Limits
from rlm.documents import FolderCache, PathSource, load
from rlm.documents.cache import ContextCache
from rlm.documents.formats.converter import Converter
from rlm.documents.formats.piece import NotRead
from rlm.errors import DocumentError
from rlm.tasks.passages import find_matches, find_passages
from rlm.testing import ScriptedModel

WORD = "{http://schemas.openxmlformats.org/wordprocessingml/2006/main}"


def many_paragraphs(path: Path, count: int) -> None:
    paragraph = "<w:p><w:r><w:t>a</w:t></w:r></w:p>"
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr(
            "word/document.xml",
            f"<w:document xmlns:w='{WORD[1:-1]}'><w:body>{paragraph * count}</w:body></w:document>",
        )


def slow_html(path: Path) -> None:
    path.write_text("<p>" + "<b>word</b> " * 1_000_000)


def test_the_rest_of_a_folder_is_named_when_the_time_is_over(tmp_path: Path) -> None:
    folder = tmp_path / "docs"
    folder.mkdir()
    (folder / "a.txt").write_text("the first text")
    for number in range(6):
        slow_html(folder / f"b{number}.html")
    began = time.monotonic()
    loaded = load([folder], tmp_path / "c", seconds=3)
    assert time.monotonic() - began < 6
    assert "the first text" in text_of(loaded)
    assert {one.document for one in loaded.problems} >= {"b3.html", "b4.html", "b5.html"}
    assert all("not read within the 3 s for loading" in one.what for one in loaded.problems)
    assert all("--max-seconds" in one.remedy for one in loaded.problems)


def test_a_single_document_that_takes_too_long_is_refused(tmp_path: Path) -> None:
    slow_html(tmp_path / "slow.html")
    with pytest.raises(DocumentError, match=r"not read within the 0\.2 s for loading"):
        load([tmp_path / "slow.html"], tmp_path / "c", seconds=0.2)


def test_what_was_cut_short_is_not_kept_for_the_next_run(tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_text("word " * 2_000_000)
    slow_html(tmp_path / "slow.html")
    cache = ContextCache(FolderCache(tmp_path / "cache"))
    given = [tmp_path / "a.txt", tmp_path / "slow.html"]
    first = load(given, tmp_path / "c1", cache=cache, seconds=1)
    assert first.problems
    if first.lease is not None:
        first.lease.close()
    second = load(given, tmp_path / "c2", cache=cache, seconds=100)
    assert not second.problems
    if second.lease is not None:
        second.lease.close()


async def test_a_run_does_not_load_longer_than_its_time(tmp_path: Path) -> None:
    slow_html(tmp_path / "slow.html")
    rlm = RLM(ScriptedModel([]), limits=Limits(max_seconds=1))
    began = time.monotonic()
    with pytest.raises(DocumentError, match="not read within the"):
        await rlm.run("What?", tmp_path / "slow.html")
    assert time.monotonic() - began < 10


def test_a_small_file_takes_little_time_whatever_it_holds(tmp_path: Path) -> None:
    """40 kB that unpack to 400,000 paragraphs."""
    many_paragraphs(tmp_path / "many.docx", 400_000)
    size = (tmp_path / "many.docx").stat().st_size
    began = time.process_time()
    with (
        Converter(cpu_seconds=2) as converter,
        (tmp_path / "many.docx").open("rb") as file,
        pytest.raises(NotRead, match=r"takes too long to read|crashed its reader"),
    ):
        list(converter.pieces(file.fileno(), size, "docx", lambda: None))
    assert time.process_time() - began < 5


def test_a_tag_with_attributes_without_number_is_refused(tmp_path: Path) -> None:
    attributes = " ".join(f"a{number}=''" for number in range(150_000))
    (tmp_path / "attributes.html").write_text(f"<p {attributes}>text</p>")
    with pytest.raises(DocumentError, match="more than 5,000 attributes on one tag"):
        load([tmp_path / "attributes.html"], tmp_path / "c")


@pytest.mark.parametrize("charset", ["punycode", "idna", "unicode_escape", "undefined", "rot13", "zlib"])
def test_a_charset_that_no_page_has_is_guessed_instead(tmp_path: Path, charset: str) -> None:
    (tmp_path / "a.html").write_text(f"<meta charset={charset}><p>{'word ' * 80_000}")
    began = time.monotonic()
    assert "word word" in text_of(load([tmp_path / "a.html"], tmp_path / "c"))
    assert time.monotonic() - began < 20


@pytest.mark.parametrize("find", [find_passages, find_matches])
async def test_a_search_has_the_time_limit_of_a_run(tmp_path: Path, find: Any) -> None:
    slow_html(tmp_path / "slow.html")
    source = PathSource(tmp_path / "slow.html")
    with pytest.raises(DocumentError, match=r"not read within the 0\.2 s for loading"):
        await find("word", [source], max_seconds=0.2, cached=False)
