"""Test calendars and address books: what is folded, encoded or escaped is read as a person reads it."""

from __future__ import annotations

import base64
import io
from pathlib import Path

import pytest
from document_tree import notes_of, text_of
from hypothesis import given
from hypothesis import strategies as st

from rlm import RLM, Settings
from rlm.documents import Loaded, load
from rlm.documents.formats.calendar import read_calendar
from rlm.documents.formats.piece import Text
from rlm.errors import DocumentError

EVENT = """BEGIN:VCALENDAR\r
BEGIN:VEVENT\r
SUMMARY:Board meeting\r
DTSTART;TZID=Europe/Berlin:20261123T090000\r
ORGANIZER;CN="Ann Vos":mailto:ann@example.org\r
ATTENDEE;DELEGATED-TO="mailto:b@example.org";CN=Eve:mailto:e@example.org\r
DESCRIPTION:The notice period of the northern ya\r
 rd is three weeks\\, not two.\\nBring the lease.\r
END:VEVENT\r
BEGIN:VTODO\r
SUMMARY:Call the yard\r
END:VTODO\r
END:VCALENDAR\r
"""
CARD = """BEGIN:VCARD
VERSION:2.1
FN;CHARSET=ISO-8859-1;ENCODING=QUOTED-PRINTABLE:J=F6rg M=FCller
NOTE;ENCODING=QUOTED-PRINTABLE:pays within=20=
seventeen=20weeks
TEL;TYPE=home:+49 30 1234
PHOTO;ENCODING=b:{photo}
NOTE;ENCODING=BASE64:{note}
END:VCARD
"""


def loaded_from(folder: Path, name: str, text: str | bytes) -> Loaded:
    data = text.encode() if isinstance(text, str) else text
    (folder / name).write_bytes(data)
    return load([folder / name], folder / "context")


def test_events_are_sections_with_decoded_fields(tmp_path: Path) -> None:
    loaded = loaded_from(tmp_path, "team.ics", EVENT)
    text = text_of(loaded)
    assert "# Event 1: Board meeting\n" in text
    assert "# Task 1: Call the yard\n" in text
    assert "DESCRIPTION: The notice period of the northern yard is three weeks, not two.\n" in text
    assert "DTSTART (Europe/Berlin): 20261123T090000\n" in text
    assert "ORGANIZER (Ann Vos): mailto:ann@example.org\n" in text
    assert "ATTENDEE (DELEGATED-TO=mailto:b@example.org, Eve): mailto:e@example.org\n" in text
    assert notes_of(loaded) == ()


def test_a_card_of_an_old_phone_is_read(tmp_path: Path) -> None:
    photo = base64.b64encode(b"\xff\xd8\xff" + bytes(60)).decode()
    note = base64.b64encode("zahlt im März".encode()).decode()
    text = text_of(loaded_from(tmp_path, "card.vcf", CARD.format(photo=photo, note=note)))
    assert "# Contact 1: Jörg Müller\n" in text
    assert "NOTE: pays within seventeen weeks\n" in text
    assert "TEL (home): +49 30 1234\n" in text
    assert "PHOTO: 63 bytes, not read\n" in text
    assert "NOTE: zahlt im März\n" in text


def test_a_folded_answer_is_found_and_cited(tmp_path: Path) -> None:
    (tmp_path / "team.ics").write_text(EVENT)
    rlm = RLM("extractive", settings=Settings(store=tmp_path / "rlm.db"))
    result = rlm.run_sync("How long is the notice period of the northern yard?", tmp_path / "team.ics")
    (citation, *_) = result.citations
    assert "northern yard is three weeks" in citation.quote
    assert citation.verified
    assert citation.place.startswith("team.ics")
    assert "Event 1: Board meeting" in citation.place


def test_what_is_no_calendar_is_refused_and_odd_lines_are_kept(tmp_path: Path) -> None:
    with pytest.raises(DocumentError, match=r"it has no field.*rename it"):
        loaded_from(tmp_path, "a.ics", "just words here\nand here\n")
    loaded = loaded_from(tmp_path, "b.ics", "no field\nBEGIN:VEVENT\nSUMMARY:x\nX-RADIUS=49\nEND:VEVENT\n")
    assert text_of(loaded) == "no field\n\n# Event 1: x\nSUMMARY: x\nX-RADIUS=49\n\n"
    assert loaded.problems == ()


def test_a_file_is_known_by_its_first_line(tmp_path: Path) -> None:
    loaded = loaded_from(tmp_path, "invitation.txt", EVENT)
    assert [one.kind for one in loaded.context.documents] == ["calendar"]


@given(st.text(st.characters(codec="utf-8", exclude_categories=["Cc", "Cs"]), min_size=1, max_size=200))
def test_a_value_survives_folding_and_escaping(value: str) -> None:
    escaped = value.replace("\\", "\\\\").replace(";", "\\;").replace(",", "\\,")
    line = f"DESCRIPTION:{escaped}"
    folded = "\r\n ".join(line[at : at + 30] for at in range(0, len(line), 30))
    data = f"BEGIN:VEVENT\r\n{folded}\r\nEND:VEVENT\r\n".encode()
    shown = "".join(one.text for one in read_calendar(io.BytesIO(data), len(data)) if isinstance(one, Text))
    assert f"DESCRIPTION: {value}\n" in shown
