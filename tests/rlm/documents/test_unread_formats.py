"""Files of kinds that nothing here reads: none may end in a calm "not in the documents"."""

from __future__ import annotations

import base64
import io
import json
import random
import zipfile
from pathlib import Path

import pytest

from rlm import RLM, Settings
from rlm.documents import Loaded, StreamSource, load
from rlm.errors import DocumentError
from rlm.tasks import ask, research, summarize

SECRET = "The notice period of the northern yard lease is seventeen weeks, as Mr Quimby agreed. "
LONG = (SECRET + "".join(f"Clause {i}: the tenant keeps item {i} in order. " for i in range(40))).encode()
QUESTION = "What is the notice period of the northern yard lease?"
NOISE = random.Random(1).randbytes(3_000)


def _zip(name: str) -> bytes:
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w") as archive:
        archive.writestr(name, NOISE)
    return out.getvalue()


def _armor(kind: str) -> bytes:
    body = base64.encodebytes(NOISE)
    return b"-----BEGIN %b-----\n\n%b-----END %b-----\n" % (kind.encode(), body, kind.encode())


MAIL = b"From: a@b.c\nSubject: papers\nMIME-Version: 1.0\n"
REFUSED = {
    "memo.pages": _zip("Index/Document.iwa"),
    "talk.key": _zip("Index/Document.iwa"),
    "notes.one": bytes.fromhex("e4525c7b8cd8a74daeb15378d02996d3") + NOISE,
    "plan.dwg": b"AC1032" + bytes(10) + NOISE,
    "film.mp4": b"\0\0\0\x20ftypisom" + NOISE,
    "call.wav": b"RIFF\0\0\0\0WAVEfmt " + NOISE,
    "tool.exe": b"MZ\x90\0" + NOISE,
    "m.pyc": b"\xa7\r\r\n" + bytes(12) + b"\xe3" + NOISE,
    "lib.so": b"\x7fELF\2\1\1" + NOISE,
    "f.woff": b"wOFF" + NOISE,
    "art.psd": b"8BPS\0\1" + NOISE,
    "body.p7m": bytes.fromhex("30820a0006092a864886f70d010703") + NOISE,
    "sec.gpg": b"\x85\x02\x0c\x03" + NOISE,
    "vault.age": b"age-encryption.org/v1\n-> X25519 abc\n" + NOISE,
    "doc.ps": b"%!PS-Adobe-3.0\n(The not) show (ice period) show\nshowpage\n",
    "msg.asc": _armor("PGP MESSAGE"),
    "cms.pem": _armor("PKCS7"),
    "secrets.yml": b"$ANSIBLE_VAULT;1.1;AES256\n" + NOISE[:400].hex().encode(),
    "app.duckdb": bytes(8) + b"DUCK" + NOISE,
    "table.npz": _zip("a.npy"),
    "cjk.txt": ("合同的通知期为十七周。北院租约由昆比先生在奥斯陆签订" * 20).encode("utf-16-le"),
}
CUT = {
    "smime.eml": MAIL + b"Content-Type: application/pkcs7-mime; smime-type=enveloped-data; name=smime.p7m\n"
    b"Content-Transfer-Encoding: base64\n\n" + base64.encodebytes(NOISE),
}  # fmt: skip
READ = {
    "min.json": json.dumps(
        {"leases": [{"id": i} for i in range(400)], "note": SECRET}, separators=(",", ":")
    ),
    "pic.svg": f"<svg><path d='M1 2{' L3 4' * 300}'/><text>{SECRET}</text></svg>",
    "signed.asc": f"-----BEGIN PGP SIGNED MESSAGE-----\n\n{SECRET}\n" + _armor("PGP SIGNATURE").decode(),
    "mail.txt": _armor("PGP MESSAGE").decode() + SECRET,
    "key.pem": f"{SECRET}\n" + _armor("CERTIFICATE").decode(),
    "sums.txt": SECRET + "\n" + "\n".join(random.Random(i).randbytes(32).hex() for i in range(50)),
    "utf16.txt": LONG.decode().encode("utf-16-le"),
    "query.log": SECRET + "\nGET /a?b=c%3D&d=\nGET /a?b=\nx=\n" * 20,
    "dna.txt": SECRET + "\n" + "GATTACA" * 200,
}


def _load(folder: Path, *paths: Path | StreamSource) -> Loaded:
    return load(list(paths), folder / "context")


@pytest.mark.parametrize("name", REFUSED)
def test_a_file_that_nothing_reads_is_refused_by_name(tmp_path: Path, name: str) -> None:
    (tmp_path / name).write_bytes(REFUSED[name])
    with pytest.raises(DocumentError, match=name) as raised:
        _load(tmp_path, tmp_path / name)
    assert ": " in str(raised.value).partition(name)[2]


@pytest.mark.parametrize("name", CUT)
def test_an_encrypted_part_counts_as_unread(tmp_path: Path, name: str) -> None:
    (tmp_path / name).write_bytes(CUT[name])
    loaded = _load(tmp_path, tmp_path / name)
    assert any(entry.startswith(name) for entry in loaded.unread)


@pytest.mark.parametrize("name", READ)
def test_what_can_be_read_does_not(tmp_path: Path, name: str) -> None:
    content = READ[name]
    (tmp_path / name).write_bytes(content if isinstance(content, bytes) else content.encode())
    assert _load(tmp_path, tmp_path / name).unread == ()


@pytest.fixture
def papers(tmp_path: Path) -> Path:
    """A folder with a text that holds no answer, and files that nobody reads."""
    folder = tmp_path / "papers"
    folder.mkdir()
    (folder / "rent.txt").write_text("The rent of the southern yard is 900 a month.\n" * 30)
    for name, content in {**REFUSED, **CUT}.items():
        (folder / name).write_bytes(content)
    return folder


async def test_every_job_names_what_it_did_not_read(papers: Path, tmp_path: Path) -> None:
    rlm = RLM("extractive", settings=Settings(store=tmp_path / "rlm.db"))
    question = "What did Zebedee Quux pay for the harpsichord?"
    direct = await rlm.run(question, papers)
    asked = (await ask(rlm, question, papers)).result
    async with rlm.session(papers) as session:
        in_session = await session.run(question)
    for result in (direct, asked, in_session):
        assert not result.found
        assert "Not read: " in result.text
    for result in (
        direct, asked, in_session, (await research(rlm, question, papers)).result,
        (await summarize(rlm, papers, kind="chat")).result,
    ):  # fmt: skip
        named = " ".join(result.unread)
        assert not [name for name in CUT if name not in named]
        assert not [name for name in REFUSED if name not in named and not name.endswith(_NO_TEXT)]


_NO_TEXT = (".exe", ".pyc", ".so", ".woff", "cjk.txt")
