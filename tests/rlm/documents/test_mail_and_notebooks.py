"""Mail and notebooks are decoded, and what is not decoded is named: raw, they would hide their words."""

from __future__ import annotations

import base64
import io
import json
import subprocess
import sys
import zipfile
from email.message import EmailMessage
from pathlib import Path
from typing import Any

import pytest
from document_tree import notes_of, text_of
from handmade_pdf import PAGES, pdf_by_hand
from hypothesis import given, settings
from hypothesis import strategies as st

from rlm.documents import StreamSource, load
from rlm.documents.formats.mail import read_mail
from rlm.documents.formats.notebook import read_notebook
from rlm.documents.formats.piece import Ended, Fault, Heading
from rlm.errors import DocumentError
from rlm.runtime import RLM
from rlm.settings import Settings

ANSWER = "The notice period is three weeks."


def mail(text: str = f"{ANSWER}\n", subject: str = "Kündigung") -> EmailMessage:
    message = EmailMessage()
    message["From"] = "Jörg Müller <j@example.com>"
    message["To"] = "ann@example.com"
    message["Subject"] = subject
    message.set_content(text, cte="base64")
    return message


def test_a_mail_is_decoded_and_its_attachments_are_documents(tmp_path: Path) -> None:
    pdf_by_hand(tmp_path / "lease.pdf", PAGES)
    message = mail()
    message.add_alternative("<p>The notice period is <b>three</b> weeks.</p>", subtype="html")
    lease = (tmp_path / "lease.pdf").read_bytes()
    message.add_attachment(lease, maintype="application", subtype="pdf", filename="lease.pdf")
    message.add_attachment("Die Miete beträgt 900.\n", filename="rent.txt", charset="latin-1")
    message.add_attachment(b"bee,7\n", maintype="application", subtype="octet-stream", filename="bees.csv")
    message.add_attachment(mail("The code is 77.\n", "Forwarded"))
    message.add_attachment(bytes(range(256)), maintype="application", subtype="zip")
    message.add_attachment(b"sig", maintype="application", subtype="pkcs7-signature", filename="smime.p7s")
    message.add_attachment(b"locked", maintype="application", subtype="pkcs7-mime", filename="smime.p7m")
    (tmp_path / "a.eml").write_bytes(bytes(message))
    loaded = load([tmp_path / "a.eml"], tmp_path / "c")
    assert [(one.name, one.kind) for one in loaded.context.documents] == [
        ("a.eml", "mail"),
        ("a.eml/lease.pdf", "pdf"),
        ("a.eml/rent.txt", "text"),
        ("a.eml/bees.csv", "csv"),
    ]
    text = text_of(loaded)
    assert text.startswith("# Kündigung\nFrom: Jörg Müller <j@example.com>\nTo: ann@example.com\n")
    assert text.count(ANSWER) == 1
    assert "## Part 2 (lease.pdf, application/pdf)\nAttachment of " in text
    assert ": a document of its own, lease.pdf\n" in text
    assert "## Message 2: Forwarded\n" in text
    assert "The code is 77." in text
    assert text.endswith("Die Miete beträgt 900.\nbee,7\n")
    assert set(loaded.unread) == {"a.eml/part 7.zip", "a.eml/smime.p7m"}


def test_an_archive_in_a_mail_in_an_archive_is_opened(tmp_path: Path) -> None:
    inner = io.BytesIO()
    with zipfile.ZipFile(inner, "w") as archive:
        archive.writestr("rent.txt", "The rent is 900 euros.\n")
    message = mail("See attached.\n")
    message.add_attachment(inner.getvalue(), maintype="application", subtype="zip", filename="b.zip")
    with zipfile.ZipFile(tmp_path / "a.zip", "w") as archive:
        archive.writestr("inbox/1.eml", bytes(message))
    loaded = load([tmp_path / "a.zip"], tmp_path / "c")
    assert [one.name for one in loaded.context.documents] == [
        "a.zip/inbox/1.eml",
        "a.zip/inbox/1.eml/b.zip/rent.txt",
    ]


