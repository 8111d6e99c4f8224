"""What a run says of its input and of its journal beside the answer: warnings, a line each."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from rlm.documents import Guessed, Loaded, Skipped

__all__ = ["pruned", "warnings_of"]

_GUESSES_SHOWN = 3
_DOCUMENTS_TOLD = 20


def warnings_of(loaded: Loaded) -> list[str]:
    """What is to be said of the sources: what was left out of them, what could not be decoded."""
    warnings = _documents_told(loaded)
    skipped = [one for one in loaded.skipped if not one.remedy]
    if skipped:
        first = skipped[0]
        count = len(skipped)
        warnings.append(
            f"{count:,} {'source was' if count == 1 else 'sources were'} passed over "
            f"({Path(first.path).name} is {first.reason}{', …' if count > 1 else ''})"
        )
    if loaded.replaced:
        warnings.append(f"{loaded.replaced:,} bytes were no valid text and were replaced by U+FFFD")
    if loaded.guessed:
        warnings.append(_guesses(loaded.guessed))
    return warnings


def _documents_told(loaded: Loaded) -> list[str]:
    """A line for each document that could not be read, or not wholly, with the remedy; bounded."""
    broken: list[Skipped] = [one for one in loaded.skipped if one.remedy]
    lines = [f"{one.path} was passed over, it is {one.reason}: {one.remedy}" for one in broken]
    lines += loaded.notes
    if len(lines) > _DOCUMENTS_TOLD:
        rest = len(lines) - _DOCUMENTS_TOLD
        lines[_DOCUMENTS_TOLD:] = [f"… and {rest:,} more documents that could not be read, or not wholly"]
    return lines


def _guesses(guessed: Sequence[Guessed]) -> str:
    """`3 documents were no UTF-8 and were read as cp1252 (notes.txt, …) and cp1251 (brief.txt)`."""
    by_encoding: dict[str, list[str]] = {}
    for guess in guessed:
        by_encoding.setdefault(guess.encoding, []).append(guess.document)
    readings = [
        f"{encoding} ({documents[0]}{', …' if len(documents) > 1 else ''})"
        for encoding, documents in by_encoding.items()
    ]
    subject = "1 document was" if len(guessed) == 1 else f"{len(guessed):,} documents were"
    verb = "was" if len(guessed) == 1 else "were"
    shown = " and ".join(readings[:_GUESSES_SHOWN])
    rest = len(readings) - _GUESSES_SHOWN
    return f"{subject} no UTF-8 and {verb} read as {shown}" + (
        f", and in {rest} other ways" if rest > 0 else ""
    )


def pruned(removed: Sequence[str], most_mb: int) -> str:
    """Return the warning that the journal lost its oldest runs."""
    runs = "the oldest run was" if len(removed) == 1 else f"the {len(removed):,} oldest runs were"
    return f"the journal was over its limit of {most_mb:,} MB (the setting store_mb): {runs} removed from it"
