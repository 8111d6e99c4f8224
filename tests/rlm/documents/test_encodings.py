from __future__ import annotations

import math
import struct
from pathlib import Path

import pytest
from document_tree import guessed_of, put, text_of

from rlm.documents import load
from rlm.documents.encoding import HEAD, codec_of, decode_whole, looks_binary
from rlm.documents.formats.html import decode_markup
from rlm.errors import DocumentError

FRENCH = "Les élèves français étaient déjà là, où l'été passé ils mangeaient des crêpes brûlées.\n"
RUSSIAN = "Съешь же ещё этих мягких французских булок, да выпей чаю. Большой текст на русском.\n"
JAPANESE = "吾輩は猫である。名前はまだ無い。どこで生れたかとんと見当がつかぬ。\n"


@pytest.mark.parametrize(
    ("data", "expected"),
    [
        (FRENCH.encode("latin-1"), FRENCH),
        (FRENCH.encode("utf-16"), FRENCH),
        (b"\xff\xfe\x00\x00" + FRENCH.encode("utf-32-le"), FRENCH),
        (b"\xef\xbb\xbf" + FRENCH.encode(), FRENCH),
        ((RUSSIAN * 3).encode("cp1251"), RUSSIAN * 3),
        ((JAPANESE * 3).encode("shift_jis"), JAPANESE * 3),
        ("It’s – “quoted”.\n".encode("cp1252"), "It’s – “quoted”.\n"),
        # The first accent comes far after the head from which the encoding was detected.
        (b"plain words\n" * 90_000 + FRENCH.encode("latin-1"), "plain words\n" * 90_000 + FRENCH),
        (b"colour \x1b[31mred\x1b[0m\n", "colour \x1b[31mred\x1b[0m\n"),
    ],
)
def test_other_encodings_are_detected(tmp_path: Path, tree: Path, data: bytes, expected: str) -> None:
    (tree / "a.txt").write_bytes(data)
    loaded = load([tree / "a.txt"], tmp_path / "c")
    assert text_of(loaded) == expected
    assert loaded.replaced == 0


def test_damaged_utf8_stays_utf8_and_is_counted(tmp_path: Path, tree: Path) -> None:
    """Invalid bytes are replaced, counted and reported."""
    (tree / "a.txt").write_bytes((JAPANESE * 20).encode() + b"\xff\xfe cut \xe4\xb8")
    loaded = load([tree / "a.txt"], tmp_path / "c")
    assert text_of(loaded) == JAPANESE * 20 + "\ufffd\ufffd cut \ufffd"
    assert loaded.replaced == 3


def test_a_utf16_file_cut_in_a_character_is_counted(tmp_path: Path, tree: Path) -> None:
    (tree / "a.txt").write_bytes("ab".encode("utf-16") + b"\x41")
    loaded = load([tree / "a.txt"], tmp_path / "c")
    assert (text_of(loaded), loaded.replaced) == ("ab\ufffd", 1)


def test_a_guess_at_the_encoding_is_reported(tmp_path: Path, tree: Path) -> None:
    """A guessed encoding is reported. A byte order mark is not a guess, and neither is damaged UTF-8."""
    put(
        tree,
        a_dot_txt=b"Caf\xe9 and more for 5 \x80\n",
        b_dot_txt="plain",
        c_dot_txt=FRENCH.encode("utf-16"),
        d_dot_txt=(JAPANESE * 20).encode() + b"\xff",
        e_dot_txt=(RUSSIAN * 3).encode("cp1251"),
    )
    loaded = load([tree], tmp_path / "c")
    assert guessed_of(loaded) == {"a.txt": "cp1252", "e.txt": "cp1251"}
    assert loaded.replaced == 1