def test_mails_within_mails_end_somewhere(tmp_path: Path) -> None:
    message = mail("innermost\n", "level 9")
    for level in range(8, 0, -1):
        outer = mail(f"level {level}\n", f"level {level}")
        outer.add_attachment(
            bytes(message), maintype="application", subtype="octet-stream", filename="inner.eml"
        )
        message = outer
    (tmp_path / "a.eml").write_bytes(bytes(message))
    loaded = load([tmp_path / "a.eml"], tmp_path / "c")
    assert len(loaded.context.documents) == 5
    (unread,) = loaded.unread
    assert unread == "a.eml" + "/inner.eml" * 5


def test_html_with_more_than_its_plain_form_is_read_too(tmp_path: Path) -> None:
    message = mail("Your mail program shows no HTML.\n")
    message.add_alternative(f"<h1>Notice</h1><p>{ANSWER * 5}</p>", subtype="html")
    (tmp_path / "a.eml").write_bytes(bytes(message))
    assert ANSWER in text_of(load([tmp_path / "a.eml"], tmp_path / "c"))


def test_encoded_mail_is_known_without_its_suffix(tmp_path: Path) -> None:
    """A maildir names its files after machines; a pipe has no name."""
    (tmp_path / "1699.host,S=1:2,S").write_bytes(bytes(mail()))
    assert ANSWER in text_of(load([tmp_path / "1699.host,S=1:2,S"], tmp_path / "c1"))
    with (tmp_path / "1699.host,S=1:2,S").open("rb") as stream:
        assert ANSWER in text_of(load([StreamSource("stdin", stream)], tmp_path / "c2"))
    assert ANSWER in text_of(load([bytes(mail())], tmp_path / "c3"))
    subject = b"From: Ann\nSubject: =?utf-8?B?R3LDvMOfZQ==?=\n\nThe rent is due.\n"
    assert text_of(load([subject], tmp_path / "c5")).startswith("# Grüße\nFrom: Ann\n")
    memo = "From: Ann\nTo: Ben\nSubject: Rent\n\nIt is due.\n"
    (tmp_path / "memo.txt").write_text(memo)
    assert text_of(load([tmp_path / "memo.txt"], tmp_path / "c4")) == memo


def mailbox(mails: list[EmailMessage], line_end: bytes = b"\n") -> bytes:
    box = b"".join(b"From j@example.com Mon Jan  5 10:00:00 2026\n" + bytes(one) + b"\n\n" for one in mails)
    return box.replace(b"\n", line_end)


@pytest.mark.parametrize("line_end", [b"\n", b"\r\n"])
def test_a_mailbox_is_its_messages(tmp_path: Path, line_end: bytes) -> None:
    mails = [
        mail(f"The rent of yard {number} is {number}00 euros.\n", f"Yard {number}") for number in (1, 2, 3)
    ]
    mails[1].add_attachment("It is paid in May.\n", filename="note.txt")
    (tmp_path / "box.mbox").write_bytes(mailbox(mails, line_end))
    loaded = load([tmp_path / "box.mbox"], tmp_path / "c")
    text = text_of(loaded)
    assert [line for line in text.splitlines() if line.startswith("# ")] == [
        f"# Message {number}: Yard {number}" for number in (1, 2, 3)
    ]
    assert "The rent of yard 3 is 300 euros." in text
    assert [one.name for one in loaded.context.documents] == ["box.mbox", "box.mbox/message 2/note.txt"]
    assert text.rstrip().endswith("It is paid in May.")


def test_a_patch_in_a_mail_is_no_mail_of_its_own(tmp_path: Path) -> None:
    line = f"From {'fc88cba4' * 5} Mon Sep 17 00:00:00 2001\n"
    (tmp_path / "a.mbox").write_bytes(
        mailbox([]) + f"From j@x.org Mon Jan  5 10:00:00 2026\nSubject: Rent\n\nSee:\n\n{line}a\n".encode()
    )
    text = text_of(load([tmp_path / "a.mbox"], tmp_path / "c"))
    assert text.count("# Message") == 1
    assert line in text
    (tmp_path / "b.mbox").write_text(f"{line}Subject: One\n\n1\n\n{line}Subject: Two\n\n2\n")
    assert text_of(load([tmp_path / "b.mbox"], tmp_path / "d")).count("# Message") == 2


