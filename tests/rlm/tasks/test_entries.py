"""Entries of histories: they are found by dates, names, headings and hashes, and no text is lost."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rlm.documents import TextSource, load
from rlm.tasks.summaries.entries import Entry, entries_of, is_history, split

CHAT_LOG = """\
[2026-05-01 10:00] Anna: The refund must be idempotent.
[2026-05-01 10:02] Ben: Agreed. We store the event id
  and refuse a known one.
[2026-05-01 10:05] Anna: Ship it on Friday.
"""
NAMES = """\
MATT: Welcome back, everybody.
LAURA: Where were we?
MATT: In the cave, with the door locked.
LAURA: I pick the lock.
"""
ROLES = """\
# Card 17: refunds

### user
Refund twice? Never again.

### assistant
I add a unique index:

```sql
### not a heading
CREATE UNIQUE INDEX x ON t(a);
```

### user
Good.
"""
SERVICE_LOG = """\
2026-05-01T10:00:00Z ERROR: disk full on node-7
2026-05-01T10:00:01Z INFO: retrying
Traceback (most recent call last):
  OSError: No space left
2026-05-01T10:00:09Z INFO: recovered
"""
SESSIONS = """\
=== SESSION 1 | DATE: 4:04 pm on 20 January, 2023 ===
[D1:1] Gina: Lost my job.
[D1:2] Jon: Me too.
=== SESSION 2 | DATE: 2:32 pm on 29 January, 2023 ===
[D2:1] Gina: I ordered adverts.
[D2:2] Jon: I am in Paris.
"""
GIT = """\
commit 9b1e6f2aa
Author: Ann <ann@example.org>
Date:   Fri Nov 20 13:16:19 2026 +0000

    Fix the lock

commit 1c2d3e4ff
Author: Ben <ben@example.org>
Date:   Thu Nov 19 09:00:00 2026 +0000

    Add the table
"""


SUBTITLES = """\
WEBVTT

00:00:01.000 --> 00:00:09.000
<v Ann>Must stay under 40 ms

00:01:01.000 --> 00:01:09.000
<v Ben>ok

00:02:01.000 --> 00:02:09.000
Ann: lmdb
"""
SYSLOG = """\
Mar 01 09:00:11 db01 postgres[100]: ERROR: deadlock
Mar 01 09:01:11 db01 postgres[101]: LOG: done
Mar 02 09:02:11 db01 cron[7]: started
"""
TONGUES = """\
1. März 2026 um 10:15 Uhr - Emil: Frist ist der 5. Mai
2026年3月5日 14:20 小王: 必须支持 200 个并发
5 mars 2026 à 09:12 - Fanny: On garde redis
7 марта 2026 г., 12:00 - Иван: сервер упал
"""
PATCH = """\
commit 9b1e6f2aa
Author: Ann <ann@example.org>
Date:   Fri Nov 20 13:16:19 2026 +0000

    Fix the lock

