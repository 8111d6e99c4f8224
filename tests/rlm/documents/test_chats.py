"""Test that chats and cards in JSON become readable text, each message with its span, author and time."""

from __future__ import annotations

import json
import tracemalloc
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
from document_tree import notes_of, text_of
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from rlm.documents import Loaded, load
from rlm.documents.chat import form_of
from rlm.documents.message import message_of, plain_text
from rlm.sandbox.in_kernel.handle import Handle
from rlm.sandbox.text.json_stream import BadJson, JsonStream


def loaded_from(folder: Path, name: str, value: Any) -> Loaded:
    text = value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
    (folder / name).write_text(text, "utf-8", errors="surrogatepass")
    return load([folder / name], folder / "c")


def messages_of(loaded: Loaded) -> list[tuple[int | None, str, str, str, str]]:
    """Return number, role, author, time and text of each message, from the index alone."""
    found = []
    with loaded.context.open() as body:
        table = body.marks.messages
        for row in range(len(table)):
            start, end, _ = table.row(row)
            place = body.place(start)
            assert place is not None
            assert body.place(end - 1) == place or place.line < (body.place(end - 1) or place).line
            header, _, text = body.text(start, end).partition("\n")
            assert header.startswith(f"[{place.message}]")
            found.append((place.message, place.role, place.author, place.time, text.rstrip("\n")))
    return found


SIMPLE = [
    {"role": "user", "content": "Where is the key? 🙂"},
    {"role": "assistant", "content": "Under the mat.\nReally.", "created_at": "2026-05-01T10:00:00Z"},
]


def test_a_list_of_messages_is_readable_text(tmp_path: Path) -> None:
    """A JSON chat is rendered as `[n] role/author time` and the text."""
    loaded = loaded_from(tmp_path, "chat.json", SIMPLE)
    assert text_of(loaded) == (
        "[1] user\nWhere is the key? 🙂\n\n[2] assistant 2026-05-01T10:00:00Z\nUnder the mat.\nReally.\n\n"
    )
    [document] = loaded.context.documents
    assert (document.kind, document.messages) == ("chat", 2)
    assert notes_of(loaded) == ()


SHAPES: dict[str, tuple[Any, list[tuple[str, str, str, str]]]] = {
    "author and text": (
        [{"author": "Anna", "text": "hi", "time": "noon"}, {"author": "Bo", "text": "ho"}],
        [("", "Anna", "noon", "hi"), ("", "Bo", "", "ho")],
    ),
    "sender and body": (
        [{"sender": "human", "body": "hi"}, {"sender": "Dr. Bo", "body": "ho"}],
        [("human", "", "", "hi"), ("", "Dr. Bo", "", "ho")],
    ),
    "from and fragments (Telegram)": (
        {
            "name": "Friends",
            "type": "personal_chat",
            "messages": [
                {
                    "id": 1,
                    "type": "message",
                    "date": "2026-05-01T10:00:00",
                    "from": "Anna",
                    "text": ["see ", {"type": "link", "text": "example.org"}, " now"],
                }
            ],
        },
        [("", "Anna", "2026-05-01T10:00:00", "see example.org now")],
    ),
    "parts (OpenAI API)": (
        {
            "messages": [
                {"role": "user", "content": [{"type": "text", "text": "a"}, {"type": "text", "text": "b"}]}
            ]
        },
        [("user", "", "", "a\nb")],
    ),
    "tool calls": (
        {"messages": [{"role": "assistant", "content": None, "tool_calls": [{"name": "f"}]}, *SIMPLE[:1]]},
        [("assistant", "", "", '{"tool_calls": [{"name": "f"}]}'), ("user", "", "", "Where is the key? 🙂")],
    ),
    "a tree (OpenAI export)": (
        [
            {
                "title": "Keys",
                "current_node": "c",
                "mapping": {
                    "a": {"message": None, "parent": None},
                    "b": {
                        "message": {
                            "author": {"role": "user"},
                            "create_time": 1777629600.5,
                            "content": {"content_type": "text", "parts": ["Where?"]},
                        },
                        "parent": "a",
                    },
                    "x": {
                        "message": {"author": {"role": "assistant"}, "content": {"parts": ["thrown away"]}},
                        "parent": "b",
                    },
                    "c": {
                        "message": {"author": {"role": "assistant"}, "content": {"parts": ["There."]}},
                        "parent": "b",
                    },
                },
            }
        ],
        [("user", "", "2026-05-01 10:00:00", "Where?"), ("assistant", "", "", "There.")],
    ),
    "conversations (Claude export)": (
        [
            {
                "uuid": "u",
                "name": "Keys",
                "chat_messages": [
                    {
                        "sender": "human",
                        "text": "",
                        "content": [{"type": "text", "text": "Where?"}],
                        "created_at": "2026-05-01T10:00:00Z",
                    },
                    {
                        "sender": "assistant",
                        "text": "There.",
                        "content": [{"type": "text", "text": "There."}],
                    },
                ],
            }
        ],
        [("human", "", "2026-05-01T10:00:00Z", "Where?"), ("assistant", "", "", "There.")],
    ),
    "users and stamps (Slack)": (
        [
            {"type": "message", "user": "U12", "text": "hi", "ts": "1777629600.000100"},
            {
                "type": "message",
                "user": "U1",
                "text": "A &gt; B, <@U12> &amp; see <https://x.org/a|Friday>",
                "ts": "1777629600.000200",
                "user_profile": {"real_name": "Anna Müller", "name": "anna"},
            },
        ],
        [
            ("", "U12", "2026-05-01 10:00:00", "hi"),
            ("", "Anna Müller", "2026-05-01 10:00:00", "A > B, @U12 & see Friday (https://x.org/a)"),
        ],
    ),
}