@pytest.mark.parametrize("encoding", ["utf-16-le", "utf-16-be", "utf-32-le", "utf-32-be"])
@pytest.mark.parametrize(
    "text", [FRENCH, RUSSIAN * 3, JAPANESE * 300, "id;name\r\n1;Ann\r\n", "<p>Мост über</p>"]
)
def test_wide_encodings_need_no_byte_order_mark(tmp_path: Path, tree: Path, encoding: str, text: str) -> None:
    """Programs of Windows write logs and exports this way."""
    (tree / "a.txt").write_bytes(text.encode(encoding))
    loaded = load([tree / "a.txt"], tmp_path / "c")
    assert text_of(loaded) == text
    assert guessed_of(loaded) == {"a.txt": encoding}
    assert loaded.replaced == 0


@pytest.mark.parametrize("nuls", [b"\0", b"\0" * 4096])
def test_nuls_in_a_text_are_replaced_and_counted(tmp_path: Path, tree: Path, nuls: bytes) -> None:
    """A crash of a machine leaves NULs in its logs."""
    line = b"2026-01-06 INFO served the caf\xc3\xa9 in 868 ms\n"
    (tree / "a.log").write_bytes(line * 300 + nuls + line * 300)
    loaded = load([tree / "a.log"], tmp_path / "c")
    assert text_of(loaded) == (line * 300).decode() + "\ufffd" * len(nuls) + (line * 300).decode()
    assert loaded.replaced == len(nuls)


def test_formats_with_nuls_stay_binary(tmp_path: Path, tree: Path) -> None:
    for name, data in (
        ("one", b"\0"),
        ("elf", Path("/bin/sh").read_bytes()),
        ("pyc", compile("x = 1", "x", "exec").co_code + b"\0" * 20),
        ("tar", b"name.txt" + b"\0" * 92 + b"0000644\0" * 3 + b"words " * 40),
        ("pcm", b"".join(struct.pack("<h", int(9_000 * math.sin(at / 7))) for at in range(9_000))),
        ("ints", b"".join(struct.pack("<H", at) for at in range(20_000))),
    ):
        (tree / name).write_bytes(data)
        with pytest.raises(DocumentError, match="is binary"):
            load([tree / name], tmp_path / f"c-{name}")


def test_a_nul_among_bytes_that_are_not_utf_8_is_binary() -> None:
    """Samples of sound are bytes that every encoding of one byte takes for letters."""
    sound = (
        b".snd" + struct.pack(">5I", 24, 28_000, 1, 8_000, 1) + bytes(200 + at % 40 for at in range(28_000))
    )
    assert looks_binary(sound[:HEAD])


def test_a_nul_in_a_text_with_a_few_accents_is_damage(tmp_path: Path, tree: Path) -> None:
    line = b"2026-01-06 INFO served the caf\xe9 in 868 ms\n"
    (tree / "a.log").write_bytes(line * 300 + b"\0" + line * 300)
    loaded = load([tree / "a.log"], tmp_path / "c")
    assert text_of(loaded) == (line * 300).decode("cp1252") + "\ufffd" + (line * 300).decode("cp1252")
    assert loaded.replaced == 1


SENTENCES = {
    "cp1252": "Über die Kündigung entscheidet der Vorstand.",
    "cp1251": "Арендная плата девятьсот рублей в месяц.",
    "koi8-r": "Мост закрыли в апреле.",
    "cp1253": "Η περίοδος ειδοποίησης είναι δεκαεπτά εβδομάδες.",
    "cp1250": "Příliš žluťoučký kůň úpěl.",
    "cp1254": "Kira aylık dokuz yüz liradır, öğle vakti ödenir.",
    "cp1255": "תקופת ההודעה היא שבעה עשר שבועות",
    "cp1256": "مدة الإشعار سبعة عشر أسبوعا",
    "cp874": "ระยะเวลาแจ้งล่วงหน้าคือสิบเจ็ดสัปดาห์",
    "cp932": "契約期間は十七週間です。",
    "euc_jp": "家賃は月九百ユーロです。",
    "gb18030": "租金是每月九百欧元。",
    "big5hkscs": "通知期為十七週。",
    "cp949": "월세는 구백 유로입니다.",
    "iso2022_jp": "契約期間は十七週間です。",
    "iso2022_kr": "월세는 구백 유로입니다.",
}
LOG = "".join(f"2024-05-01 10:00:{at % 60:02} INFO request={at * 7919} status=200\n" for at in range(400))