diff --git a/src/lock.py b/src/lock.py
index 1..2 100644
--- a/src/lock.py
+++ b/src/lock.py
@@ -1 +1 @@
-the old line is longer than fifty characters, as if a margin broke it
+the new line is longer than fifty characters, as if a margin broke it
"""


def found(text: str) -> list[tuple[str, str, str]]:
    """Author, time and the first words of each entry."""
    return [
        (one.author, one.time, " ".join(text[one.text : one.end].split())[:24].strip()) for one in split(text)
    ]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        (
            CHAT_LOG,
            [
                ("Anna", "2026-05-01 10:00", "The refund must be idemp"),
                ("Ben", "2026-05-01 10:02", "Agreed. We store the eve"),
                ("Anna", "2026-05-01 10:05", "Ship it on Friday."),
            ],
        ),
        (
            NAMES,
            [
                ("MATT", "", "Welcome back, everybody."),
                ("LAURA", "", "Where were we?"),
                ("MATT", "", "In the cave, with the do"),
                ("LAURA", "", "I pick the lock."),
            ],
        ),
        (
            ROLES,
            [
                ("user", "", "Refund twice? Never agai"),
                ("assistant", "", "I add a unique index: ``"),
                ("user", "", "Good."),
            ],
        ),
        (
            SERVICE_LOG,
            [
                ("", "2026-05-01T10:00:00Z", "ERROR: disk full on node"),
                ("", "2026-05-01T10:00:01Z", "INFO: retrying Traceback"),
                ("", "2026-05-01T10:00:09Z", "INFO: recovered"),
            ],
        ),
        (
            SESSIONS,
            [
                ("Gina", "4:04 pm on 20 January, 2023", "Lost my job."),
                ("Jon", "4:04 pm on 20 January, 2023", "Me too."),
                ("Gina", "2:32 pm on 29 January, 2023", "I ordered adverts."),
                ("Jon", "2:32 pm on 29 January, 2023", "I am in Paris."),
            ],
        ),
        (
            SUBTITLES,
            [
                ("", "", "WEBVTT"),
                ("Ann", "00:00:01.000", "Must stay under 40 ms"),
                ("Ben", "00:01:01.000", "ok"),
                ("Ann", "00:02:01.000", "lmdb"),
            ],
        ),
        (
            SYSLOG,
            [
                ("postgres", "Mar 01 09:00:11", "ERROR: deadlock"),
                ("postgres", "Mar 01 09:01:11", "LOG: done"),
                ("cron", "Mar 02 09:02:11", "started"),
            ],
        ),
        (
            TONGUES,
            [
                ("Emil", "1. März 2026 um 10:15 Uhr", "Frist ist der 5. Mai"),
                ("小王", "2026年3月5日 14:20", "必须支持 200 个并发"),
                ("Fanny", "5 mars 2026 à 09:12", "On garde redis"),
                ("Иван", "7 марта 2026 г., 12:00", "сервер упал"),
            ],
        ),
    ],
    ids=[
        "chat-log",
        "names",
        "roles",
        "service-log",
        "sessions",
        "subtitles",
        "syslog",
        "tongues",
    ],
)
def test_entries_are_found_by_dates_names_headings_and_hashes(
    text: str, expected: list[tuple[str, str, str]]
) -> None:
    assert found(text) == expected


def test_a_commit_with_its_patch_says_what_it_did_and_to_which_file(tmp_path: Path) -> None:
    with load([TextSource("log.txt", PATCH, "text")], tmp_path / "c").context.open() as body:
        (entry,) = entries_of(body)
    assert entry.message.content == "Fix the lock\n\nsrc/lock.py"


def test_the_files_of_a_commit_are_named_without_their_bars(tmp_path: Path) -> None:
    stat = " src/lock.py     | 12 +++++-----\n docs/logo.png   | Bin 0 -> 10 bytes\n 2 files changed\n"
    log = PATCH.partition("\ndiff --git")[0] + "\n\n" + stat
    with load([TextSource("log.txt", log, "text")], tmp_path / "c").context.open() as body:
        (entry,) = entries_of(body)
    assert [line.strip() for line in entry.message.content.splitlines()[1:] if line] == [
        "src/lock.py",
        "docs/logo.png",
        "2 files changed",
    ]


def test_a_time_of_day_belongs_to_the_day_above_it() -> None:
    text = (
        "--- 2026-05-02 ---\n[10:00] Anna: one\n[10:05] Ben: two\n--- 2026-05-03 ---\n[09:00] Anna: three\n"
    )
    assert [one[1] for one in found(text)] == ["2026-05-02 10:00", "2026-05-02 10:05", "2026-05-03 09:00"]


def test_a_git_log_of_any_order_starts_with_its_oldest_commit(tmp_path: Path) -> None:
    first, second = GIT.split("\ncommit 1c2d")
    for number, log in enumerate((GIT, f"commit 1c2d{second}\n{first}\n")):
        with load([TextSource("log.txt", log, "text")], tmp_path / f"c{number}").context.open() as body:
            assert [one.message.author for one in entries_of(body)] == ["Ben", "Ann"]
            assert [one.message.content for one in entries_of(body)] == ["Add the table", "Fix the lock"]


@pytest.mark.parametrize(
    "text",
    [
        "The grass is green. The sky is blue.\n\nHere we go: there and back.\n" * 20,
        "# Report\n\n## Method\n\nWe measured.\n\n## Results\n\nNote: it works.\n" * 3,
        "def f(x):\n    return x\n\nclass A:\n    pass\n" * 10,
        "Warning: hot.\n" + "Plain words follow here for a while.\n" * 40,
    ],
    ids=["prose", "report", "code", "one-label"],
)
def test_prose_is_not_a_history(text: str, tmp_path: Path) -> None:
    with load([text], tmp_path / "c").context.open() as body:
        assert not is_history(body)


def test_wrapped_lines_are_joined(tmp_path: Path) -> None:
    wrapped = (
        "user: We decided against a queue, because nobody can run one on weekends. We store the event id in\n"
        "`refund_events`, with a unique index.\n- a list item\n- another\n"
    )
    with load([wrapped + "assistant: Good.\nuser: Yes.\n"], tmp_path / "c").context.open() as body:
        first = entries_of(body)[0]
    assert first.message.content.splitlines() == [
        "We decided against a queue, because nobody can run one on weekends. We store the event id in "
        "`refund_events`, with a unique index.",
        "- a list item",
        "- another",
    ]


_LINES = st.lists(
    st.sampled_from(
        [
            "",
            "Anna: a word",
            "[2026-05-01 10:00] Ben: another",
            "commit 1234567",
            "## Heading",
            "--- 2026-05-02 ---",
            "just words",
            "```",
            "  indented",
            "2026-05-01",
            "\ufeffodd: é – 中文",
        ]
    ),
    max_size=40,
)


@given(lines=_LINES)
def test_entries_cover_the_whole_text_without_overlaps(lines: list[str]) -> None:
    text = "\n".join(lines)
    entries = sorted(split(text), key=lambda one: one.start)
    at = 0
    for one in entries:
        assert at <= one.start <= one.text <= one.end
        assert not text[at : one.start].strip()
        at = one.end
    if entries:
        assert not text[at:].strip()


def card_entries(value: object, folder: Path) -> tuple[Entry, ...]:
    with load([TextSource("card.json", json.dumps(value), "json")], folder / "card").context.open() as body:
        entries = entries_of(body)
        assert all(body.text(one.start, one.end).find(one.message.content[:40]) >= 0 for one in entries)
        return entries


def test_a_card_has_entries_for_its_messages_and_its_other_parts(tmp_path: Path) -> None:
    entries = card_entries(
        {
            "id": "17",
            "title": "Refunds",
            "state": "error_fixing",
            "messages": [
                {"role": "user", "author": "Ann", "content": "Fix it."},
                {"role": "assistant", "content": "Done."},
            ],
            "notes": ["No queue."],
            "adrs": [{"title": "One transaction", "content": "Whatever moves money does so in one."}],
            "build_logs": "step 4\n1 failed, 41 passed",
        },
        tmp_path,
    )
    assert [one.name for one in entries] == [f"m{n}" for n in range(1, len(entries) + 1)]
    said = {one.message.content: one for one in entries}
    assert (said["Fix it."].message.role, said["Fix it."].message.author) == ("user", "Ann")
    assert said["Done."].message.role == "assistant"
    assert not said["Done."].card
    assert said["Whatever moves money does so in one."].heading.endswith("One transaction")
    assert said["step 4\n1 failed, 41 passed"].card
    assert any("state: error_fixing" in text for text in said)


def test_messages_of_several_chats_are_numbered_on(tmp_path: Path) -> None:
    chats = [
        json.dumps([{"role": "user", "content": f"one {n}"}, {"role": "assistant", "content": "two"}])
        for n in "ab"
    ]
    sources = [TextSource(f"{n}.json", chat, "json") for n, chat in enumerate(chats)]
    with load(sources, tmp_path / "c").context.open() as body:
        entries = entries_of(body)
    assert [(one.name, one.document) for one in entries] == [
        ("m1", "0.json"),
        ("m2", "0.json"),
        ("m3", "1.json"),
        ("m4", "1.json"),
    ]
