"""Embeddings beside BM25: fused, stored, bounded. The static model is real and was trained on a few words."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest

from rlm.errors import ConfigurationError, UsageError
from rlm.retrieval import IndexCache, QueryStopped, RetrievalError, Retriever
from rlm.retrieval.vectors import vector_index
from rlm.retrieval.vectors.embedder import StaticEmbedder
from rlm.retrieval.vectors.fusion import fuse
from rlm.sandbox.context.writer import ContextFileWriter
from rlm.sandbox.in_kernel.body.body import Body, Span

np = pytest.importorskip("numpy", reason="extra hybrid is not installed")
pytest.importorskip("model2vec", reason="extra hybrid is not installed")

TOPICS = (
    ("car", "vehicle", "automobile", "engine"),
    ("doctor", "physician", "hospital", "medicine"),
    ("money", "salary", "wage", "payment"),
)
TEXTS = (
    "The automobile was repaired in March, and its engine was replaced.",
    "A physician came from the hospital and left some medicine.",
    "Her salary was raised twice, and each payment came on time.",
)


@pytest.fixture(scope="session")
def model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Write a static model whose words of one topic have the same direction."""
    from model2vec import StaticModel
    from tokenizers import Tokenizer
    from tokenizers.models import WordLevel
    from tokenizers.pre_tokenizers import Whitespace

    words = ["[UNK]", *(word for topic in TOPICS for word in topic)]
    tokenizer = Tokenizer(WordLevel({word: number for number, word in enumerate(words)}, "[UNK]"))
    tokenizer.pre_tokenizer = Whitespace()
    rows = np.zeros((len(words), 4), dtype=np.float32)
    for number, _ in enumerate(words[1:], 1):
        rows[number, (number - 1) // 4] = 1.0
        rows[number, 3] = 0.01 * number
    folder = tmp_path_factory.mktemp("model")
    StaticModel(rows, tokenizer).save_pretrained(folder)
    return folder


@pytest.fixture
def body(tmp_path: Path) -> Callable[..., Body]:
    def make(*texts: str) -> Body:
        with ContextFileWriter(tmp_path / f"context {len(texts)}") as writer:
            for number, text in enumerate(texts):
                writer.begin_document(f"doc{number}.txt", "text")
                writer.write(text + "\n")
            return writer.finish().open()

    return make


class Counting:
    """Counts the texts that an embedder is asked for."""

    def __init__(self, model: Path) -> None:
        self._own = StaticEmbedder(str(model))
        self.identity = self._own.identity
        self.texts = 0

    def embed(self, texts: Sequence[str]) -> Any:
        self.texts += len(texts)
        return self._own.embed(texts)


def test_a_question_in_other_words_finds_its_passage(body, model) -> None:
    """BM25 finds nothing. Words of the text still count."""
    with body(*TEXTS) as context, Retriever(context, embedder=StaticEmbedder(str(model))) as retriever:
        assert retriever.retrieve("vehicle") == []
        assert [pack.document for pack in retriever.retrieve("vehicle", limit=1, rank="hybrid")] == [
            "doc0.txt"
        ]
        assert retriever.retrieve("doctor wage repaired", rank="hybrid")[0].document == "doc0.txt"
        (pack,) = retriever.retrieve("car", 1, rank="hybrid", within=Span(len(TEXTS[0]) + 1, context.chars))
        assert pack.document != "doc0.txt"
        packs = retriever.retrieve("vehicle", rank="hybrid")
        assert [pack.score for pack in packs] == sorted((pack.score for pack in packs), reverse=True)
        assert retriever.retrieve("vehicle", rank="hybrid") == packs


def test_without_an_embedder_hybrid_is_refused(body) -> None:
    with (
        body(*TEXTS) as context,
        Retriever(context) as retriever,
        pytest.raises(UsageError, match="needs an embedder"),
    ):
        retriever.retrieve("car", rank="hybrid")


def test_an_empty_body_and_a_query_of_no_words(body, model) -> None:
    embedder = StaticEmbedder(str(model))
    with body("") as context, Retriever(context, embedder=embedder) as retriever:
        assert retriever.retrieve("car", rank="hybrid") == []
    with body(*TEXTS) as context, Retriever(context, embedder=embedder) as retriever:
        retriever.retrieve("?!", rank="hybrid")


def test_vectors_are_computed_once_and_stored_with_the_index(body, model, tmp_path) -> None:
    """Damaged ones are computed again; another model has its own."""
    cache = IndexCache(tmp_path / "cache")
    with body(*(f"{text} {'x' * 400_000}" for text in TEXTS)) as context:
        counts = []
        for _ in range(2):
            embedder = Counting(model)
            with Retriever(context, cache=cache, embedder=embedder) as retriever:
                assert retriever.retrieve("vehicle", rank="hybrid")[0].document == "doc0.txt"
            counts.append(embedder.texts)
        assert counts[0] > 100
        assert counts[1] == 1
        (entry,) = [path for path in cache.top.iterdir() if "-vectors-" in path.name]
        assert {path.stat().st_mode & 0o777 for path in entry.iterdir()} == {0o600}
        (entry / "vectors").write_bytes(b"half")
        with Retriever(context, cache=cache, embedder=embedder) as retriever:
            assert retriever.retrieve("vehicle", rank="hybrid")[0].document == "doc0.txt"
        assert embedder.texts > 100
        (rows, size) = json.loads((entry / "vectors.json").read_text())
        assert (entry / "vectors").stat().st_size == rows * size * 2


def test_vectors_are_bounded_and_wrong_ones_are_refused(body, model, monkeypatch) -> None:
    class Short(Counting):
        def embed(self, texts: Sequence[str]) -> Any:
            return super().embed(texts)[:-1]

    with body(*TEXTS) as context:
        with (
            Retriever(context, embedder=Short(model)) as retriever,
            pytest.raises(RetrievalError, match="each text needs a row"),
        ):
            retriever.retrieve("car", rank="hybrid")
        monkeypatch.setattr(vector_index, "MAX_BYTES", 10)
        with Retriever(context, embedder=Counting(model)) as retriever:
            with pytest.raises(RetrievalError, match="without them"):
                retriever.retrieve("car", rank="hybrid")
            assert retriever.retrieve("automobile")


def test_a_query_can_be_stopped(body, model) -> None:
    with (
        body(*TEXTS) as context,
        Retriever(context, embedder=Counting(model)) as retriever,
        pytest.raises(QueryStopped),
    ):
        retriever.retrieve("vehicle", rank="hybrid", stop=lambda: True)


def test_a_model_that_is_not_there_is_named(tmp_path, monkeypatch) -> None:
    monkeypatch.setenv("HF_HUB_OFFLINE", "1")
    (tmp_path / "empty").mkdir()
    with pytest.raises(ConfigurationError, match="empty"):
        StaticEmbedder(str(tmp_path / "empty"))


def test_ranks_are_fused() -> None:
    fused = fuse([(7, 9.0), (1, 8.0)], [(1, 0.9), (4, 0.8), (7, 0.1)])
    assert [number for number, _ in fused] == [1, 7, 4]
    assert fused[0][1] == pytest.approx((1 / 62 + 1 / 61) / (2 / 61))
    assert fuse([(3, 9.0), (5, 8.0)], [(3, 0.5)])[0] == (3, pytest.approx(1.0))
    assert fuse([], []) == []
