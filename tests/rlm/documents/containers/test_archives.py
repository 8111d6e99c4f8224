"""Test archives and packed files: what they hold is read as documents; what is not read is named."""

from __future__ import annotations

import bz2
import gzip
import io
import lzma
import os
import shutil
import sys
import tarfile
import zipfile
import zlib
from collections.abc import Callable, Mapping
from email.message import EmailMessage
from pathlib import Path

import pytest
from document_tree import names_of, notes_of, skipped_of, text_of
from handmade_pdf import PAGES, pdf_by_hand

from rlm.answers.citations import cite
from rlm.documents import ContextCache, FolderCache, Loaded, StreamSource, load
from rlm.documents.formats.converter import Converter
from rlm.errors import DocumentError

if sys.version_info >= (3, 14):
    from compression import zstd
else:
    from backports import zstd

LOG = "2026-11-23 10:00 start\n2026-11-23 10:01 disk full\n2026-11-23 10:02 stop\n"
PACKERS: Mapping[str, Callable[[bytes], bytes]] = {
    ".gz": gzip.compress,
    ".bz2": bz2.compress,
    ".xz": lzma.compress,
    ".zst": zstd.compress,
}


def tar_of(files: Mapping[str, bytes]) -> bytes:
    made = io.BytesIO()
    with tarfile.open(fileobj=made, mode="w") as archive:
        for name, data in files.items():
            info = tarfile.TarInfo(name)
            info.size = len(data)
            archive.addfile(info, io.BytesIO(data))
    return made.getvalue()


def zip_of(files: Mapping[str, bytes], method: int = zipfile.ZIP_DEFLATED) -> bytes:
    made = io.BytesIO()
    with zipfile.ZipFile(made, "w", method) as archive:
        for name, data in files.items():
            archive.writestr(name, data)
    return made.getvalue()


def loaded_from(tmp_path: Path, name: str, data: bytes) -> Loaded:
    (tmp_path / name).write_bytes(data)
    return load([tmp_path / name], tmp_path / "c")


async def place_of(loaded: Loaded, words: str) -> str:
    """Return where the words are, as a citation shows it."""
    with loaded.context.open() as body:
        (citation,) = (await cite([words], "", body)).citations
    assert citation.verified
    return citation.place


@pytest.mark.parametrize("suffix", PACKERS)
async def test_a_packed_file_is_what_it_holds(tmp_path: Path, suffix: str) -> None:
    loaded = loaded_from(tmp_path, f"app.log{suffix}", PACKERS[suffix](LOG.encode()))
    assert text_of(loaded) == LOG
    assert await place_of(loaded, "10:01 disk full") == f"app.log{suffix}:2"
    assert loaded.unread == ()


@pytest.mark.parametrize("suffix", PACKERS)
def test_parts_one_after_the_other_are_one_file(tmp_path: Path, suffix: str) -> None:
    pack = PACKERS[suffix]
    data = pack(LOG.encode()) + pack(b"") + pack(b"second\n" * 400_000) + b"\0" * 32
    assert text_of(loaded_from(tmp_path, f"a.log{suffix}", data)) == LOG + "second\n" * 400_000