@pytest.mark.parametrize("shape", SHAPES)
def test_the_shapes_of_many_programs_are_known(tmp_path: Path, shape: str) -> None:
    """The forms are lists of {role|author|sender|from, content|text|body…}, exports, {"messages": […]}."""
    value, expected = SHAPES[shape]
    loaded = loaded_from(tmp_path, "chat.json", value)
    assert [message[1:] for message in messages_of(loaded)] == expected
    assert [message[0] for message in messages_of(loaded)] == list(range(1, len(expected) + 1))


def test_conversations_stand_under_their_titles(tmp_path: Path) -> None:
    value, _ = SHAPES["conversations (Claude export)"]
    loaded = loaded_from(tmp_path, "chat.json", value)
    with loaded.context.open() as body:
        assert body.heading_path(body.text(0, body.chars).index("There.")) == ("Keys",)


def test_a_chat_in_lines_is_a_chat_too(tmp_path: Path) -> None:
    """A JSON Lines chat has one message a line."""
    lines = "".join(json.dumps(message) + "\n" for message in SIMPLE * 20)
    loaded = loaded_from(tmp_path, "chat.jsonl", lines + "not json\n")
    assert len(messages_of(loaded)) == 40
    assert [message[4] for message in messages_of(loaded)][:2] == [
        "Where is the key? 🙂",
        "Under the mat.\nReally.",
    ]
    assert text_of(loaded).endswith("not json\n")
    assert notes_of(loaded) == ("chat.jsonl: holds 1 lines that are not JSON: they were read as plain text",)


CARD = {
    "id": "C-7",
    "title": "Repair the door",
    "state": "open",
    "messages": [{"role": "user", "content": "It squeaks.", "author": "Anna", "created_at": "noon"}],
    "notes": ["Oil is in the shed."],
    "adrs": [{"title": "Use oil", "content": "Because grease freezes."}],
    "libraries": [{"name": "hinges", "content": "brass"}],
    "source_files": [{"path": "door.py", "content": "def open(): ..."}],
    "build_logs": "built in 3 s\nok",
    "pod_logs": "",
    "test_results": "2 passed",
}


def test_a_card_has_its_messages_and_sections(tmp_path: Path) -> None:
    """A card is {id, title, state, messages, notes, adrs, …}."""
    loaded = loaded_from(tmp_path, "card.json", CARD)
    [document] = loaded.context.documents
    assert (document.kind, document.messages) == ("card", 1)
    assert messages_of(loaded) == [(1, "user", "Anna", "noon", "It squeaks.")]
    with loaded.context.open() as body:
        text = body.text(0, body.chars)
        assert body.heading_path(text.index("freezes")) == ("Repair the door", "adrs", "Use oil")
        assert body.heading_path(text.index("def open")) == ("Repair the door", "source_files", "door.py")
        assert body.heading_path(text.index("shed")) == ("Repair the door", "notes")
        place = body.place(text.index("shed"))
        assert place is not None
        assert place.message is None
    for expected_line in ("id: C-7\n", "state: open\n", "built in 3 s\nok\n", "test_results: 2 passed\n"):
        assert expected_line in text


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("data.json", '{"a": [1, 2]}'),
        ("data.json", '[{"name": "x", "value": 1}]'),
        ("rows.jsonl", '{"id": 1, "text": "no author"}\n{"id": 2, "text": "none"}\n'),
        ("broken.json", '[{"role": "user", '),
        ("empty.json", "[]"),
    ],
)
def test_json_that_is_no_chat_stays_as_it_is(tmp_path: Path, name: str, text: str) -> None:
    loaded = loaded_from(tmp_path, name, text)
    assert text_of(loaded) == text
    assert loaded.context.documents[0].kind in ("json", "jsonl", "text")
    assert loaded.context.documents[0].messages is None


