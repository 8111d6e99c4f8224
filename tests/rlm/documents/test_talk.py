"""Chats that programs export as text, and git logs, become messages. Other texts stay as they are."""

from __future__ import annotations

import tempfile
from pathlib import Path

import pytest
from document_tree import text_of
from hypothesis import given
from hypothesis import strategies as st

from rlm.documents import TextSource, load
from rlm.documents.talk import lines_of, talk_form

WHATSAPP = (
    "\u200e[12.03.24, 10:01:22] Anna Müller: hello: you\n[12.03.24, 10:01:59] ~\u202fBen: long\nsecond line\n"
    "[12.03.24, 10:02:10] \u200e+49 170 1234567: \u200epicture left out\n"
    "[12.03.24, 10:03:00] Anna Müller: bye\n"
)
ANDROID = (
    "01/05/2026, 10:00 - Messages are end-to-end encrypted.\n01/05/2026, 10:00 - Anna: hello\n"
    "01/05/2026, 10:01 - Ben: hi\n01/05/2026, 10:02 - Anna: bye\n"
)
IRC = (
    "--- Day changed Tue 2024-03-12\n10:00 <@anna> hello\n10:01 -!- ben has joined\n10:02 < ben> hi\n"
    "10:03 <@anna> bye\n"
)
HEADED = "{}\nUnder 40 ms\n\n{}\nok\n\n{}\nlmdb\n"
DISCORD = HEADED.format("ann — 03/01/2026 9:01 AM", "ben — 03/01/2026 9:02 AM", "ann — 03/02/2026 9:05 AM")
SLACK = HEADED.format("Ann Lee  [9:01 AM]", "Ben  [9:02 AM]", "Ann Lee  [9:05 AM]")
TEAMS = HEADED.format("[1/3/2026 9:01 AM] Lee, Ann", "[1/3/2026 9:02 AM] Ben", "[2/3/2026 9:05 AM] Lee, Ann")
TELEGRAM = HEADED.format("Ann, [12.03.24 10:01]", "Ben, [12.03.24 10:02]", "Ann, [12.03.24 10:05]")
GIT = """\
commit 9b1e6f2aa
Author: Ann <ann@example.org>
Date:   Fri Nov 20 13:16:19 2026 +0000

    Fix the lock

commit 1c2d3e4ff (tag: v1)
Merge: 123 456
Author: Ben <ben@example.org>
Date:   Thu Nov 19 09:00:00 2026 +0000

    Add the table
"""
LINES = st.sampled_from([*IRC.splitlines(), "", "just words", "  indented", "\ufeffé – 中文"])
Said = list[tuple[str, str, str]]


def said(text: str, folder: Path) -> tuple[str, Said]:
    """Return the kind, and author, time and text of each message."""
    with load([TextSource("talk.txt", text)], folder / "c").context.open() as body:
        [document] = body.documents
        found = []
        for row in range(len(body.marks.messages)):
            start, end, _ = body.marks.messages.row(row)
            header, _, words = body.text(start, end).partition("\n")
            known = body.marks.header(row, header)
            assert known.number == row + 1
            found.append((known.author, known.time, words.strip()))
        return document.kind, found


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        (
            WHATSAPP,
            [
                ("Anna Müller", "12.03.24, 10:01:22", "hello: you"),
                ("Ben", "12.03.24, 10:01:59", "long\nsecond line"),
                ("+49 170 1234567", "12.03.24, 10:02:10", "\u200epicture left out"),
                ("Anna Müller", "12.03.24, 10:03:00", "bye"),
            ],
        ),
        (
            ANDROID,
            [
                ("", "01/05/2026, 10:00", "Messages are end-to-end encrypted."),
                ("Anna", "01/05/2026, 10:00", "hello"),
                ("Ben", "01/05/2026, 10:01", "hi"),
                ("Anna", "01/05/2026, 10:02", "bye"),
            ],
        ),
        (
            IRC,
            [
                ("anna", "Tue 2024-03-12 10:00", "hello"),
                ("", "Tue 2024-03-12 10:01", "-!- ben has joined"),
                ("ben", "Tue 2024-03-12 10:02", "hi"),
                ("anna", "Tue 2024-03-12 10:03", "bye"),
            ],
        ),
        *(
            (text, [(a, t1, "Under 40 ms"), (b, t2, "ok"), (a, t3, "lmdb")])
            for text, a, b, t1, t2, t3 in (
                (DISCORD, "ann", "ben", "03/01/2026 9:01 AM", "03/01/2026 9:02 AM", "03/02/2026 9:05 AM"),
                (SLACK, "Ann Lee", "Ben", "9:01 AM", "9:02 AM", "9:05 AM"),
                (TEAMS, "Lee, Ann", "Ben", "1/3/2026 9:01 AM", "1/3/2026 9:02 AM", "2/3/2026 9:05 AM"),
                (TELEGRAM, "Ann", "Ben", "12.03.24 10:01", "12.03.24 10:02", "12.03.24 10:05"),
            )
        ),
    ],
    ids=["whatsapp", "android", "irc", "discord", "slack", "teams", "telegram"],
)
def test_the_messages_of_an_export_have_author_and_time(text: str, expected: Said, tmp_path: Path) -> None:
    assert said(text, tmp_path) == ("chat", expected)


