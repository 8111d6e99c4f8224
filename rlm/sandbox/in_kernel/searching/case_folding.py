"""Text brought into one case, as far as one literal is concerned, without decoding it."""

from __future__ import annotations

from collections.abc import Iterable
from itertools import product

__all__ = ["CaseFolder"]

_ALL = bytes(range(256))


class CaseFolder:
    """Writes the characters of a literal in one way, whichever way they stand in.

    `spellings` are the ways to write each of its characters, `sample` is some of the text.
    Most letters differ from their other case in one byte: those are done in one pass, by a table of bytes.
    The table changes other characters, too, but none into one of the literal's; that is checked for each
    entry. What remains is replaced, where it stands at all.
    """

    __slots__ = ("_replaced", "_table", "passes", "texts")

    def __init__(self, spellings: Iterable[tuple[bytes, ...]], sample: bytes = b"") -> None:
        ordered = tuple(spellings)
        characters = list(dict.fromkeys(ordered))
        table = bytearray(_ALL)
        for usual, *others in characters:
            for other in others:
                trial = _with(table, other, usual)
                if trial is not None and _keeps(trial, characters):
                    table = trial
        self._table = bytes(table)
        left = [
            (ways, other)
            for ways in characters
            for other in ways[1:]
            if other.translate(table) != ways[0].translate(table)
        ]
        texts = [b"".join(ways[0] for ways in ordered)]
        for ways, other in left:
            # One text more to count is less work than to replace what is everywhere.
            if len(other) == len(ways[0]) and ordered.count(ways) == 1:
                texts.append(b"".join(other if one is ways else one[0] for one in ordered))
                left.remove((ways, other))
                break
        self._replaced = tuple(
            (other, ways[0], min(map(_one, other), key=sample.count)) for ways, other in left
        )
        self.texts = tuple(text.translate(table) for text in texts)
        """The literal as it stands in what `write` gives: in one of these ways."""
        present = sum(rare in sample for _, _, rare in self._replaced)
        self.passes = (int(self._table != _ALL), present, len(self.texts))
        """How often a text is gone through by the table, for replacing, and for counting."""

    def count(self, data: bytes) -> int:
        """How often the literal stands in `data`, which is whole characters."""
        written = self.write(data)
        return sum(map(written.count, self.texts))

    def write(self, data: bytes) -> bytes:
        """`data` in one case. Its length may change, its lines do not."""
        for other, usual, rare in self._replaced:
            # To look for one byte takes next to nothing.
            if rare in data:
                data = data.replace(other, usual)
        return data if self._table == _ALL else data.translate(self._table)


def _with(table: bytearray, other: bytes, usual: bytes) -> bytearray | None:
    """The table with an entry that makes `other` look like `usual`; None where one entry can't."""
    if len(other) != len(usual):
        return None
    different = [(a, b) for a, b in zip(other, usual, strict=True) if a != b]
    if len(different) != 1:
        return None
    [(byte, wanted)] = different
    if table[byte] != byte:
        return None
    trial = bytearray(table)
    trial[byte] = table[wanted]
    return trial


def _keeps(table: bytearray, characters: Iterable[tuple[bytes, ...]]) -> bool:
    """Whether all that the table makes look like one of these is that character in one of its ways."""
    made: dict[int, list[int]] = {}
    for byte in _ALL:
        made.setdefault(table[byte], []).append(byte)
    for ways in characters:
        sources = product(*(made[byte] for byte in ways[0].translate(table)))
        if any(source not in ways and not _is_no_character(source) for source in map(bytes, sources)):
            return False
    return True


def _is_no_character(data: bytes) -> bool:
    try:
        data.decode()
    except UnicodeDecodeError:
        return True
    return False


def _one(byte: int) -> bytes:
    return bytes((byte,))
