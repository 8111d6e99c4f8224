"""Test subtitles: a cue is a line with its time, and its words can be quoted over several cues."""

from __future__ import annotations

import io
from pathlib import Path

import pytest
from document_tree import guessed_of, remarks_of, text_of
from hypothesis import given, settings
from hypothesis import strategies as st

from rlm.answers.citations import cite
from rlm.documents import StreamSource, load
from rlm.documents.formats.piece import Ended, Fault
from rlm.documents.formats.subtitles import read_subtitles
from rlm.errors import DocumentError
from rlm.runtime import RLM
from rlm.sandbox.text.parts import part_at
from rlm.settings import Settings

SRT = """1
00:00:01,000 --> 00:00:04,000
<i>The notice period</i>

2
00:00:04,100 --> 00:00:06,000
for the yard is

3
00:12:05,100 --> 00:12:09,000 X1:10
three weeks &amp; no more.
{\\an8}Really.
"""
VTT = """WEBVTT - Talk on bees

STYLE
::cue { color: red }

NOTE The buyer is Kestrel.

intro
00:01.000 --> 00:04.000 align:start
<v Roger Bingham>We are in <b>New York</b> City

00:04.000 --> 00:06.000
<v Roger Bingham>and 2 < 3 in the frost

NOTE between

00:06.000 --> 00:08.000
<v Neil deGrasse Tyson>cost <00:06.500><c>14 hives</c>
"""


def test_a_cue_is_a_line_with_its_time(tmp_path: Path) -> None:
    (tmp_path / "film.srt").write_text("\ufeff" + SRT.replace("\n", "\r\n"))
    (tmp_path / "talk.vtt").write_text(VTT)
    loaded = load([tmp_path / "film.srt", tmp_path / "talk.vtt"], tmp_path / "c")
    assert text_of(loaded) == (
        "[00:00:01] The notice period\n[00:00:04] for the yard is\n"
        "[00:12:05] three weeks & no more. Really.\n"
        "Talk on bees\nNOTE The buyer is Kestrel.\n[00:00:01] Roger Bingham: We are in New York City\n"
        "[00:00:04] and 2 < 3 in the frost\nNOTE between\n[00:00:06] Neil deGrasse Tyson: cost 14 hives\n"
    )
    with loaded.context.open() as body:
        text = body.text(0, body.chars)
        assert [part_at(body, text.index(word)) for word in ("weeks", "[00:12:05]", "Talk", "hives")] == [
            "00:12:05",
            "00:12:05",
            "00:00:01",
            "00:00:06",
        ]


async def test_a_sentence_over_several_cues_is_found_with_the_time_of_its_begin(tmp_path: Path) -> None:
    (tmp_path / "film.srt").write_text(SRT * 3)
    quote = "The notice period for the yard is three weeks & no more."
    skipping = "The notice period for the yard is no more."
    with load([tmp_path / "film.srt"], tmp_path / "c").context.open() as body:
        cited = (await cite([quote, quote.replace("yard", "mill"), skipping], "", body)).citations
    assert [(one.verified, one.place) for one in cited] == [
        (True, "film.srt, 00:00:01"),
        (False, "input"),
        (False, "input"),
    ]


def test_a_question_is_answered_with_its_time(tmp_path: Path) -> None:
    (tmp_path / "film.srt").write_text(SRT)
    result = RLM("extractive", settings=Settings(store=tmp_path / "rlm.db")).run_sync(
        "How many weeks is it?", tmp_path / "film.srt"
    )
    assert "film.srt, 00:12:05" in [one.place for one in result.citations]


def test_captions_that_roll_up_show_each_line_once(tmp_path: Path) -> None:
    (tmp_path / "a.vtt").write_text(
        "WEBVTT\nKind: captions\n\n00:00:00.160 --> 00:00:02.000\n \nthe bees came in the<c> spring</c>\n\n"
        "00:00:02.000 --> 00:00:02.010\nthe bees came in the spring\n \n\n"
        "00:00:02.010 --> 00:00:04.000\nthe bees came in the spring\nand left in May\n"
    )
    text = text_of(load([tmp_path / "a.vtt"], tmp_path / "c"))
    assert text == "Kind: captions\n[00:00:00] the bees came in the spring\n[00:00:02] and left in May\n"


def test_other_encodings_and_pipes(tmp_path: Path) -> None:
    srt = "1\n00:00:01,000 --> 00:00:04,000\nОн сказал, что мост закрыт до осени.\n" * 5
    loaded = load([StreamSource("stdin", io.BytesIO(srt.encode("cp1251")))], tmp_path / "c")
    assert "мост закрыт" in text_of(loaded)
    assert list(guessed_of(loaded).values()) == ["cp1251"]
    assert [one.kind for one in loaded.context.documents] == ["subtitles"]


def test_a_time_that_cannot_be_read_is_told(tmp_path: Path) -> None:
    (tmp_path / "a.srt").write_text(SRT + "\n4\n00:99 --> later\nlost words\n")
    loaded = load([tmp_path / "a.srt"], tmp_path / "c")
    assert "lost words" in text_of(loaded)
    assert loaded.unread == ()
    assert remarks_of(loaded) == (
        "a.srt: 1 times cannot be read, and stand as text: correct them if they matter",
    )


def test_a_file_without_times_is_refused(tmp_path: Path) -> None:
    (tmp_path / "a.srt").write_text("only words\n")
    with pytest.raises(DocumentError, match=r"it has no time.*rename it to \.txt"):
        load([tmp_path / "a.srt"], tmp_path / "c")


@settings(max_examples=200, deadline=None)
@given(st.text(alphabet="0123456789:,.-> \n<iv/>&{}\\NOTESWBV", max_size=200))
def test_any_text_is_read_or_refused(text: str) -> None:
    data = (SRT + text).encode()
    try:
        *_, last = read_subtitles(io.BytesIO(data), len(data))
    except Fault:
        return
    assert isinstance(last, Ended)


@pytest.mark.parametrize("encoding", ["utf-16", "utf-16-le", "utf-32", "cp1251", "shift_jis"])
def test_other_encodings_are_read(tmp_path: Path, encoding: str) -> None:
    words = (
        "契約期間は十七週間です。" if encoding == "shift_jis" else "Мост закрыли в апреле, и он не открыт."
    )
    cue = f"1\n00:00:05,000 --> 00:00:09,000\n{words}\n"
    (tmp_path / "a.srt").write_bytes(cue.encode(encoding))
    assert text_of(load([tmp_path / "a.srt"], tmp_path / "c")) == f"[00:00:05] {words}\n"


def test_calendars_and_notebooks_in_utf16_are_read(tmp_path: Path) -> None:
    event = "BEGIN:VCALENDAR\r\nBEGIN:VEVENT\r\nSUMMARY:Совет\r\nEND:VEVENT\r\nEND:VCALENDAR\r\n"
    (tmp_path / "a.ics").write_bytes(event.encode("utf-16"))
    cells = '{"cells": [{"cell_type": "markdown", "source": "Мост закрыли."}]}'
    (tmp_path / "b.ipynb").write_bytes(cells.encode("utf-16"))
    text = text_of(load([tmp_path / "a.ics", tmp_path / "b.ipynb"], tmp_path / "c"))
    assert "Event 1: Совет" in text
    assert "Мост закрыли." in text
