from __future__ import annotations

import hashlib
import os
import stat
import tracemalloc
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rlm.sandbox.context.writer import ContextFile, ContextFileWriter
from rlm.sandbox.errors import ContextFileError
from rlm.sandbox.text.body import BODY_NAME, INDEX_NAME, MANIFEST_NAME, Body, BodyError

BOM = b"\xef\xbb\xbf"


def write(folder: Path, *documents: tuple[str, list[bytes | str]]) -> ContextFile:
    with ContextFileWriter(folder) as writer:
        for name, pieces in documents:
            writer.begin_document(name)
            for piece in pieces:
                writer.write(piece)
            writer.end_document()
        return writer.finish()


def body_bytes(context: ContextFile) -> bytes:
    return (context.folder / BODY_NAME).read_bytes()


def test_facts_match_what_was_written(tmp_path: Path) -> None:
    text = "naïve 世界 🙂\r\nsecond\n"
    context = write(tmp_path / "c", ("a.txt", [text]))
    data = text.encode()
    assert body_bytes(context) == data
    assert (context.chars, context.bytes, context.lines) == (len(text), len(data), 2)
    assert context.sha256 == hashlib.sha256(data).hexdigest()
    assert context.replaced == 0
    [document] = context.documents
    assert (document.name, document.kind, document.start, document.end) == ("a.txt", "text", 0, len(text))


def test_folder_and_files_are_private(tmp_path: Path) -> None:
    old = os.umask(0)
    try:
        context = write(tmp_path / "c", ("a", ["text"]))
    finally:
        os.umask(old)
    assert stat.S_IMODE(context.folder.stat().st_mode) == 0o700
    names = {file.name: stat.S_IMODE(file.stat().st_mode) for file in context.folder.iterdir()}
    assert names == {BODY_NAME: 0o600, INDEX_NAME: 0o600, MANIFEST_NAME: 0o600}


@pytest.mark.parametrize(
    ("pieces", "expected", "replaced"),
    [
        ([b"ok\xff\xfeok"], "ok\ufffd\ufffdok", 2),
        ([b"cut \xe4\xb8"], "cut \ufffd", 1),
        ([b"split \xe4", b"\xb8", b"\x96."], "split 世.", 0),
        ([b"\xf0\x9f", b"\x99", b"\x82"], "🙂", 0),
        ([b"genuine \xef\xbf\xbd and \xff"], "genuine \ufffd and \ufffd", 1),
        (["lone \ud800 and \udfff"], "lone \ufffd and \ufffd", 2),
        ([b"half \xe4", "text"], "half \ufffdtext", 1),
        ([BOM + b"x"], "x", 0),
        ([BOM[:1], BOM[1:2], BOM[2:], b"x"], "x", 0),
        ([BOM[:2]], "\ufffd", 1),
        ([BOM[:1], b"a"], "\ufffda", 1),
        (["\ufeffx\ufeff"], "x\ufeff", 0),
        ([BOM], "", 0),
        ([], "", 0),
    ],
)
def test_bytes_become_exact_text(
    tmp_path: Path, pieces: list[bytes | str], expected: str, replaced: int
) -> None:
    """A byte order mark, lone surrogates and invalid bytes are replaced and counted."""
    context = write(tmp_path / "c", ("a", pieces))
    assert body_bytes(context).decode() == expected
    assert context.replaced == replaced
    assert context.chars == len(expected)


def test_every_document_drops_its_own_byte_order_mark(tmp_path: Path) -> None:
    context = write(tmp_path / "c", ("a", [BOM + b"a\n"]), ("b", [BOM + b"b"]))
    assert body_bytes(context) == b"a\nb"


def test_a_newline_is_put_between_documents_and_belongs_to_the_first(tmp_path: Path) -> None:
    context = write(
        tmp_path / "c",
        ("a", ["one"]),
        ("empty", []),
        ("also", [""]),
        ("b", ["two\n"]),
        ("c", ["é"]),
        ("d", []),
    )
    assert body_bytes(context).decode() == "one\ntwo\né"
    assert [(d.name, d.start, d.end) for d in context.documents] == [
        ("a", 0, 4),
        ("empty", 4, 4),
        ("also", 4, 4),
        ("b", 4, 8),
        ("c", 8, 9),
        ("d", 9, 9),
    ]