@pytest.mark.parametrize("suffix", PACKERS)
def test_a_packed_file_that_is_cut_is_read_to_there_and_named(tmp_path: Path, suffix: str) -> None:
    lines = "".join(
        f"{number:x} {zlib.crc32(str(number).encode()):x}\n" for number in range(200_000)
    ).encode()
    packed = PACKERS[suffix](lines)
    loaded = loaded_from(tmp_path, f"a.log{suffix}", packed[: len(packed) // 2])
    text = text_of(loaded)
    assert lines.decode().startswith(text)
    assert len(text) > len(lines) // 8
    (note,) = notes_of(loaded)
    assert "only its first part was read, because it is" in note
    assert "damaged or truncated (it ends early): get it again" in note
    assert loaded.unread == (f"a.log{suffix} (in part)",)


@pytest.mark.parametrize("suffix", PACKERS)
def test_a_packed_file_that_is_damaged_or_empty_is_refused(tmp_path: Path, suffix: str) -> None:
    packed = PACKERS[suffix](LOG.encode())
    for name, data, reason in (
        ("damaged", packed[:-12] + bytes(12), "damaged|ends early"),
        ("no_magic", b"nothing packed", "damaged"),
        ("empty", b"", "empty"),
        ("empty_inside", PACKERS[suffix](b""), "empty"),
        ("binary", PACKERS[suffix](bytes(range(256)) * 40), "binary"),
    ):
        try:
            loaded = loaded_from(tmp_path, f"{name}{suffix}", data)
        except DocumentError as error:
            assert any(word in str(error) for word in reason.split("|"))  # noqa: PT017
        else:  # the checksum alone is wrong
            assert (name, len(loaded.unread)) == ("damaged", 1)
            shutil.rmtree(tmp_path / "c")


@pytest.mark.parametrize("suffix", PACKERS)
def test_foreign_bytes_after_a_packed_file_are_named(tmp_path: Path, suffix: str) -> None:
    loaded = loaded_from(tmp_path, f"a.log{suffix}", PACKERS[suffix](LOG.encode()) + b"not packed at all")
    assert text_of(loaded) == LOG
    (note,) = notes_of(loaded)
    assert "only its first part was read" in note
    assert "damaged or truncated" in note


def test_what_is_packed_is_read_by_its_own_kind(tmp_path: Path) -> None:
    pdf_by_hand(tmp_path / "report.pdf", PAGES)
    report = (tmp_path / "report.pdf").read_bytes()
    for name, data, kind in (
        ("table.csv.gz", gzip.compress(b"bee,7\n"), "csv"),
        ("report.pdf.xz", lzma.compress(report), "pdf"),
        ("page.html.bz2", bz2.compress(b"<html><p>honey"), "html"),
        ("noname", gzip.compress(b"text\n"), "text"),
    ):
        (tmp_path / name).write_bytes(data)
        loaded = load([tmp_path / name], tmp_path / f"c-{name}")
        assert [(one.name, one.kind) for one in loaded.context.documents] == [(name, kind)]
    with (tmp_path / "table.csv.gz").open("rb") as stream:
        assert text_of(load([StreamSource("stdin", stream)], tmp_path / "c")) == "bee,7\n"


@pytest.mark.parametrize("archive", ["a.jar", "a.tar", "a.tgz", "a.tar.zst"])
async def test_the_files_of_an_archive_are_documents(tmp_path: Path, archive: str) -> None:
    pdf_by_hand(tmp_path / "report.pdf", PAGES)
    mail = EmailMessage()
    mail["Subject"] = "Lease"
    mail.set_content("The notice period is three weeks.\n", cte="base64")
    files = {
        "app/a.log": LOG.encode(),
        "app/b.csv": b"bee,7\n",
        "app/deep/report.pdf": (tmp_path / "report.pdf").read_bytes(),
        "app/lease": bytes(mail),
        "app/logo.png": b"\x89PNG\r\n\x1a\n" + bytes(64),
        "app/old.log.gz": gzip.compress(b"long ago\n"),
        "app/void.txt": b"",
    }
    data = zip_of(files) if archive.endswith((".zip", ".jar")) else tar_of(files)
    packer = PACKERS.get("." + archive.rpartition(".")[2].replace("tgz", "gz"), bytes)
    loaded = loaded_from(tmp_path, archive, packer(data))
    assert [(one.name, one.kind) for one in loaded.context.documents] == [
        (f"{archive}/app/a.log", "text"),
        (f"{archive}/app/b.csv", "csv"),
        (f"{archive}/app/deep/report.pdf", "pdf"),
        (f"{archive}/app/lease", "mail"),
        (f"{archive}/app/old.log.gz", "text"),
    ]
    assert await place_of(loaded, "10:01 disk full") == f"{archive}/app/a.log:2"
    assert "three weeks" in text_of(loaded)
    assert skipped_of(loaded) == [
        (f"{archive}/app/logo.png", "binary (a picture)"),
        (f"{archive}/app/void.txt", "empty"),
    ]


def test_archives_are_opened_once_within_an_archive(tmp_path: Path) -> None:
    deepest = zip_of({"c.txt": b"too deep\n"})
    inner = tar_of({"b.txt": b"there\n", "third.zip": deepest})
    loaded = loaded_from(tmp_path, "a.zip", zip_of({"second.tar.gz": gzip.compress(inner)}))
    assert text_of(loaded) == "there\n"
    assert names_of(loaded) == ["a.zip/second.tar.gz/b.txt"]
    assert loaded.unread == ("a.zip/second.tar.gz/third.zip",)
    (skipped,) = loaded.problems
    assert skipped.remedy == "unpack it and name the folder"


def test_names_cannot_leave_the_archive_or_hide(tmp_path: Path) -> None:
    names = ("../../etc/passwd", "/srv/keys/id", "a\x1b[2Jb", "same.txt", "./same.txt", ".git/config")
    loaded = loaded_from(tmp_path, "a.tar", tar_of({name: f"{name}\n".encode() for name in names}))
    assert names_of(loaded) == [
        "a.tar/etc/passwd",
        "a.tar/srv/keys/id",
        "a.tar/a\ufffd[2Jb",
        "a.tar/same.txt",
        "a.tar/same.txt (2)",
    ]


def test_links_and_devices_of_an_archive_are_no_documents(tmp_path: Path) -> None:
    made = io.BytesIO()
    with tarfile.open(fileobj=made, mode="w") as archive:
        archive.addfile(tarfile.TarInfo("real"), None)
        for number, kind in enumerate((tarfile.SYMTYPE, tarfile.LNKTYPE, tarfile.CHRTYPE, tarfile.DIRTYPE)):
            info = tarfile.TarInfo(f"odd{number}")
            info.type, info.linkname = kind, "/etc/passwd"
            archive.addfile(info)
        info = tarfile.TarInfo("a.txt")
        info.size = 5
        archive.addfile(info, io.BytesIO(b"text\n"))
    loaded = loaded_from(tmp_path, "a.tar", made.getvalue())
    assert (names_of(loaded), len(loaded.problems)) == (["a.tar/a.txt"], 1)


@pytest.mark.parametrize("at", [0.3, 0.6])
def test_a_tar_that_is_cut_or_damaged_says_so(tmp_path: Path, at: float) -> None:
    data = tar_of({f"{number}.txt": LOG.encode() * 40 for number in range(40)})
    cut = int(len(data) * at)
    loaded = loaded_from(tmp_path, "cut.tar", data[:cut])
    assert "cut.tar (in part)" in loaded.unread
    assert len(loaded.context.documents) >= 40 * at - 8
    # The next header after this place is rubbish: tarfile takes it for the end.
    header = -(-cut // 512) * 512
    rubbish = data[:header] + bytes(range(256)) * 40 + data[header + 256 * 40 :]
    (tmp_path / "damaged.tar").write_bytes(rubbish)
    loaded = load([tmp_path / "damaged.tar"], tmp_path / "c2")
    assert "damaged.tar (in part)" in loaded.unread


def test_a_zip_says_which_of_its_files_cannot_be_read(tmp_path: Path) -> None:
    data = bytearray(zip_of({"bad.txt": LOG.encode(), "good.txt": b"good\n", "locked.txt": b"x"}))
    data[45] ^= 0xFF
    at = data.rindex(b"PK\x01\x02", 0, data.rindex(b"locked.txt"))
    data[at + 8] |= 1  # encrypted
    loaded = loaded_from(tmp_path, "a.zip", bytes(data))
    assert text_of(loaded).endswith("good\n")
    assert {one.partition(" (in part)")[0] for one in loaded.unread} == {"a.zip/bad.txt", "a.zip/locked.txt"}


@pytest.mark.parametrize(
    ("name", "data", "message"),
    [
        (
            "cut.zip",
            zip_of({"a.txt": LOG.encode()})[:-9],
            "a zip archive that is damaged or truncated",
        ),
        ("none.zip", b"PK\x05\x06" + bytes(18), "a zip archive without any file"),
        ("text.zip", b"no archive", "a zip archive that is damaged"),
        ("none.tar", bytes(10240), "a tar archive without any file"),
        ("text.tar", b"no archive", "a tar archive that is damaged"),
        ("pictures.zip", zip_of({"a.png": b"\x89PNG\r\n\x1a\n"}), r"\(1 binary \(a picture\)\)"),
        ("a.rar", b"Rar!\x1a\x07\x01\x00" + bytes(99), "an archive.*: unpack it and name the folder"),
    ],
)
def test_an_archive_without_a_readable_file_is_refused(
    tmp_path: Path, name: str, data: bytes, message: str
) -> None:
    with pytest.raises(DocumentError, match=message):
        loaded_from(tmp_path, name, data)


def test_a_document_that_is_packed_is_not_taken_for_an_archive(tmp_path: Path) -> None:
    data = zip_of({"Index/Document.iwa": b"\0\1\2", "preview.txt": b"a text"})
    (tmp_path / "a.pages").write_bytes(data)
    with pytest.raises(DocumentError, match="a Pages document"):
        load([tmp_path / "a.pages"], tmp_path / "c")


def overlapping_zip() -> bytes:
    """Return a zip archive whose entries share one piece of packed data."""
    data = bytearray(zip_of({"a": b"a" * 10_000_000}))
    directory = data.index(b"PK\x01\x02")
    end = data.index(b"PK\x05\x06")
    entry = data[directory:end]
    tail = bytearray(data[end:])
    tail[8:10] = tail[10:12] = (1_000).to_bytes(2, "little")
    tail[12:16] = (len(entry) * 1_000).to_bytes(4, "little")
    return bytes(data[:directory] + entry * 1_000 + tail)


def test_bombs_are_bounded(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """With a smaller limit, so that the test is quick."""
    monkeypatch.setattr("rlm.documents.formats.members._MIN_UNPACKED", 8 << 20)
    text = b"a" * 79 + b"\n"
    bombs = {
        "line.log.gz": gzip.compress(text * 400_000),
        "zeros.gz": gzip.compress(bytes(100_000_000)),
        "line.tar.xz": lzma.compress(tar_of({f"{n}": text * 50_000 for n in range(10)})),
        "nested.zip": zip_of(
            {f"{n}.zip": zip_of({"a.txt": text * 100_000}) for n in range(10)}, zipfile.ZIP_STORED
        ),
        "overlap.zip": overlapping_zip(),
    }
    for name, bomb in bombs.items():
        assert len(bomb) < 300_000
        (tmp_path / name).write_bytes(bomb)
        try:
            loaded = load([tmp_path / name], tmp_path / f"c-{name}")
        except DocumentError as error:
            assert name in ("zeros.gz", "overlap.zip"), error  # noqa: PT017
        else:
            assert loaded.context.bytes <= max(8 << 20, 200 * len(bomb))
            assert f"{name} (in part)" in loaded.unread
            assert any("(a bomb?)" in note for note in notes_of(loaded))


def test_an_archive_of_too_many_files_is_read_in_part(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("rlm.documents.formats.members._MAX_MEMBERS", 50)
    loaded = loaded_from(tmp_path, "a.tar", tar_of({f"{n}.txt": b"x\n" for n in range(60)}))
    assert len(loaded.context.documents) == 50
    assert notes_of(loaded)[-1] == (
        "a.tar: only its first part was read, because it is a tar archive of more than 50 files: "
        "unpack it and name the folders that matter"
    )


def test_an_archive_is_read_from_the_cache(tmp_path: Path) -> None:
    cache = ContextCache(FolderCache(tmp_path / "cache"), least_bytes=0)
    (tmp_path / "a.zip").write_bytes(zip_of({"a.txt": LOG.encode(), "locked.rar": b"Rar!\x1a\x07\0" * 99}))
    os.utime(tmp_path / "a.zip", (0, 0))
    seen = []
    for number in range(2):
        loaded = load([tmp_path / "a.zip"], tmp_path / f"c{number}", cache=cache)
        assert loaded.lease is not None
        loaded.lease.close()
        seen.append((loaded.context.folder, loaded.context.documents, loaded.unread, notes_of(loaded)))
    assert seen[0] == seen[1]
    assert seen[0][2] == ("a.zip/locked.rar",)


def test_no_process_is_left_and_each_level_is_confined(tmp_path: Path) -> None:
    """The level is that of this machine; what cannot be confined is said in a note."""
    loaded = loaded_from(tmp_path, "a.zip", zip_of({"a.txt": b"text\n"}))
    with Converter() as converter:
        converter._worker.start()
        confined = bool(converter._worker.level)
    assert confined == (notes_of(loaded) == ())
