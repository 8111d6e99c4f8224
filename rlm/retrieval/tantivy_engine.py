"""The ranked index in tantivy (the extra `tantivy`): faster to ask where an index is very large."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

from rlm.errors import ConfigurationError
from rlm.retrieval.index import EngineName, QueryStopped, Stop
from rlm.retrieval.words import SearchTerms, spaced

__all__ = ["TantivyEngine", "TantivyIndex"]

_HEAP = 32 * 2**20
_LONGEST = 255
"""Bytes of a word; longer ones are not indexed."""


class TantivyEngine:
    """See Engine. Raises ConfigurationError when tantivy is not installed."""

    name: EngineName = "tantivy"
    version = 1

    def __init__(self) -> None:
        try:
            import tantivy
        except ImportError as error:
            raise ConfigurationError(
                "the engine tantivy is not installed: pip install 'rlm-kernel[tantivy]', or use fts5"
            ) from error
        self._tantivy = tantivy
        self._schema = (
            tantivy.SchemaBuilder()
            .add_text_field("text", stored=False, tokenizer_name="words")
            .add_integer_field("passage", stored=True)
            .build()
        )
        filters = tantivy.Filter
        self._analyzer = (
            tantivy.TextAnalyzerBuilder(tantivy.Tokenizer.simple())
            .filter(filters.remove_long(_LONGEST))
            .filter(filters.lowercase())
            .filter(filters.ascii_fold())
            .filter(filters.stemmer("english"))
            .build()
        )

    def build(self, folder: Path | None, batches: Iterable[tuple[int, Sequence[str]]]) -> TantivyIndex:
        index = self._index(folder)
        writer = index.writer(heap_size=_HEAP, num_threads=1)
        try:
            for first, texts in batches:
                for number, text in enumerate(texts, first):
                    writer.add_document(self._tantivy.Document(passage=number, text=spaced(text)))
            writer.commit()
            writer.wait_merging_threads()
        except ValueError as error:
            raise OSError(f"tantivy: {error}") from error
        except BaseException:
            writer.rollback()
            raise
        return TantivyIndex(self._tantivy, index, self._schema, self._analyzer)

    def open(self, folder: Path) -> TantivyIndex:
        if not (folder / "meta.json").is_file():
            raise OSError(f"{folder / 'meta.json'} is missing")
        return TantivyIndex(self._tantivy, self._index(folder), self._schema, self._analyzer)

    def _index(self, folder: Path | None) -> Any:
        try:
            index = self._tantivy.Index(self._schema, path=None if folder is None else str(folder))
            index.register_tokenizer("words", self._analyzer)
        except ValueError as error:
            raise OSError(f"tantivy: {error}") from error
        return index


class TantivyIndex:
    """See RankedIndex. A query that runs can't be stopped; none takes long."""

    def __init__(self, library: Any, index: Any, schema: Any, analyzer: Any) -> None:
        self._tantivy = library
        self._schema = schema
        self._analyzer = analyzer
        index.reload()
        self._searcher = index.searcher()

    def top(self, query: SearchTerms, limit: int, stop: Stop) -> list[tuple[int, float]]:
        if stop():
            raise QueryStopped
        library = self._tantivy
        wanted = [self._term(word) for word in query.words]
        for phrase in query.phrases:
            tokens = self._analyzer.analyze(" ".join(phrase))
            if len(tokens) > 1:
                wanted.append(library.Query.phrase_query(self._schema, "text", tokens))
        if not wanted or limit < 1:
            return []
        whole = library.Query.boolean_query([(library.Occur.Should, each) for each in wanted if each])
        try:
            # Equal scores come in the order of its segments: more are asked for, so that ours decides.
            hits = self._searcher.search(whole, limit=limit + 64).hits
        except ValueError as error:
            raise OSError(f"tantivy: {error}") from error
        found = [(self._searcher.doc(address)["passage"][0], score) for score, address in hits]
        return sorted(found, key=lambda hit: (-hit[1], hit[0]))[:limit]

    def frequency(self, word: str) -> int:
        term = self._term(word)
        return int(self._searcher.search(term, limit=1).count) if term else 0

    def close(self) -> None:
        """Nothing that is not freed with it."""

    def _term(self, word: str) -> Any:
        tokens = self._analyzer.analyze(word)
        return self._tantivy.Query.term_query(self._schema, "text", tokens[0]) if tokens else None
