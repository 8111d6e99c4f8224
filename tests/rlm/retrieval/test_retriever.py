"""The ranked index: results, passages, widening, caching and cancelling. SQLite is real."""

from __future__ import annotations

import os
import random
import signal
import stat
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rlm.documents import FolderCache
from rlm.errors import UsageError
from rlm.retrieval import QueryStopped, RetrievalError, Retriever
from rlm.retrieval.passages import MAX_CHARS, cut
from rlm.retrieval.words import Tokens, split_spaceless
from rlm.sandbox.context.writer import ContextFileWriter
from rlm.sandbox.text.body import Body
from rlm.sandbox.text.place_index import MessageHeader

FRUIT = """# Fruit

Apples are red. They keep all winter.

## Pears

Pears are green, and pear juice is sweet.

### Storage

Keep pears in straw.

# Stone

Granite is hard.
"""


def body_of(folder: Path, *texts: str) -> Body:
    with ContextFileWriter(folder) as writer:
        for number, text in enumerate(texts):
            writer.begin_document(f"doc{number}.md", "markdown")
            writer.write(text)
        return writer.finish().open()


@pytest.fixture
def body(tmp_path: Path) -> Callable[..., Body]:
    return lambda *texts: body_of(tmp_path / "context", *texts)


def long_text(paragraphs: int, seed: int = 1) -> str:
    """Paragraphs of about 600 characters that share most of their words; the number of each is unique."""
    rng = random.Random(seed)
    words = ["river", "stone", "light", "winter", "house", "bridge", "train", "paper", "glass", "field"]
    return "\n\n".join(
        f"Paragraph p{number}q. " + " ".join(rng.choices(words, k=95)) + "." for number in range(paragraphs)
    )


def test_packs_have_their_places(body) -> None:
    """A pack has ids, score, order, span, heading path, text and hits."""
    text = long_text(30) + "\n\n# Rules\n\n## Notice\n\nThe quarrelsome zebras were running away.\n"
    with body("Nothing here.\n", text) as context, Retriever(context) as retriever:
        (pack,) = retriever.retrieve("does a zebra run?")
        assert context.text(pack.start, pack.end) == pack.text
        assert pack.text.endswith("The quarrelsome zebras were running away.")
        assert (pack.doc_id, pack.document, pack.order) == ("1", "doc1.md", 0)
        assert pack.pack_id == f"1:{pack.start}-{pack.end}"
        assert pack.score > 0
        assert [context.text(*hit) for hit in pack.hits] == ["zebras", "running"]
        assert retriever.retrieve("does a zebra run?") == [pack]


@pytest.mark.parametrize("rank", ["bm25", "tfidf"])
def test_five_packs_best_first_and_none_twice(body, rank) -> None:
    """The order is by score, then by place, and is deterministic."""
    with body(long_text(200), long_text(200)) as context, Retriever(context) as retriever:
        packs = retriever.retrieve("winter bridge", rank=rank)
        assert len(packs) == 5
        assert [pack.order for pack in packs] == list(range(5))
        keys = [(-pack.score, pack.start) for pack in packs]
        assert keys == sorted(keys)
        assert len({pack.pack_id for pack in packs}) == 5
        assert retriever.retrieve("winter bridge", rank=rank) == packs
        assert len(retriever.retrieve("winter", limit=12, rank=rank)) == 12


def test_neighbours_are_added_on_both_sides_and_include_adjacent_hits(body) -> None:
    """Widened packs absorb adjacent hits."""
    with body(long_text(40)) as context, Retriever(context) as retriever:
        (alone,) = retriever.retrieve("p20q")
        (wider,) = retriever.retrieve("p20q", expand="neighbors")
        (widest,) = retriever.retrieve("p20q", expand="neighbors", per_hit_neighbors=2)
        assert widest.start < wider.start < alone.start < alone.end < wider.end < widest.end
        assert alone.text in wider.text
        assert wider.score == alone.score
        packs = retriever.retrieve("p20q p21q", expand="neighbors")
        assert len(packs) == 1
        assert retriever.retrieve("p20q", expand="neighbors", per_hit_neighbors=0)[0].text == alone.text


def test_neighbours_stay_in_their_document(body) -> None:
    with (
        body("Alpha one.\n", "Beta zebra two.\n", "Gamma three.\n") as context,
        Retriever(context) as retriever,
    ):
        (pack,) = retriever.retrieve("zebra", expand="neighbors", per_hit_neighbors=5)
        assert pack.text == "Beta zebra two."