def test_each_commit_of_a_log_is_a_message_and_keeps_its_text(tmp_path: Path) -> None:
    kind, found = said(GIT, tmp_path)
    assert (kind, [one[:2] for one in found]) == (
        "commits",
        [("Ann", "Fri Nov 20 13:16:19 2026 +0000"), ("Ben", "Thu Nov 19 09:00:00 2026 +0000")],
    )
    assert found[1][2] == GIT[GIT.index("commit 1c2d") :].strip()
    short = said("9b1e6f2 Fix the lock\n1c2d3e4 Add the table\n7777777 Begin\n", tmp_path / "b")
    assert short == ("commits", [("", "", "9b1e6f2 Fix the lock"), ("", "", "1c2d3e4 Add the table"),
                                 ("", "", "7777777 Begin")])  # fmt: skip


@pytest.mark.parametrize(
    "text",
    [
        "The grass is green. At 10:00 we go: there and back.\n" * 20,
        "2026-05-01T10:00:00Z ERROR: disk full\n2026-05-01T10:00:01Z INFO: retrying\n" * 5,
        "[2026-05-01 10:00:00] production.ERROR: full\n[2026-05-01 10:00:01] worker: retrying\n" * 5,
        "[2026-05-01 10:00:00] app: started\n[2026-05-01 10:00:01] app: stopped\n" * 5,
        "Mar 01 09:00:11 db01 postgres[100]: ERROR: deadlock\nMar 01 09:01:11 db01 cron[7]: done\n" * 5,
        "def f(at: str = '10:00') -> None:\n    commit = 'abcdef1'\n" * 5,
        "MATT: Where were we at 10:00?\nLAURA: In the cave.\n" * 5,
        "Minutes\n\nAnna, [12.03.24 10:01]\nhi\n",
    ],
    ids=["prose", "log", "levels", "one-program", "syslog", "code", "play", "one-message"],
)
def test_other_texts_stay_as_they_are(text: str, tmp_path: Path) -> None:
    loaded = load([TextSource("talk.txt", text)], tmp_path / "c")
    assert text_of(loaded) == text
    assert (loaded.context.documents[0].kind, loaded.context.documents[0].messages) == ("text", None)


@given(st.lists(LINES, max_size=30))
def test_no_line_of_a_chat_is_lost(lines: list[str]) -> None:
    """Property: whatever follows the begin of a chat, its words are in the body in their order."""
    text = IRC * 9 + "\n".join(lines)
    assert talk_form(text) == "chat"
    with tempfile.TemporaryDirectory() as folder:
        whole = text_of(load([TextSource("talk.txt", text)], Path(folder) / "c"))
    at = 0
    for line in text.splitlines():
        words = line.partition("> ")[2] or line.removeprefix("10:01 ")
        at = whole.index(words, at) + len(words)


def test_lines_are_the_same_whatever_the_pieces() -> None:
    text = "one\n\ntwo\r\nthree"
    for size in (1, 2, 5, 50):
        pieces = (text[at : at + size] for at in range(0, len(text), size))
        assert list(lines_of(pieces)) == ["one\n", "\n", "two\r\n", "three"]
