"""Test Outlook messages and 7z archives: files that other programs made, broken ones, and locked ones."""

from __future__ import annotations

import gzip
import io
from pathlib import Path

import pytest
from document_tree import text_of

from rlm.documents import load
from rlm.documents.formats import outlook
from rlm.documents.formats.piece import text_of as text_of_pieces
from rlm.errors import DocumentError

FILES = Path(__file__).parent / "files"


def test_a_message_is_read_with_its_attachment(tmp_path: Path) -> None:
    """The file was made by aspose-email-foss."""
    loaded = load([FILES / "letter.msg"], tmp_path / "c")
    assert [(one.name, one.kind) for one in loaded.context.documents] == [
        ("letter.msg", "msg"),
        ("letter.msg/rent.csv", "csv"),
    ]
    text = text_of(loaded)
    assert text.startswith("# Kündigung\nFrom: Jörg Müller <j@example.com>\n")
    assert "Date: Sun, 15 Mar 2026 10:30:00 +0000\n" in text
    assert "## Part 1 (text/plain)\nThe notice period is three weeks.\n" in text
    assert text.count("7,900\n") == 400
    with loaded.context.open() as body:
        assert body.heading_path(text.index("three weeks")) == ("Kündigung", "Part 1 (text/plain)")


def test_the_headers_that_came_with_a_message_count(monkeypatch: pytest.MonkeyPatch) -> None:
    """Exchange writes a line of its own above them."""
    text = outlook._Properties.text
    headers = "Microsoft Mail Internet Headers Version 2.0\r\nFrom: Ann <ann@example.org>\r\n"
    monkeypatch.setattr(
        outlook._Properties,
        "text",
        lambda self, number: headers if number == outlook._HEADERS else text(self, number),
    )
    with (FILES / "letter.msg").open("rb") as file:
        assert "From: Ann <ann@example.org>\n" in text_of_pieces(outlook.read_msg(file, 0))


def test_a_message_in_a_message_is_part_of_it(tmp_path: Path) -> None:
    """The file was made by Outlook; it is of the tests of msg_parser."""
    text = text_of(load([FILES / "outer.msg.gz"], tmp_path / "c"))
    assert "# outer subject\nTo: outer@foo.bar\n" in text
    assert "Outer body\n" in text
    assert "## Message 2: test\nTo: test@foobar.com\n" in text


@pytest.mark.parametrize("share", [0.02, 0.3, 0.6, 0.9])
def test_a_message_that_is_cut_is_refused_or_named(tmp_path: Path, share: float) -> None:
    whole = gzip.decompress((FILES / "outer.msg.gz").read_bytes())
    (tmp_path / "a.msg").write_bytes(whole[: int(len(whole) * share)])
    try:
        loaded = load([tmp_path / "a.msg"], tmp_path / "c")
    except DocumentError as error:
        assert "a.msg is an Outlook message that is damaged" in str(error)  # noqa: PT017
    else:
        assert loaded.unread == ("a.msg (in part)",)


def test_a_message_of_another_program_is_a_text(tmp_path: Path) -> None:
    """Tcl and ROS keep their messages in files of this name."""
    (tmp_path / "de.msg").write_text("::msgcat::mcset de Abort Abbrechen\n")
    loaded = load([tmp_path / "de.msg"], tmp_path / "c")
    assert (loaded.context.documents[0].kind, loaded.problems) == ("text", ())


def archive_7z(password: str | None = None) -> bytes:
    py7zr = pytest.importorskip("py7zr")
    made = io.BytesIO()
    with py7zr.SevenZipFile(made, "w", password=password) as archive:
        archive.writestr("start\ndisk full\n", "app/a.log")
        archive.writestr("bee,7\n", "b.csv")
    return made.getvalue()


def test_the_files_of_a_7z_archive_are_documents(tmp_path: Path) -> None:
    (tmp_path / "a.7z").write_bytes(archive_7z())
    loaded = load([tmp_path / "a.7z"], tmp_path / "c")
    assert [one.name for one in loaded.context.documents] == ["a.7z/app/a.log", "a.7z/b.csv"]
    assert text_of(loaded) == "start\ndisk full\nbee,7\n"


def test_a_7z_archive_that_cannot_be_read_says_why(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    whole = archive_7z()
    for name, data, reason in (
        ("cut.7z", whole[:40], "damaged or truncated"),
        ("damaged.7z", whole[:34] + bytes(12) + whole[46:], "damaged or truncated"),
        ("locked.7z", archive_7z("secret"), "protected by a password"),
    ):
        (tmp_path / name).write_bytes(data)
        with pytest.raises(DocumentError, match=reason):
            load([tmp_path / name], tmp_path / "c")