def test_the_users_of_a_slack_export_have_their_names(tmp_path: Path) -> None:
    """They are in the file users.json beside the channels. Another file of that name is a document only."""
    (tmp_path / "e" / "general").mkdir(parents=True)
    said = [{"type": "message", "user": "U1", "text": "Ask <@U2>.", "ts": "1710324000.0001"}] * 2
    (tmp_path / "e" / "general" / "2024-03-13.json").write_text(json.dumps(said))
    for number, (users, author, text) in enumerate(
        (
            (
                [{"id": "U1", "profile": {"real_name": "Anna"}}, {"id": "U2", "name": "ben"}],
                "Anna",
                "Ask @ben.",
            ),
            ({"id": 3}, "U1", "Ask @U2."),
        )
    ):
        (tmp_path / "e" / "users.json").write_text(json.dumps(users))
        first = messages_of(load([tmp_path / "e"], tmp_path / f"c{number}"))[0]
        assert (first[2], first[4]) == (author, text)


def test_a_chat_that_breaks_off_keeps_its_rest(tmp_path: Path) -> None:
    """No text of a damaged file is lost: what is not JSON is read as text, with a note."""
    text = json.dumps(SIMPLE * 30)[:-300]
    loaded = loaded_from(tmp_path, "chat.json", text)
    count = loaded.context.documents[0].messages
    assert count is not None
    assert 50 < count < 60
    assert text_of(loaded).endswith(text[-20:])
    [note] = notes_of(loaded)
    assert note.startswith(f"chat.json: is not JSON after message {count} (")
    assert note.endswith("the rest was read as plain text")


def test_read_records_gives_the_messages_of_a_chat(tmp_path: Path) -> None:
    """`read_records` gives lazy rows, each with its span."""
    loaded = loaded_from(tmp_path, "chat.json", SIMPLE)
    with loaded.context.open() as body:
        rows = list(Handle(body).read_records())
        assert [row.value for row in rows] == [
            {"message": 1, "role": "user", "author": "", "time": "", "text": "Where is the key? 🙂"},
            {
                "message": 2,
                "role": "assistant",
                "author": "",
                "time": "2026-05-01T10:00:00Z",
                "text": "Under the mat.\nReally.",
            },
        ]
        assert body.text(rows[1].start, rows[1].end).startswith("[2] assistant")


def test_embedded_files_are_named_not_printed() -> None:
    data = "data:image/png;base64," + "iVBORw0KGgo" * 1_000
    shown = plain_text([{"type": "text", "text": "look"}, {"type": "image_url", "image_url": {"url": data}}])
    assert shown.startswith("look\n")
    assert "11,022 characters of data left out" in shown
    assert len(shown) < 300


def test_lone_surrogates_in_json_are_counted(tmp_path: Path) -> None:
    loaded = loaded_from(tmp_path, "chat.json", '[{"role": "user", "content": "a\\ud800b"}]')
    assert messages_of(loaded)[0][4] == "a\ufffdb"
    assert loaded.replaced == 1


_words = st.text(st.characters(exclude_categories=("Cs", "Cc")), max_size=30)
_message = st.fixed_dictionaries(
    {"role": st.sampled_from(["user", "assistant"]), "content": _words},
    optional={"created_at": st.just("2026-05-01"), "name": st.sampled_from(["Anna", "Bo"])},
)


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], max_examples=60)
@given(st.lists(_message, min_size=1, max_size=8), st.sampled_from(["array", "object", "lines"]))
def test_every_message_comes_out_as_it_went_in(
    tmp_path_factory: pytest.TempPathFactory, messages: list[dict[str, str]], form: str
) -> None:
    """Property: number, role, author, time and text of every message survive, for any text."""
    folder = tmp_path_factory.mktemp("chat")
    if form == "lines":
        name, text = "chat.jsonl", "".join(json.dumps(message) + "\n" for message in messages)
    else:
        name, text = "chat.json", json.dumps(messages if form == "array" else {"messages": messages})
    assert messages_of(loaded_from(folder, name, text)) == [
        (
            number,
            message["role"],
            message.get("name", ""),
            message.get("created_at", ""),
            message["content"].strip("\n"),
        )
        for number, message in enumerate(messages, 1)
    ]


