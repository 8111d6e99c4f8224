"""Test files that hold several documents: their reader yields a Member before each."""

from __future__ import annotations

import io
from pathlib import Path

import pytest
from document_tree import guessed_of, notes_of, skipped_of, text_of

from rlm.documents import kind, load
from rlm.documents.formats import registry
from rlm.documents.formats.frames import LARGEST, packed, read_piece
from rlm.documents.formats.members import safe_name
from rlm.documents.formats.piece import Data, Member, Piece, Problem
from rlm.documents.formats.registry import DocumentFormat
from rlm.errors import DocumentError

READER = """
import ast
from rlm.documents.formats.piece import *

def read_box(file, size):
    assert file.read(4) == b"BOX\\0"
    for name, *arguments in ast.literal_eval(file.read().decode()):
        if name == "Fault":
            raise Fault(*arguments)
        yield globals()[name](*arguments)
    yield Ended(1, "cp1252")
"""
BOX = DocumentFormat(
    "box",
    frozenset({".box"}),
    article="a box",
    reader="box_reader:read_box",
    is_binary=True,
    is_container=True,
)


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder for boxes, a format that this test adds: a box yields the pieces that are written in it."""
    library = tmp_path / "site-packages"
    library.mkdir()
    (library / "box_reader.py").write_text(READER)
    monkeypatch.syspath_prepend(str(library))
    monkeypatch.setitem(registry._BY_KIND, "box", BOX)
    monkeypatch.setitem(kind._BY_SUFFIX, ".box", BOX)
    folder = tmp_path / "folder"
    folder.mkdir()
    return folder


def box(*pieces: tuple[object, ...]) -> bytes:
    return b"BOX\0" + repr(list(pieces)).encode()


def names(loaded: object) -> list[tuple[str, str]]:
    return [(one.name, one.kind) for one in loaded.context.documents]  # type: ignore[attr-defined]


def test_each_member_is_a_document_of_its_own(folder: Path, tmp_path: Path) -> None:
    (folder / "a.box").write_bytes(
        box(
            ("Member", "sheets/one", "csv"),
            ("Text", "bees,7\n"),
            ("Member", "two.md"),
            ("Data", b"# Ho"),
            ("Data", b"ney\n"),
            ("Member", "three.html"),
            ("Data", b"<html><h1>Wax</h1>"),
            ("Member", "three.html"),
            ("Data", b"<html><p>Again"),
        )
    )
    (folder / "b.txt").write_text("last\n")
    loaded = load([folder], tmp_path / "c")
    assert names(loaded) == [
        ("a.box/sheets/one", "csv"),
        ("a.box/two.md", "markdown"),
        ("a.box/three.html", "html"),
        ("a.box/three.html (2)", "html"),
        ("b.txt", "text"),
    ]
    assert text_of(loaded) == "bees,7\n# Honey\n# Wax\nAgain\nlast\n"
    assert (loaded.replaced, skipped_of(loaded), guessed_of(loaded)) == (1, [], {"a.box": "cp1252"})


def test_text_before_the_first_member_is_the_file_itself(folder: Path, tmp_path: Path) -> None:
    pieces = (("Heading", 1, "Lease"), ("Text", "See attached.\n"), ("Member", "rent.txt"), ("Data", b"900"))
    (folder / "a.box").write_bytes(box(*pieces))
    loaded = load([folder / "a.box"], tmp_path / "c")
    assert names(loaded) == [("a.box", "box"), ("a.box/rent.txt", "text")]
    assert text_of(loaded) == "# Lease\nSee attached.\n900"


def test_a_member_that_is_not_read_is_listed_like_a_file_of_a_folder(folder: Path, tmp_path: Path) -> None:
    (folder / "a.box").write_bytes(
        box(
            ("Problem", "its label is missing", "write one"),
            ("Member", "empty.txt"),
            ("Member", "app.exe"),
            ("Data", bytes(range(256)) * 8),
            ("Member", "broken.pdf"),
            ("Data", b"%PDF-1.4 nothing"),
            ("Member", "locked.txt"),
            ("Problem", "protected by a password", "unpack it with its password", "missing"),
            ("Member", "half.txt"),
            ("Data", b"half"),
            ("Problem", "damaged", "get it again", "missing"),
            ("Member", "good.txt"),
            ("Data", b"good\n"),
            ("Problem", "odd", "even it"),
        )
    )
    loaded = load([folder], tmp_path / "c")
    assert names(loaded) == [("a.box/half.txt", "text"), ("a.box/good.txt", "text")]
    assert [(name, what) for name, what in skipped_of(loaded) if not name.endswith(".pdf")] == [
        ("a.box/empty.txt", "empty"),
        ("a.box/app.exe", "binary (a program)"),
        ("a.box/locked.txt", "protected by a password"),
    ]
    assert notes_of(loaded) == (
        "a.box: its label is missing: write one",
        "a.box/half.txt: only its first part was read, because it is damaged: get it again",
        "a.box/good.txt: odd: even it",
    )
    assert set(loaded.unread) >= {"a.box/locked.txt", "a.box/broken.pdf", "a.box/half.txt (in part)"}


def test_a_file_that_ends_early_keeps_what_was_read_and_says_so(folder: Path, tmp_path: Path) -> None:
    (folder / "a.box").write_bytes(
        box(
            ("Member", "one.txt"),
            ("Data", b"one\n"),
            ("Member", "two.txt"),
            ("Data", b"tw"),
            ("Fault", "damaged", "", "get it again"),
        )
    )
    loaded = load([folder / "a.box"], tmp_path / "c")
    assert text_of(loaded) == "one\ntw"
    cut = "only its first part was read, because it is a box that is damaged or truncated: get it again"
    assert notes_of(loaded) == (f"a.box/two.txt: {cut}", f"a.box: {cut}")


@pytest.mark.parametrize(
    ("pieces", "message"),
    [
        ((), "a.box is a box without any file: name a file that holds text"),
        (
            (("Member", "a"),),
            r"a box in which nothing could be read \(1 empty\): name a file that holds text",
        ),
        (
            (("Member", "a"), ("Problem", "locked", "unlock it", "missing")),
            r"a box in which nothing could be read \(1 locked\): unlock it",
        ),
        (
            (("Member", "a"), ("Fault", "locked")),
            "a.box is a box protected by a password: save a copy without one",
        ),
        ((("Member", ""), ("Data", bytes(range(256)) * 8)), "a.box is binary: name a file that holds text"),
    ],
)
def test_a_file_without_a_readable_member_is_refused(
    folder: Path, tmp_path: Path, pieces: tuple[tuple[object, ...], ...], message: str
) -> None:
    (folder / "a.box").write_bytes(box(*pieces))
    with pytest.raises(DocumentError, match=message):
        load([folder / "a.box"], tmp_path / "c")
    (folder / "b.txt").write_text("text\n")
    loaded = load([folder], tmp_path / "c2")
    assert text_of(loaded) == "text\n"
    assert any("a.box" in name for name, _ in skipped_of(loaded))


def test_a_member_without_a_name_is_the_packed_file(folder: Path, tmp_path: Path) -> None:
    (folder / "a.csv.box").write_bytes(box(("Member", ""), ("Data", b"bees,7\n")))
    assert names(load([folder / "a.csv.box"], tmp_path / "c")) == [("a.csv.box", "csv")]


def test_a_box_in_a_box_is_opened_and_a_deeper_one_is_named(folder: Path, tmp_path: Path) -> None:
    third = box(("Member", "c.txt"), ("Data", b"deep"))
    second = box(("Member", "b.txt"), ("Data", b"there\n"), ("Member", "third.box"), ("Data", third))
    (folder / "a.box").write_bytes(box(("Member", "second.box"), ("Data", second)))
    loaded = load([folder], tmp_path / "c")
    assert names(loaded) == [("a.box/second.box/b.txt", "text")]
    assert loaded.unread == ("a.box/second.box/third.box",)


def test_pieces_of_members_pass_through_frames() -> None:
    pieces: list[Piece] = [
        Member("é" * 9_000, "csv"),
        Data(b"\0" * (LARGEST + 1)),
        Problem("torn", "mend it", "missing"),
    ]
    stream = io.BytesIO(b"".join(packed(piece) for piece in pieces))
    member, first, second, unread = (read_piece(stream.read) for _ in range(4))
    assert member == Member("é" * 4_000, "csv")
    assert isinstance(first, Data)
    assert (len(first.data), second) == (LARGEST, Data(b"\0"))
    assert unread == Problem("torn", "mend it", "missing")


@pytest.mark.parametrize(
    ("name", "safe"),
    [
        ("../../etc/passwd", "etc/passwd"),
        ("/a//b/./c", "a/b/c"),
        ("C:\\logs\\a.log", "C:/logs/a.log"),
        ("a\x1b[31m\n\u202eb", "a\ufffd[31m\ufffd\ufffdb"),
        ("..", ""),
        ("\udcff", "\ufffd"),
    ],
)
def test_names_are_made_safe(name: str, safe: str) -> None:
    assert safe_name(name) == safe