@pytest.mark.parametrize("is_definite", [True, False])
def test_a_mail_that_is_only_signed_is_read(tmp_path: Path, is_definite: bool) -> None:
    """As OpenSSL writes S/MIME: in BER of known length, or as a stream. An encrypted one is named."""

    def element(tag: int, content: bytes) -> bytes:
        if is_definite or not tag & 0x20:
            return bytes((tag, 0x82)) + len(content).to_bytes(2, "big") + content
        return bytes((tag, 0x80)) + content + b"\0\0"

    def smime(kind: str, inner: bytes) -> EmailMessage:
        oid = element(0x06, bytes.fromhex("2a864886f70d0107" + kind))
        text = element(0x04, inner) if is_definite else element(0x24, element(0x04, inner))
        held = element(0x30, element(0x06, b"\1") + element(0xA0, text))
        parts = element(0x30, element(0x02, b"\1") + element(0x31, b"") + held + element(0x31, b""))
        message = mail("The whole mail is signed.\n")
        message.clear_content()
        data = element(0x30, oid + element(0xA0, parts))
        message.set_content(data, maintype="application", subtype="pkcs7-mime", filename="smime.p7m")
        return message

    (tmp_path / "a.eml").write_bytes(bytes(smime("02", bytes(mail()))))
    loaded = load([tmp_path / "a.eml"], tmp_path / "c")
    assert ANSWER in text_of(loaded)
    assert loaded.unread == ()
    (tmp_path / "b.eml").write_bytes(bytes(smime("03", bytes(mail()))))
    loaded = load([tmp_path / "b.eml"], tmp_path / "d")
    assert ANSWER not in text_of(loaded)
    assert loaded.unread == ("b.eml/smime.p7m",)


def test_messages_are_split_wherever_a_block_ends(monkeypatch: pytest.MonkeyPatch) -> None:
    mails = [mail(f"Yard {number}\n", f"Yard {number}") for number in range(5)]
    box = mailbox(mails)
    whole = list(read_mail(io.BytesIO(box), len(box)))
    for size in (*range(1, 90), len(box)):
        monkeypatch.setattr("rlm.documents.formats.mail._BLOCK", size)
        assert list(read_mail(io.BytesIO(box), len(box))) == whole


def test_a_mailbox_has_no_limit_of_messages() -> None:
    box = mailbox([mail("x\n", "Yard")]) * 11_000
    pieces = read_mail(io.BytesIO(box), len(box))
    assert sum(isinstance(piece, Heading) and piece.level == 1 for piece in pieces) == 11_000


def notebook(*cells: dict[str, Any]) -> str:
    return json.dumps({"cells": cells, "nbformat": 4, "nbformat_minor": 5, "metadata": {}})


def test_a_notebook_is_its_cells_and_their_output(tmp_path: Path) -> None:
    outputs = [
        {"output_type": "stream", "name": "stdout", "text": ["42\n"]},
        {"output_type": "display_data", "data": {"image/png": "iVBOR"}},
        {
            "output_type": "execute_result",
            "data": {"text/html": "<table><tr><td>honey</td><td>7</td></tr></table>"},
        },
        {
            "output_type": "error",
            "ename": "ValueError",
            "evalue": "no",
            "traceback": ["\x1b[31mValueError\x1b[0m: no"],
        },
    ]
    (tmp_path / "a.ipynb").write_text(
        notebook(
            {"cell_type": "markdown", "source": ["# Bees\n", "They “dance”.\n"]},
            {"cell_type": "code", "source": "print(6 * 7)", "outputs": outputs},
        )
    )
    loaded = load([tmp_path / "a.ipynb"], tmp_path / "c")
    assert text_of(loaded) == (
        "# Cell 1 (markdown)\n# Bees\nThey “dance”.\n\n# Cell 2 (code)\nprint(6 * 7)\n\n"
        "Output:\n42\n\nOutput:\nhoney | 7\n\nOutput:\nValueError: no\n\n"
    )
    assert notes_of(loaded) == (
        "a.ipynb: outputs without text were not read (1 image/png): describe them in a cell",
    )
    with loaded.context.open() as body:
        assert body.heading_path(body.text(0, body.chars).index("dance")) == ("Cell 1 (markdown)",)