@given(
    st.lists(
        st.tuples(st.sampled_from("abc"), st.lists(st.text(alphabet="aé世\n\r", max_size=6), max_size=3))
    )
)
def test_documents_tile_the_body(tmp_path_factory: pytest.TempPathFactory, documents: list) -> None:
    context = write(tmp_path_factory.mktemp("c") / "c", *documents)
    text = body_bytes(context).decode()
    at = 0
    for (name, pieces), document in zip(documents, context.documents, strict=True):
        own = "".join(pieces)
        assert document.name == name
        assert document.start == at
        found = text[document.start : document.end]
        assert found in (own, own + "\n")
        assert found == own or not own.endswith("\n")
        at = document.end
    assert at == len(text) == context.chars
    assert context.lines == len(text.split("\n")) - (text.endswith("\n") or not text)


def test_large_pieces_and_small_ones_give_the_same_context(tmp_path: Path) -> None:
    text = "línea 世界 🙂 ordinary words\n" * 90_000
    data = text.encode()
    whole = write(tmp_path / "a", ("a", [data]))
    parts = write(tmp_path / "b", ("a", [data[at : at + 7_919] for at in range(0, len(data), 7_919)]))
    as_text = write(tmp_path / "c", ("a", [text]))
    for other in (parts, as_text):
        assert other.sha256 == whole.sha256
        assert (other.folder / INDEX_NAME).read_bytes() == (whole.folder / INDEX_NAME).read_bytes()


def test_memory_stays_bounded_however_much_is_written(tmp_path: Path) -> None:
    piece = ("some words, " * 80 + "é\n").encode() * 1000
    big = piece * 100
    with ContextFileWriter(tmp_path / "c") as writer:
        writer.begin_document("a")
        tracemalloc.start()
        writer.write(big)
        _, peak = tracemalloc.get_traced_memory()
        tracemalloc.stop()
        writer.finish()
    assert len(big) > 90_000_000
    assert peak < 32_000_000


def test_a_half_written_folder_is_no_context(tmp_path: Path) -> None:
    writer = ContextFileWriter(tmp_path / "c")
    writer.begin_document("a")
    writer.write("text")
    with pytest.raises(BodyError, match="not a finished context folder"):
        Body.open(tmp_path / "c")
    writer.abort()
    assert not (tmp_path / "c").exists()
    writer.abort()


def test_an_exception_leaves_nothing_behind(tmp_path: Path) -> None:
    def fail() -> None:
        with ContextFileWriter(tmp_path / "c") as writer:
            writer.begin_document("a")
            raise RuntimeError

    with pytest.raises(RuntimeError):
        fail()
    assert not (tmp_path / "c").exists()


def test_abort_keeps_a_folder_it_did_not_make(tmp_path: Path) -> None:
    folder = tmp_path / "mine"
    folder.mkdir()
    (folder / "mine.txt").write_text("kept")
    ContextFileWriter(folder).abort()
    assert [file.name for file in folder.iterdir()] == ["mine.txt"]


def test_a_second_context_in_the_same_folder_is_refused(tmp_path: Path) -> None:
    context = write(tmp_path / "c", ("a", ["first"]))
    with pytest.raises(ContextFileError, match="already holds a context"):
        ContextFileWriter(context.folder)
    assert body_bytes(context) == b"first"


def test_no_permission_is_one_clear_line(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("in the way")
    with pytest.raises(
        ContextFileError, match=r"cannot create the context in .*use another folder"
    ) as caught:
        ContextFileWriter(tmp_path / "file")
    assert "\n" not in str(caught.value)


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="needs /dev/full")
def test_a_full_disk_is_one_clear_line(tmp_path: Path) -> None:
    writer = ContextFileWriter(tmp_path / "c")
    full = os.open("/dev/full", os.O_WRONLY)
    os.dup2(full, writer._body._file.fileno())
    os.close(full)
    writer.begin_document("a")
    writer.write("x" * 1_000)
    with pytest.raises(ContextFileError, match=r"No space left on device\. Free space"):
        writer.finish()
    writer.abort()
    assert not (tmp_path / "c").exists()


def test_writing_without_a_document_is_refused(tmp_path: Path) -> None:
    with ContextFileWriter(tmp_path / "c") as writer:
        with pytest.raises(ContextFileError, match="begin_document"):
            writer.write("text")
        with pytest.raises(ContextFileError, match="begin_document"):
            writer.end_document()


def test_a_damaged_folder_is_a_context_file_error(tmp_path: Path) -> None:
    context = write(tmp_path / "c", ("a", ["text"]))
    (context.folder / MANIFEST_NAME).write_text("{")
    with pytest.raises(ContextFileError, match="damaged: make it again"):
        context.open()