def test_a_section_is_the_text_under_the_heading(body) -> None:
    """Expand section; a heading path."""
    one, two, three = (long_text(4, seed) for seed in range(3))
    text = f"# One\n\n{one}\n\n# Two\n\nfoo zebra\n\n{two}\n\n# Three\n\n{three}\n"
    with body(text) as context, Retriever(context) as retriever:
        (pack,) = retriever.retrieve("zebra", expand="section")
        assert pack.heading_path == ("Two",)
        assert pack.text.startswith("# Two")
        assert pack.text == text[text.index("# Two") : text.index("# Three")].strip()


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("sum.py", "#!/usr/bin/env python\n\ndef zebra():\n    return 1\n"),
        ("sum.py", "# Copyright of the authors\n\ndef zebra():\n    # Add.\n    return 1\n"),
        ("sum.c", "#include <stdio.h>\n\nint zebra(void) { return 1; }\n"),
        ("site.yaml", "# The site\nanimal: zebra\n"),
        ("notes.txt", "#1 of the list\n\nThe zebra.\n"),
        ("notes.md", "#zebras are a tag\n\nThe zebra.\n"),
    ],
)
def test_a_line_that_is_no_heading_is_in_no_path(tmp_path, name, text) -> None:
    (tmp_path / name).write_text(text)
    with Retriever.over([tmp_path / name]) as retriever:
        (pack,) = retriever.retrieve("zebra")
        assert pack.heading_path == ()


def test_a_long_section_is_cut_around_the_passage(body) -> None:
    text = "# One\n\n" + long_text(100)
    with body(text) as context, Retriever(context) as retriever:
        (pack,) = retriever.retrieve("p50q", expand="section")
        assert 6_000 < len(pack.text) <= 8_000
        assert "p50q" in pack.text


@pytest.mark.parametrize(
    ("text", "question", "hit"),
    [
        ("合同的终止日期是二〇二七年三月。", "合同什么时候终止？", "合同"),
        ("会議は金曜日の午後に始まります。", "会議はいつ始まりますか", "会議"),
        ("สัญญาเช่าสิ้นสุดในเดือนมีนาคม", "สัญญาเช่าสิ้นสุดเมื่อไหร่", "สัญญา"),
        ("계약은 삼월에 종료됩니다.", "계약이 종료되는 날", "계약"),
        ("Les élèves fatigués dormaient.", "ELEVES", "élèves"),
        ("Договоры истекают в марте.", "договоры", "Договоры"),
    ],
)
def test_every_script_is_found(body, text, question, hit) -> None:
    """Languages without spaces, other alphabets and accents are supported."""
    noise = "今天天气很好，我们去散步。昨日は雨でした。อากาศดีมาก 오늘은 날씨가 좋다. Rien.\n\n" * 40
    with body(noise + text + "\n\n" + noise) as context, Retriever(context) as retriever:
        pack = retriever.retrieve(question)[0]
        assert text in pack.text
        assert any(context.text(*span).startswith(hit) for span in pack.hits)


@pytest.mark.parametrize(
    "query",
    [
        '"',
        '""',
        "AND",
        "NOT OR",
        "a* NEAR(b c)",
        "text:x",
        "-x +y ^z",
        "(((",
        "'; DROP TABLE passages; --",
        "\\",
        "\0x",
    ],
)
def test_nothing_in_a_query_is_syntax(body, query) -> None:
    with (
        body("Not a word of and or near it. x y z b c.\n") as context,
        Retriever(context) as retriever,
    ):
        retriever.retrieve(query)
        assert len(retriever.retrieve(f"{query} word")) == 1


@settings(max_examples=60)
@given(st.text(max_size=60), st.lists(st.text(max_size=80), min_size=1, max_size=3))
def test_any_query_over_any_text_is_answered(tmp_path_factory, query, texts) -> None:
    folder = tmp_path_factory.mktemp("any") / "context"
    with body_of(folder, *texts) as context, Retriever(context) as retriever:
        for expand in (None, "neighbors", "section"):
            for pack in retriever.retrieve(query, expand=expand):
                assert context.text(pack.start, pack.end) == pack.text
                assert all(pack.start <= start < end <= pack.end for start, end in pack.hits)