@pytest.mark.parametrize("encoding", SENTENCES)
@pytest.mark.parametrize("around", ["", LOG])
@pytest.mark.parametrize("times", [1, 40])
def test_a_sentence_in_any_encoding_is_read(encoding: str, around: str, times: int) -> None:
    """Alone, among a log in ASCII, and as a long text."""
    text = f"{around}{(SENTENCES[encoding] + chr(10)) * times}{around}"
    data = text.encode(encoding)
    assert not looks_binary(data[:HEAD])
    assert decode_whole(data)[:2] == (text, 0)


@pytest.mark.parametrize("start", ["© 2024 Müller", "§ 5 Abs. 2", "½ Pfund", "Café"])
def test_a_character_at_the_edge_of_a_file_is_kept(start: str) -> None:
    """Its byte may look like the middle or the begin of a character in UTF-8."""
    assert decode_whole(start.encode("cp1252")) == (start, 0, "cp1252")


@pytest.mark.parametrize(
    ("head", "encoding", "text"),
    [
        ('<?xml version="1.0" encoding="{}"?>\n', "windows-1257", "ąžuolas"),
        ("# -*- coding: {} -*-\n", "windows-1251", "Мир"),
        ("#!/usr/bin/python\n# vim: set fileencoding={} :\n", "x-sjis", "日本語"),
        ("// vim: fenc={}\n", "iso-8859-9", "İstanbul ığdır"),
        ("; -*- mode: lisp; coding: {}-unix -*-\n", "windows-1253", "Ελλάδα"),
    ],
)
def test_the_encoding_that_a_text_declares_is_used(head: str, encoding: str, text: str) -> None:
    whole = head.format(encoding) + text
    data = whole.encode(codec_of(encoding))
    assert decode_whole(data) == (whole, 0, "")
    assert decode_whole(whole.encode()) == (whole, 0, ""), "UTF-8 counts more than what it declares"


@pytest.mark.parametrize(
    ("label", "data", "text"),
    [
        ("iso-8859-1", b"\x93hi\x94 \x80 5", "“hi” € 5"),
        ("ISO_8859-9", b"\x93\xfe", "“ş"),
        ("gb2312", "碁".encode("gbk"), "碁"),
        ("x-gbk", "租金".encode("gbk"), "租金"),
        ("windows-31j", "①".encode("cp932"), "①"),
        ("ks_c_5601-1987", "똠".encode("cp949"), "똠"),
        ("windows-874", "ไทย".encode("cp874"), "ไทย"),
        ("iso-8859-8-i", "שלום".encode("iso8859-8"), "שלום"),
        ("x-mac-roman", "é".encode("mac-roman"), "é"),
        ("us-ascii", "é".encode(), "é"),
        ("punycode", b"Bcher-kva", "Bcher-kva"),
    ],
)
def test_labels_mean_what_they_mean_on_the_web(label: str, data: bytes, text: str) -> None:
    assert decode_markup(b"<meta charset=%b>" % label.encode() + data)[0].endswith(text)
    assert decode_whole(data, label)[0] == text


@pytest.mark.parametrize(
    ("encoding", "words"),
    [("cp1252", "déjà vu"), ("cp1252", "25 °C"), ("cp1252", "© Acme"), ("koi8-r", "Ошибка входа")],
)
def test_a_log_that_repeats_a_few_words_is_read(encoding: str, words: str) -> None:
    text = "".join(f"{line} {words} id={number * 7919}\n" for number, line in enumerate(LOG.splitlines()))
    assert decode_whole(text.encode(encoding))[:2] == (text, 0)
