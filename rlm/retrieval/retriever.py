"""The Retriever: ranked packs of a body, from an index that is built on first use."""

from __future__ import annotations

import hashlib
import json
import math
import os
import sys
from array import array
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from itertools import accumulate, chain
from pathlib import Path
from typing import TYPE_CHECKING, Literal, Self

from rlm.errors import UsageError
from rlm.retrieval.errors import RetrievalError
from rlm.retrieval.index import INDEX_VERSION, RankedIndex, Stop
from rlm.retrieval.languages import Languages, language_of, stem_words
from rlm.retrieval.packs import Expand, Pack, PackMaker
from rlm.retrieval.passages import Passages, cut, windows
from rlm.retrieval.words import SearchTerms, Tokens
from rlm.sandbox.text.body import Body, Span

if TYPE_CHECKING:
    from rlm.documents import Context, FolderCache, Lease

__all__ = ["Building", "Rank", "Retriever"]

Rank = Literal["bm25", "tfidf"]

Building = Callable[[int, int], None]
"""Called with (characters indexed, characters in total) after about every half million, on the building
thread. An exception that it raises stops the build, leaves no index and is passed on. Use an exception class
of your own."""

MAX_LIMIT = 1_000
MAX_NEIGHBORS = 50
_IN_MEMORY = 1 << 20
"""Bodies with fewer bytes are indexed in memory and never cached."""
_CANDIDATES = 200
_PASSAGES = "passages"
_LANGUAGES = "languages.json"