def test_a_phrase_counts_for_more_than_its_words(body) -> None:
    apart = "The control was lost and then a group came.\n\n"
    with (
        body(apart * 30 + long_text(5) + "\n\nA control group was kept.\n") as context,
        Retriever(context) as retriever,
    ):
        pack = retriever.retrieve('"control group"')[0]
        assert "A control group was kept." in pack.text
        assert "control group" in [context.text(*hit) for hit in pack.hits]


def test_function_words_rank_nothing_unless_there_is_nothing_else() -> None:
    tokens = Tokens()
    assert tokens.query("What is the runner of it?").stems == ("runner",)
    assert tokens.query("to be or not to be").words == ("to", "be", "or", "not")
    assert tokens.query("Runs running runner RUN").stems == ("run", "runner")
    assert not tokens.query(" ?! ")
    tokens.close()


@pytest.mark.parametrize(
    ("text", "wanted"),
    [("plain text", "plain text"), ("a合同终止b", "a 合同 同终 终止 b"), ("好", " 好 "), ("", "")],
)
def test_runs_without_spaces_become_pairs(text, wanted) -> None:
    assert split_spaceless(text) == wanted


@settings(max_examples=60)
@given(st.lists(st.text(alphabet=st.sampled_from("ab .\n#。é合\U0001f600"), max_size=4_000), max_size=4))
def test_passages_tile_the_body_and_are_bounded(tmp_path_factory, texts) -> None:
    """Never across documents."""
    with body_of(tmp_path_factory.mktemp("tile") / "context", *texts) as context:
        at = 0
        starts = {document.start for document in context.documents if document.start < document.end}
        for start, passages in cut(context):
            assert start == at
            for passage in passages:
                assert 0 < len(passage) <= MAX_CHARS
                assert context.text(at, at + len(passage)) == passage
                starts.discard(at)
                at += len(passage)
        assert at == context.chars
        assert not starts


def test_passages_do_not_cross_messages(tmp_path) -> None:
    with ContextFileWriter(tmp_path / "chat") as writer:
        writer.begin_document("chat.json", "chat")
        for number in range(2_000):
            writer.begin_message(MessageHeader(number + 1, role="user"))
            writer.write(f"Message {number} says m{number}x. " + "word " * (number % 400) + "\n")
        context = writer.finish().open()
    with context:
        borders = set(context.marks.messages)
        at = 0
        for _, passages in cut(context):
            for passage in passages:
                borders.discard(at)
                assert len(passage) <= MAX_CHARS
                at += len(passage)
        assert not borders
        with Retriever(context) as retriever:
            assert context.place(retriever.retrieve("m1234x")[0].start).message == 1_235


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"limit": 0}, "limit is 0"),
        ({"limit": 1.5}, "limit is 1.5"),
        ({"per_hit_neighbors": -1}, "per_hit_neighbors is -1"),
        ({"expand": "all"}, "expand is 'all'"),
        ({"rank": "cosine"}, "rank is 'cosine'"),
    ],
)
def test_options_out_of_range_are_named(body, options, said) -> None:
    with body("x\n") as context, Retriever(context) as retriever, pytest.raises(UsageError, match=said):
        retriever.retrieve("x", **options)


