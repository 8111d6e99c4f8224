"""LongBench v2 (choices over one text) and BrowseComp-Plus (questions over many documents)."""

from __future__ import annotations

import hashlib
import random
import re
from collections.abc import Iterator
from typing import Any

from benchmarks.quality.item import Item
from benchmarks.quality.suites.data.rows import Row, text_field
from rlm.errors import UsageError

__all__ = ["browsecomp_plus", "longbench_v2"]

_CHOICES = ("A", "B", "C", "D")
_ENCRYPTED = re.compile(r"[A-Za-z0-9+/]{24,}={0,2}")


def longbench_v2(place: str, row: Row) -> Iterator[Item]:
    """Yield the item of a row of LongBench v2."""
    choices = [f"{letter}. {text_field(row, place, f'choice_{letter}')}" for letter in _CHOICES]
    question = "\n".join(
        [text_field(row, place, "question"), "", *choices, "", "Answer with the letter of the choice alone."]
    )
    gold = text_field(row, place, "answer").strip()
    if gold not in _CHOICES:
        raise UsageError(
            f"{place} has the answer {gold[:20]!r}, not one of A to D: is this the right data set?"
        )
    text, group = text_field(row, place, "context"), text_field(row, place, "length", "domain")
    yield Item(_id("longbench", question, text), question, (text,), (gold,), "letter", group)


def browsecomp_plus(place: str, row: Row) -> Iterator[Item]:
    """Yield the item of a decrypted row of BrowseComp-Plus: its gold, evidence and negative documents, in a
    random order that depends on the question alone."""
    question, answer = text_field(row, place, "query"), text_field(row, place, "answer")
    if _ENCRYPTED.fullmatch(question):
        raise UsageError(
            f"{place} is encrypted: decrypt the data set with the script of its repository "
            "(texttron/BrowseComp-Plus), and give that file"
        )
    texts: dict[str, str] = {}
    for name in ("gold_docs", "evidence_docs", "negative_docs"):
        for document in row.get(name) or ():
            docid, text = _document(document, place)
            texts.setdefault(docid, text)
    if not texts:
        raise UsageError(f"{place} has no documents (gold_docs, evidence_docs, negative_docs)")
    order = sorted(texts)
    random.Random(question).shuffle(order)
    kept = tuple(texts[docid] for docid in order)
    yield Item(_id("browsecomp", question, answer), question, kept, (answer,), "model")


def _document(document: Any, place: str) -> tuple[str, str]:
    if not isinstance(document, dict) or not isinstance(document.get("text"), str):
        raise UsageError(f"{place} has a document without a text: is this the right data set?")
    return str(document.get("docid", document["text"][:80])), document["text"]


def _id(kind: str, question: str, text: str) -> str:
    return f"{kind}-{hashlib.sha256(f'{question}/{text}'.encode('utf-8', 'surrogatepass')).hexdigest()[:10]}"
