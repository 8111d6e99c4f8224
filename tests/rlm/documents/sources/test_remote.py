"""URLs, storages and revisions as the context of runs: what is cited, kept and read again."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from uuid import uuid4

import fsspec
import pytest
from document_tree import skipped_of

from rlm import RLM, Settings
from rlm.documents import CloudSource, GitSource, PathSource, TextSource, UrlSource, load
from rlm.errors import DocumentError, UsageError
from rlm.runs.stored_run import source_facts
from tests.rlm.documents.sources.test_download import PAGE, Site

QUESTION = "What is the notice period?"


@pytest.fixture
def site() -> Iterator[Site]:
    one = Site()
    yield one
    one.server.shutdown()
    one.server.server_close()


def _rlm(tmp_path: Path, **settings: bool) -> RLM:
    return RLM("extractive", settings=Settings(store=tmp_path / "rlm.db", **settings))


async def test_a_page_is_read_as_html_and_cited_by_its_url(site: Site, tmp_path: Path) -> None:
    url = site.serve("/lease", PAGE)
    result = await _rlm(tmp_path).run(QUESTION, UrlSource(url, ("127.0.0.1",)))
    (citation,) = result.citations
    assert citation.document == url
    assert citation.quote.endswith("The notice period is three weeks.")


async def test_a_page_is_kept_and_never_fetched_again(site: Site, tmp_path: Path) -> None:
    source = UrlSource(site.serve("/lease", PAGE), ("127.0.0.1",))
    kept = await _rlm(tmp_path).run(QUESTION, source)
    asked = len(site.requests)
    async with _rlm(tmp_path).session(after=kept.run_id) as session:
        assert (await session.run(QUESTION)).citations
    bare = _rlm(tmp_path, keep_input=False)
    again = await bare.run(QUESTION, source)
    with pytest.raises(UsageError, match=f"{source.url}.* was not kept"):
        async with bare.session(after=again.run_id):
            pass
    assert len(site.requests) == asked + 1


def test_what_is_stored_of_a_source() -> None:
    sources = [
        PathSource(Path("/r"), ("*.log",)), UrlSource("https://a.example/x?sig=secret", ("b",)),
        CloudSource("s3://b/k"), GitSource(Path("/r"), "v1"), TextSource("t", "x"),
    ]  # fmt: skip
    assert source_facts(sources) == [
        {"path": "/r", "exclude": ["*.log"]},
        {"name": "https://a.example/x?sig=…"},
        {"name": "s3://b/k"},
        {"name": "/r@v1"},
        {"name": "t"},
    ]


def test_binary_downloads_are_refused_or_skipped(site: Site, tmp_path: Path) -> None:
    url = site.serve("/x.bin", b"\0\1\2" * 100, Content_Type="application/octet-stream")
    source = UrlSource(url, ("127.0.0.1",))
    with pytest.raises(DocumentError, match=r"x\.bin is binary"):
        load([source], tmp_path / "a")
    movie = UrlSource(site.serve("/m", b"\0\0\0\x20ftypisom" * 99, Content_Type="a/b"), ("127.0.0.1",))
    loaded = load([movie, TextSource("t", "text")], tmp_path / "b")
    assert loaded.unread == (movie.url.rpartition("/")[2],) or loaded.unread == (movie.url,)


@pytest.fixture
def bucket() -> str:
    """A folder in fsspec's memory."""
    folder = f"yard-{uuid4().hex}"
    storage = fsspec.filesystem("memory")
    storage.pipe(f"/{folder}/docs/lease.txt", b"The notice period is three weeks.")
    storage.pipe(f"/{folder}/docs/page.html", b"<html><p>The rent is 900.</p>")
    storage.pipe(f"/{folder}/docs/tool.bin", bytes(range(256)) * 9)
    storage.pipe(f"/{folder}/docs/empty.txt", b"")
    return f"memory://{folder}"


@pytest.mark.parametrize(
    ("path", "names"),
    [
        ("/docs/lease.txt", ["lease.txt"]),
        ("/docs", ["lease.txt", "page.html"]),
        ("/docs/*.html", ["page.html"]),
    ],
)
def test_objects_of_a_storage(bucket: str, tmp_path: Path, path: str, names: list[str]) -> None:
    loaded = load([CloudSource(bucket + path)], tmp_path / "context")
    assert [one.name.rpartition("/")[2] for one in loaded.context.documents] == names
    assert all(one.name.startswith("memory://") for one in loaded.context.documents)
    assert {what for _, what in skipped_of(loaded)} == ({"binary", "empty"} if path == "/docs" else set())


@pytest.mark.parametrize(
    ("url", "says"),
    [
        ("memory://none-there/x", "does not exist"),
        ("local:///etc/passwd", "cannot be read from local://"),
        ("simplecache::memory://a/b", "cannot be read from"),
        ("reference://x", "cannot be read from reference://"),
        ("nonsense://x", "cannot be read from nonsense://"),
    ],
)
def test_other_storages_are_refused(url: str, says: str, tmp_path: Path) -> None:
    with pytest.raises(DocumentError, match=says):
        load([CloudSource(url)], tmp_path / "context")


def test_a_storage_without_its_library_names_the_extra(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(__import__("sys").modules, "s3fs", None)
    with pytest.raises(DocumentError, match=r"pip install -e '\.\[cloud\]'"):
        load([CloudSource("s3://bucket/key")], tmp_path / "context")