def test_the_retriever_works_without_a_run(tmp_path, monkeypatch) -> None:
    """Python; files, folders and texts."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    (tmp_path / "a.md").write_text(FRUIT)
    with Retriever.over([tmp_path / "a.md", "Straw is yellow."]) as retriever:
        first = retriever.retrieve("straw")[0]
        assert "traw" in first.text
        assert {pack.document for pack in retriever.retrieve("straw")} == {"a.md", "text"}


class TestCache:
    """An index is built once per content, on first use, completely or not at all."""

    LARGE = long_text(2_500)

    @pytest.fixture
    def context(self, body) -> Body:
        return body(self.LARGE)

    @pytest.fixture
    def cache(self, tmp_path) -> FolderCache:
        return FolderCache(tmp_path / "cache" / "index")

    def test_an_index_is_built_once(self, context, cache) -> None:
        built = []
        for _ in range(2):
            with Retriever(
                context, cache=cache, building=lambda done, whole: built.append((done, whole))
            ) as retriever:
                assert "p777q" in retriever.retrieve("p777q")[0].text
                if _ == 0:
                    first = list(built)
        assert built == first
        assert built[-1] == (context.chars, context.chars)

    def test_only_the_owner_may_read_an_index(self, context, cache) -> None:
        with Retriever(context, cache=cache) as retriever:
            retriever.prepare()
        modes = {stat.S_IMODE(path.stat().st_mode) for path in cache.top.rglob("*")}
        assert modes == {0o700, 0o600}
        assert stat.S_IMODE(cache.top.stat().st_mode) == 0o700

    def test_a_damaged_index_is_rebuilt(self, context, cache) -> None:
        with Retriever(context, cache=cache) as retriever:
            wanted = retriever.retrieve("p5q")
        for file in cache.top.rglob("*"):
            if file.is_file():
                file.write_bytes(b"x" * 100)
        with Retriever(context, cache=cache) as retriever:
            assert retriever.retrieve("p5q") == wanted

    def test_the_index_of_a_small_body_is_not_cached(self, body, cache) -> None:
        with body("A zebra.\n") as context, Retriever(context, cache=cache) as retriever:
            assert retriever.retrieve("zebra")
        assert not cache.top.exists()

    def test_an_exception_of_the_progress_callback_ends_the_build(self, context, cache) -> None:
        class Enough(Exception):
            pass

        def building(done: int, whole: int) -> None:
            raise Enough

        options = {"cache": cache, "building": building}
        with Retriever(context, **options) as retriever, pytest.raises(Enough):
            retriever.retrieve("p5q")
        assert list(cache.top.iterdir()) == []

    def test_the_least_recently_used_index_is_evicted(self, tmp_path) -> None:
        cache = FolderCache(tmp_path / "index", 3_000)

        def has(key: str) -> bool:
            lease = cache.find(key)
            if lease is not None:
                lease.close()
            return lease is not None

        for number in range(4):
            lease = cache.begin()
            (lease.folder / "data").write_bytes(b"x" * 1_000)
            lease = cache.publish(lease, f"key{number}")
            os.utime(lease.folder, (number + 1, number + 1))
            lease.close()
            if number == 2:
                assert has("key0")  # used again: the oldest is key1 now
        assert [has(f"key{number}") for number in range(4)] == [True, False, True, True]

    def test_folders_of_killed_processes_are_removed(self, tmp_path) -> None:
        cache = FolderCache(tmp_path / "index")
        left, used = cache.begin(), cache.begin()
        (left.folder / "data").write_bytes(b"x")
        os.close(left.descriptor)  # as the kernel does when its process ends
        cache.begin()
        assert (left.folder.exists(), used.folder.exists()) == (False, True)

    def test_two_processes_build_the_same_index(self, tmp_path) -> None:
        cache = FolderCache(tmp_path / "index")
        one, other = cache.begin(), cache.begin()
        for lease in (one, other):
            (lease.folder / "data").write_text("same")
        one, other = cache.publish(one, "key"), cache.publish(other, "key")
        assert (other.folder / "data").read_text() == "same"
        other.close()
        assert [path.name for path in cache.top.iterdir()] == ["key"]

    def test_kill_9_while_building_leaves_no_broken_index(self, tmp_path, context, cache) -> None:
        code = (
            "import sys, time\n"
            "from pathlib import Path\n"
            "from rlm.documents import FolderCache\n"
            "from rlm.retrieval import Retriever\n"
            "from rlm.sandbox.text.body import Body\n"
            "def building(done, whole):\n    print('x', flush=True); time.sleep(60)\n"
            "cache = FolderCache(Path(sys.argv[2]))\n"
            "Retriever(Body.open(sys.argv[1]), cache=cache, building=building).prepare()\n"
        )
        process = subprocess.Popen(
            [sys.executable, "-c", code, str(tmp_path / "context"), str(cache.top)], stdout=subprocess.PIPE
        )
        assert process.stdout is not None
        process.stdout.readline()
        process.send_signal(signal.SIGKILL)
        process.wait()
        process.stdout.close()
        with Retriever(context, cache=cache) as retriever:
            assert "p9q" in retriever.retrieve("p9q")[0].text

    def test_a_folder_that_can_not_be_written_is_named(self, context, tmp_path) -> None:
        (tmp_path / "file").write_text("x")
        cache = FolderCache(tmp_path / "file" / "index")
        with Retriever(context, cache=cache) as retriever, pytest.raises(RetrievalError, match="XDG_CACHE"):
            retriever.retrieve("p5q")

    def test_a_query_can_be_stopped(self, context) -> None:
        with Retriever(context) as retriever:
            retriever.prepare()
            with pytest.raises(QueryStopped):
                retriever.retrieve("river stone light winter house bridge train", stop=lambda: True)
            assert retriever.retrieve("p5q")