_json = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(), inner, max_size=4),
    max_leaves=12,
)


@settings(max_examples=150)
@given(st.lists(_json, max_size=5), st.integers(1, 9), st.booleans())
def test_a_stream_of_json_is_what_json_says_wherever_it_is_cut(
    values: list[Any], size: int, ascii_only: bool
) -> None:
    """Property: the elements parsed from pieces equal json.loads of the whole text."""
    text = json.dumps(values, ensure_ascii=ascii_only)
    stream = JsonStream(text[at : at + size] for at in range(0, len(text), size))
    assert list(stream.elements()) == json.loads(text)
    assert stream.next_mark() == ""


@settings(max_examples=150)
@given(st.text(alphabet='[]{}",:\\ntru1.5e \t', max_size=40), st.integers(1, 7))
def test_a_stream_of_anything_ends_and_loses_nothing(text: str, size: int) -> None:
    """Property: any text raises BadJson at most, and `rest` yields the end of the text."""
    stream = JsonStream(text[at : at + size] for at in range(0, len(text), size))
    with suppress(BadJson):
        list(stream.elements())
    assert text.endswith("".join(stream.rest()))


@pytest.mark.parametrize(
    "value", ["[" * 100_000, '{"a":' * 100_000, '{"data":' * 100_000, f'{{"a": {"9" * 5_000}}}']
)
def test_json_that_python_does_not_read_stays_text(tmp_path: Path, value: str) -> None:
    assert form_of(value, "json") is None
    assert text_of(loaded_from(tmp_path, "deep.json", value)) == value


def test_odd_messages_do_not_trip_it() -> None:
    for odd in (
        {"role": "user", "content": {"deep": {"er": [1]}}},
        {"role": "user", "content": 5, "text": None, "body": []},
        {"author": {"name": None}, "text": "x", "timestamp": True},
        {"sender": "x" * 5_000, "text": "y", "time": 1e300},
        {"from": "a", "text": "b", "ts": "9" * 13},
    ):
        assert message_of(odd).text is not None


def test_a_long_chat_is_read_in_bounded_memory(tmp_path: Path) -> None:
    """Loading a chat of 30 MB in one line holds at most 64 MB."""

    def lines() -> Iterator[str]:
        yield "["
        for number in range(20_000):
            yield json.dumps({"role": "user", "content": f"message {number} " + "word " * 300}) + ","
        yield json.dumps(SIMPLE[0]) + "]"

    with (tmp_path / "long.json").open("w") as file:
        file.writelines(lines())
    tracemalloc.start()
    loaded = load([tmp_path / "long.json"], tmp_path / "c")
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert loaded.context.documents[0].messages == 20_001
    assert peak < 48_000_000


@pytest.mark.parametrize("is_list", [False, True])
def test_an_exported_conversation_shows_the_branch_that_was_shown_last(tmp_path: Path, is_list: bool) -> None:
    def node(role: str, text: str, parent: str | None) -> Any:
        return {"message": {"author": {"role": role}, "content": {"parts": [text]}}, "parent": parent}

    tree = {
        "a": node("user", "question?", None),
        "b": node("assistant", "the OLD answer", "a"),
        "c": node("assistant", "the NEW answer", "a"),
    }
    conversation = {"title": "Rent", "mapping": tree, "current_node": "c"}
    text = text_of(loaded_from(tmp_path, "one.json", [conversation] if is_list else conversation))
    assert "NEW" in text
    assert "question?" in text
    assert "OLD" not in text
    assert "current_node" not in text


def test_a_message_is_not_below_a_section_before_it(tmp_path: Path) -> None:
    """As in an export of Discord, which begins with facts about the channel."""
    chat = {
        "channel": {"name": "bees"},
        "dateRange": {"after": "2024-01-01", "before": "2024-02-01"},
        "messages": [{"author": {"name": "Ann"}, "content": "The queen left.", "timestamp": "2024-01-02"}],
    }
    loaded = loaded_from(tmp_path, "discord.json", chat)
    with loaded.context.open() as body:
        place = body.text(0, body.chars).index("The queen")
        assert body.heading_path(place) == ("messages",)
