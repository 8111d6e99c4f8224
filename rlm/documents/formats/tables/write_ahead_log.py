"""Puts what SQLite's log of changes (WAL) holds into the database, as SQLite does when it is opened.

The log is a header and frames. A frame is a page, with its number, and, if it ends a transaction, the number
of pages that the database has from then on. A sum over it and all before it tells whether a frame is whole.
"""

from __future__ import annotations

import struct
import sys
from array import array

__all__ = ["apply_log"]

_HEAD = struct.Struct(">IIIIIIII")
_FRAME = struct.Struct(">IIIIII")
_MAGIC = 0x377F0682
_SUMMED_HEAD, _SUMMED_FRAME = 24, 8
_MASK = 0xFFFF_FFFF
_PAGE_SIZES = frozenset(1 << power for power in range(9, 17))


def apply_log(database: bytearray, log: bytes, most_bytes: int) -> int | None:
    """Write the pages of all finished transactions into `database`. Return their number, or None if the
    database would be larger than `most_bytes`. A log of another state of the database holds none."""
    if len(log) < _HEAD.size:
        return 0
    magic, _, page_size, _, *salts, first, second = _HEAD.unpack_from(log)
    is_big = magic == _MAGIC + 1
    if magic not in (_MAGIC, _MAGIC + 1) or page_size not in _PAGE_SIZES:
        return 0
    sums = _add(log[:_SUMMED_HEAD], 0, 0, is_big=is_big)
    if sums != (first, second):
        return 0
    waiting: dict[int, int] = {}
    finished: dict[int, int] = {}
    pages = 0
    for at in range(_HEAD.size, len(log) - _FRAME.size - page_size + 1, _FRAME.size + page_size):
        number, size, salt, other, first, second = _FRAME.unpack_from(log, at)
        if [salt, other] != salts or not number:
            break
        start = at + _FRAME.size
        sums = _add(log[at : at + _SUMMED_FRAME], *sums, is_big=is_big)
        sums = _add(log[start : start + page_size], *sums, is_big=is_big)
        if sums != (first, second):
            break
        waiting[number] = start
        if size:
            finished |= waiting
            waiting.clear()
            pages = size
    if not pages:
        return 0
    if pages * page_size > most_bytes:
        return None
    del database[pages * page_size :]
    database.extend(bytes(pages * page_size - len(database)))
    for number, start in finished.items():
        if number <= pages:
            database[(number - 1) * page_size : number * page_size] = log[start : start + page_size]
    return len(finished)


def _add(data: bytes, first: int, second: int, *, is_big: bool) -> tuple[int, int]:
    """Return the two sums after the words of `data`."""
    words = array("I", data)
    if is_big != (sys.byteorder == "big"):
        words.byteswap()
    for even, odd in zip(words[::2], words[1::2], strict=True):
        first = (first + even + second) & _MASK
        second = (second + odd + first) & _MASK
    return first, second
