"""Test readers of other packages: one module and its entry point, installed as a package is."""

from __future__ import annotations

from pathlib import Path

import pytest
from document_tree import notes_of, text_of

from rlm.documents import StreamSource, load
from rlm.documents.formats import plugins, registry
from rlm.errors import DocumentError

MODULE = """
import re
from rlm.documents.formats.piece import Ended, Heading, Problem, Text
from rlm.documents.formats.registry import DocumentFormat

FORMAT = DocumentFormat(
    "acme",
    frozenset({".acme"}),
    magic=re.compile(rb"ACME\\0"),
    reader="acme_notes:read",
)
TAKEN = DocumentFormat("acme-pdf", frozenset({".pdf"}), reader="acme_notes:read")
AWAY = DocumentFormat("away", frozenset({".away"}), reader="acme_away:read")
nothing = 5


def make():
    return FORMAT


def broken():
    raise RuntimeError("no licence\\nand more")


def read(file, size):
    import os
    try:
        os.listdir("/etc")
        yield Problem("it is not confined")
    except OSError:
        pass
    yield Heading(1, "Notes")
    yield Text(file.read().removeprefix(b"ACME\\0").decode())
    yield Ended()
"""


@pytest.fixture
def install(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    """Install a package as an installer does: its module, and its metadata."""

    def make(*entries: str) -> None:
        folder = tmp_path / "site-packages"
        folder.mkdir()
        (folder / "acme_notes.py").write_text(MODULE)
        metadata = folder / "acme_notes-1.0.dist-info"
        metadata.mkdir()
        (metadata / "METADATA").write_text("Metadata-Version: 2.1\nName: acme-notes\nVersion: 1.0\n")
        (metadata / "entry_points.txt").write_text("[rlm.readers]\n" + "\n".join(entries) + "\n")
        monkeypatch.syspath_prepend(str(folder))
        plugins._load.cache_clear()

    yield make
    plugins._load.cache_clear()
    registry.ADDED.clear()


@pytest.mark.parametrize("entry", ["acme = acme_notes:FORMAT", "acme = acme_notes:make"])
def test_an_installed_package_adds_a_format(tmp_path: Path, install, entry: str) -> None:
    install(entry)
    (tmp_path / "a.acme").write_bytes(b"ACME\0The buyer is Kestrel.\n")
    loaded = load([tmp_path / "a.acme"], tmp_path / "c")
    assert text_of(loaded) == "# Notes\nThe buyer is Kestrel.\n"
    assert loaded.context.documents[0].kind == "acme"
    assert notes_of(loaded) == ()
    with loaded.context.open() as body:
        assert body.heading_path(12) == ("Notes",)


def test_its_first_bytes_are_known_too(tmp_path: Path, install) -> None:
    install("acme = acme_notes:FORMAT")
    (tmp_path / "a").write_bytes(b"ACME\0text\n")
    with (tmp_path / "a").open("rb") as stream:
        loaded = load([StreamSource("stdin", stream)], tmp_path / "c")
    assert text_of(loaded) == "# Notes\ntext\n"


def test_no_package_is_loaded_for_a_file_of_ours(tmp_path: Path, install) -> None:
    install("acme = acme_notes:broken")
    for name in ("a.txt", "b.md", "c.log", "d.py"):
        (tmp_path / name).write_text("text\n")
    loaded = load([tmp_path / name for name in ("a.txt", "b.md", "c.log", "d.py")], tmp_path / "c")
    assert notes_of(loaded) == ()
    assert plugins._load.cache_info().currsize == 0


FAULT = (
    r"the reader acme of the package acme-notes cannot be loaded \({}\): update the package, or uninstall it"
)


@pytest.mark.parametrize(
    ("entry", "reason"),
    [
        ("acme = acme_notes:broken", "RuntimeError: no licence"),
        ("acme = acme_gone:FORMAT", "ModuleNotFoundError: No module named 'acme_gone'"),
        ("acme = acme_notes:nothing", "TypeError: it is a int, not a DocumentFormat"),
        ("acme = acme_notes:TAKEN", r"ValueError: its suffix '\.pdf' is taken.*"),
    ],
)
def test_a_broken_package_is_one_line(tmp_path: Path, install, entry: str, reason: str) -> None:
    install(entry)
    (tmp_path / "a.acme").write_bytes(b"\0\1\2" * 50)
    with pytest.raises(DocumentError, match="is binary, and " + FAULT.format(reason)) as raised:
        load([tmp_path / "a.acme"], tmp_path / "c1")
    assert "\n" not in str(raised.value)
    (tmp_path / "b.acme").write_text("text\n")
    (tmp_path / "c.acme").write_text("text\n")
    loaded = load([tmp_path / "b.acme", tmp_path / "c.acme"], tmp_path / "c2")
    (note,) = notes_of(loaded)
    assert note.startswith("b.acme: it was read as text, because the reader acme of the package acme-notes")


def test_a_reader_that_the_worker_cannot_import_is_named(tmp_path: Path, install) -> None:
    install("away = acme_notes:AWAY")
    (tmp_path / "a.away").write_text("text\n")
    with pytest.raises(
        DocumentError, match=r"acme_away.*: update the package acme-notes, or install it without"
    ):
        load([tmp_path / "a.away"], tmp_path / "c")
