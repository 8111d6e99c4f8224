"""The warnings about a run's input and journal, one line each."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from rlm.documents import Guessed, Loaded, Skipped

__all__ = ["pruned", "warnings_of"]

_GUESSES_SHOWN = 3
_MAX_DOCUMENT_LINES = 20


def warnings_of(loaded: Loaded) -> list[str]:
    """Return the warnings about the sources: what was skipped, what could not be decoded."""
    warnings = _document_lines(loaded)
    skipped = [one for one in loaded.skipped if not one.remedy]
    if skipped:
        first = skipped[0]
        count = len(skipped)
        warnings.append(
            f"skipped {count:,} {'source' if count == 1 else 'sources'} "
            f"({Path(first.path).name} is {first.reason}{', …' if count > 1 else ''})"
        )
    if loaded.replaced:
        warnings.append(f"{loaded.replaced:,} bytes are not valid text; replaced by U+FFFD")
    if loaded.guessed:
        warnings.append(_guesses(loaded.guessed))
    return warnings


def _document_lines(loaded: Loaded) -> list[str]:
    """Return a line for each document that could not be read in full, with the remedy. Bounded."""
    broken: list[Skipped] = [one for one in loaded.skipped if one.remedy]
    lines = [f"{one.path} was skipped, it is {one.reason}: {one.remedy}" for one in broken]
    lines += loaded.notes
    if len(lines) > _MAX_DOCUMENT_LINES:
        rest = len(lines) - _MAX_DOCUMENT_LINES
        lines[_MAX_DOCUMENT_LINES:] = [f"… and {rest:,} more documents that could not be read, or not wholly"]
    return lines


def _guesses(guessed: Sequence[Guessed]) -> str:
    """Return `3 documents are not UTF-8; decoded as cp1252 (notes.txt, …) and cp1251 (brief.txt)`."""
    by_encoding: dict[str, list[str]] = {}
    for guess in guessed:
        by_encoding.setdefault(guess.encoding, []).append(guess.document)
    readings = [
        f"{encoding} ({documents[0]}{', …' if len(documents) > 1 else ''})"
        for encoding, documents in by_encoding.items()
    ]
    subject = "1 document is" if len(guessed) == 1 else f"{len(guessed):,} documents are"
    shown = " and ".join(readings[:_GUESSES_SHOWN])
    rest = len(readings) - _GUESSES_SHOWN
    return f"{subject} not UTF-8; decoded as {shown}" + (f", and in {rest} other ways" if rest > 0 else "")


def pruned(removed: Sequence[str], most_mb: int) -> str:
    """Return the warning that the journal lost its oldest runs."""
    runs = "the oldest run was" if len(removed) == 1 else f"the {len(removed):,} oldest runs were"
    return f"the journal was over its limit of {most_mb:,} MB (the setting store_mb): {runs} removed from it"