@pytest.mark.parametrize("text", ["[" * 100_000, "{}", "no JSON", '{"cells": 5}'])
def test_a_notebook_that_is_none_is_refused_in_one_line(tmp_path: Path, text: str) -> None:
    (tmp_path / "a.ipynb").write_text(text)
    with pytest.raises(DocumentError, match=r"a notebook.*: (?:open it|get it again)"):
        load([tmp_path / "a.ipynb"], tmp_path / "c")


@pytest.mark.parametrize(
    ("name", "data", "what"),
    [
        ("a.key", b"PK\x03\x04\0\0" * 99, r"Keynote slides\): export them as \.pptx or PDF"),
        ("a.ppt", b"\xd0\xcf\x11\xe0" + bytes(600), r"old PowerPoint slides\): save them as \.pptx"),
        ("a.ps", b"%!PS-Adobe-3.0\n(The not) show (ice) show\n", "PostScript: convert it to PDF"),
        (
            "a.msg",
            b"\xd0\xcf\x11\xe0\xa1\xb1\x1a\xe1" + bytes(600),
            "an Outlook message that is damaged or truncated",
        ),
    ],
)
def test_a_text_that_would_have_to_be_decoded_is_refused_by_name(
    tmp_path: Path, name: str, data: bytes, what: str
) -> None:
    folder = tmp_path / "folder"
    folder.mkdir()
    (folder / name).write_bytes(data)
    with pytest.raises(DocumentError, match=what):
        load([folder / name], tmp_path / "c1")
    (folder / "z.txt").write_text("Another text.\n")
    (skipped,) = load([folder], tmp_path / "c2").problems
    assert skipped.document == name
    assert skipped.remedy


def test_a_long_list_of_recipients_is_whole(tmp_path: Path) -> None:
    people = ", ".join(f"Person {number} <p{number}@example.org>" for number in range(400))
    (tmp_path / "a.eml").write_text(f"From: a@b\nTo: {people}\nSubject: x\n\nHello.\n")
    assert "Person 399 <p399@example.org>\n" in text_of(load([tmp_path / "a.eml"], tmp_path / "c"))


def test_a_citation_shows_the_part_and_the_cell(tmp_path: Path) -> None:
    (tmp_path / "a.eml").write_bytes(bytes(mail()))
    (tmp_path / "b.ipynb").write_text(
        notebook({"cell_type": "markdown", "source": "The yard costs 900 euros."})
    )
    rlm = RLM("extractive", settings=Settings(store=tmp_path / "rlm.db"))
    for question, path, place in (
        ("What is the notice period?", "a.eml", "under “Part 1 (text/plain)”"),
        ("What does the yard cost?", "b.ipynb", "b.ipynb, cell 1"),
    ):
        result = rlm.run_sync(question, tmp_path / path)
        assert place in result.citations[0].place


_IMPORTS = """
import io, sys
from rlm.documents.formats import mail, worker
worker.prepare("rlm.documents.formats.mail:read_mail")
before = set(sys.modules)
for data in DATA:
    list(mail.read_mail(io.BytesIO(data), len(data)))
print(sorted(set(sys.modules) - before))
"""


def test_after_the_preparation_nothing_is_imported() -> None:
    """The process that reads untrusted mail can open nothing once it reads."""
    message = mail("Grüße\n")
    message.add_alternative("<p>Grüße</p>", subtype="html", charset="cp1250")
    message.add_attachment(bytes(300), maintype="image", subtype="png", filename="é.png")
    data = base64.b64encode(("吾輩は猫である。" * 9).encode("shift_jis"))
    raw = b"Subject: x\nContent-Transfer-Encoding: base64\n\n" + data
    code = _IMPORTS.replace("DATA", repr([bytes(message), raw]))
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"


@settings(max_examples=200, deadline=None)
@given(st.binary(max_size=300), st.sampled_from([b"", b"Content-Type: multipart/mixed; boundary=b\n\n--b\n"]))
def test_any_bytes_are_read_or_refused(data: bytes, head: bytes) -> None:
    """Property: a reader ends with Ended, or raises Fault."""
    import io

    for reader in (read_mail, read_notebook):
        try:
            *_, last = reader(io.BytesIO(head + data), len(data))
        except (Fault, ValueError, RecursionError):
            continue
        assert isinstance(last, Ended)