class Retriever:
    """Ranks passages of `body`, which the caller closes. Use it from one thread at a time.

    The index is built by the first `retrieve`, or by `prepare`, and stored in `cache` under the hash of the
    body, so that no body is indexed twice. With None, and for small bodies, it stays in memory.

    Words are compared by their stems: of English, and of the languages of `languages.py` where the body's
    texts are in one.
    """

    def __init__(
        self,
        body: Body,
        *,
        cache: FolderCache | None = None,
        building: Building | None = None,
    ) -> None:
        self._body = body
        self._cache = cache
        self._lease: Lease | None = None
        self._building = building
        self._languages = Languages()
        self._tokens = Tokens()
        self._index: RankedIndex | None = None
        self._passages = Passages(array("Q"), 0)

    @classmethod
    @contextmanager
    def over(
        cls,
        context: Context,
        *,
        building: Building | None = None,
    ) -> Iterator[Self]:
        """Return a retriever over files and folders (Path) and texts (str), loaded as for a run. The index is
        stored in the user's cache folder. Raises UsageError."""
        from rlm.documents import FolderCache, load, sources_of
        from rlm.documents.workspace import Workspace

        with Workspace() as workspace:
            loaded = load(sources_of(context), workspace.folder / "context")
            cache = FolderCache.of_user("index", os.environ)
            with (
                loaded.context.open() as body,
                cls(body, cache=cache, building=building) as retriever,
            ):
                yield retriever

    def retrieve(
        self,
        query: str,
        limit: int = 5,
        per_hit_neighbors: int = 1,
        expand: Expand | None = None,
        rank: Rank = "bm25",
        *,
        within: Span | None = None,
        stop: Stop = lambda: False,
    ) -> list[Pack]:
        """Return the best packs for `query` without duplicates: score descending, then by place. Empty when
        the body contains no word of the query.

        Double quotes mark a phrase; a query has no other syntax. `expand="neighbors"` adds
        `per_hit_neighbors` passages on both sides. `expand="section"` adds the text under the same heading,
        at most 8,000 characters. `rank="tfidf"` reranks the best passages of BM25 by tf-idf. `within` limits
        the search to the passages that are at least partly in that span.

        Raises UsageError on values out of range, RetrievalError when the index fails, and QueryStopped when
        `stop` returns True.
        """
        _check(limit, per_hit_neighbors, expand, rank)
        self.prepare()
        assert self._index is not None
        terms = self._tokens.query(query)
        if not terms:
            return []
        # A widened pack may contain several adjacent hits, so ask for more candidates than packs.
        candidates = limit if expand is None else limit * (2 * per_hit_neighbors + 3)
        numbers = None if within is None else self._passages.between(*within)
        try:
            if rank == "tfidf":
                ranked = self._index.top(terms, max(_CANDIDATES, candidates), stop, numbers)
                ranked = self._rerank_by_tfidf(ranked, terms)
            else:
                ranked = self._index.top(terms, candidates, stop, numbers)
        except OSError as error:
            raise RetrievalError(
                f"the ranked index can't be read ({error}): remove it and try again"
            ) from error
        maker = PackMaker(self._body, self._passages, self._languages, self._tokens)
        return maker.packs(ranked, terms, limit=limit, expand=expand, neighbors=per_hit_neighbors, stop=stop)

    def prepare(self) -> None:
        """Open the index; build it if there is none. Raises RetrievalError, and any exception of
        `building`."""
        if self._index is not None:
            return
        if self._cache is None or self._body.bytes < _IN_MEMORY:
            self._index = self._build(None)
            return
        key = f"{self._digest}-fts5-{INDEX_VERSION}"
        lease = self._cache.find(key)
        if lease is not None and self._try_open(lease):
            return
        try:
            lease = self._cache.begin()
            try:
                self._build(lease.folder).close()
                lease = self._cache.publish(lease, key)
            except BaseException:
                lease.close()
                raise
        except OSError as error:
            raise RetrievalError(
                f"the ranked index can't be kept in {self._cache.top}: {error.strerror or error}: make room "
                "there, or set XDG_CACHE_HOME to another folder"
            ) from error
        if not self._try_open(lease):
            raise RetrievalError(f"the ranked index in {lease.folder} can't be read: remove it and try again")

    def close(self) -> None:
        """Close the index. Safe to call twice."""
        index, self._index = self._index, None
        if index is not None:
            index.close()
        lease, self._lease = self._lease, None
        if lease is not None:
            lease.close()
        self._tokens.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _try_open(self, lease: Lease) -> bool:
        """Open a cached index and return whether that worked. Removes a damaged one."""
        assert self._cache is not None
        try:
            starts = array("Q", (lease.folder / _PASSAGES).read_bytes())
            if sys.byteorder == "big":
                starts.byteswap()
            languages = Languages(*json.loads((lease.folder / _LANGUAGES).read_text("utf-8")))
            self._index = RankedIndex.open(lease.folder)
        except (OSError, ValueError, TypeError):
            lease.close()
            self._cache.remove(lease.folder)
            return False
        self._lease = lease
        self._set_up(starts, languages)
        return True

    def _set_up(self, starts: array[int], languages: Languages) -> None:
        self._passages = Passages(starts, self._body.chars)
        self._languages = languages
        if languages.names:
            self._tokens.close()
            self._tokens = Tokens(languages)

    def _build(self, folder: Path | None) -> RankedIndex:
        starts = array("Q")
        languages = Languages()
        index = RankedIndex.build(folder, self._batches(starts, languages))
        self._set_up(starts, languages)
        if folder is not None:
            stored = array("Q", starts)
            if sys.byteorder == "big":
                stored.byteswap()
            try:
                (folder / _PASSAGES).write_bytes(stored.tobytes())
                (folder / _LANGUAGES).write_text(json.dumps(languages.to_json()), "utf-8")
            except OSError:
                index.close()
                raise
        return index

    def _batches(
        self, starts: array[int], languages: Languages
    ) -> Iterator[tuple[int, list[str], list[str] | None]]:
        """Yield what RankedIndex.build takes. Notes the starts and the languages of passages."""
        by_window = [language_of(self._body, start, end) for start, end, _ in windows(self._body)]
        stemmers = {language: stem_words(language) for language in set(by_window)}
        for (start, texts), language in zip(cut(self._body), by_window, strict=True):
            first = len(starts)
            *begins, end = accumulate(map(len, texts), initial=start)
            starts.extend(begins)
            languages.begin(first, language)
            yield first, texts, [*map(stemmers[language], texts)] if any(stemmers) else None
            if self._building is not None:
                self._building(end, self._body.chars)

    @property
    def _digest(self) -> str:
        """Return a hash of the text and of where its documents begin."""
        facts = hashlib.sha256(self._body.sha256.encode())
        for document in self._body.documents:
            facts.update(f",{document.start}".encode())
        return facts.hexdigest()[:40]

    def _rerank_by_tfidf(
        self, ranked: Sequence[tuple[int, float]], query: SearchTerms
    ) -> list[tuple[int, float]]:
        """Return the passages by tf-idf: the sum of (1 + ln tf) · ln(1 + passages / df) over the stems of the
        query, divided by the square root of the passage's length."""
        assert self._index is not None
        forms = list(dict.fromkeys(chain(query.words, *query.forms)))
        weights = {
            stems[0]: math.log(1 + len(self._passages) / max(1, self._index.frequency(form)))
            for form, stems in zip(forms, self._tokens.stems(forms), strict=True)
            if stems
        }
        scored = []
        for number, _ in ranked:
            text = self._body.text(*self._passages.span(number))
            (stems,) = self._tokens.stems([text], self._languages.of(number))
            counts = Counter(stem for stem in stems if stem in weights)
            score = sum((1 + math.log(count)) * weights[stem] for stem, count in counts.items())
            scored.append((number, score / math.sqrt(max(1, len(stems)))))
        return sorted(scored, key=lambda passage: (-passage[1], passage[0]))


def _check(limit: int, neighbors: int, expand: str | None, rank: str) -> None:
    for name, value in (("limit", limit), ("per_hit_neighbors", neighbors)):
        if not isinstance(value, int) or isinstance(value, bool):
            raise UsageError(f"{name} is {value!r}: give a whole number")
    if not 1 <= limit <= MAX_LIMIT:
        raise UsageError(f"limit is {limit}: give a number from 1 to {MAX_LIMIT:,}")
    if not 0 <= neighbors <= MAX_NEIGHBORS:
        raise UsageError(f"per_hit_neighbors is {neighbors}: give a number from 0 to {MAX_NEIGHBORS}")
    if expand not in (None, "neighbors", "section"):
        raise UsageError(f"expand is {expand!r}: give 'neighbors' or 'section', or leave it out")
    if rank not in ("bm25", "tfidf"):
        raise UsageError(f"rank is {rank!r}: give 'bm25' or 'tfidf'")
