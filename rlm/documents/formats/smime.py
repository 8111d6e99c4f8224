"""Finds the mail in an S/MIME signature: it is there in clear, in nested elements of BER."""

from __future__ import annotations

__all__ = ["signed_mail"]

_SIGNED_DATA = bytes.fromhex("2a864886f70d010702")
_SEQUENCE, _STRINGS = 0x30, 0x24
_INDEFINITE = 0x80
_DEEPEST = 30


def signed_mail(data: bytes) -> bytes:
    """Return the mail that is signed; nothing if the data is encrypted, damaged, or no such signature."""
    try:
        (_, whole), *_ = _elements(data)
        (_, kind), (_, signed) = _elements(whole)
        if kind != _SIGNED_DATA:
            return b""
        ((_, parts),) = _elements(signed)
        held = next(content for tag, content in _elements(parts) if tag == _SEQUENCE)
        _, (_, explicit) = _elements(held)
        ((tag, text),) = _elements(explicit)
        return b"".join(part for _, part in _elements(text)) if tag == _STRINGS else text
    except (IndexError, ValueError, StopIteration):
        return b""


def _elements(data: bytes) -> list[tuple[int, bytes]]:
    """Return the elements one after the other, each as its tag and its content."""
    found, at = [], 0
    while at < len(data):
        tag, content, at = _element(data, at, 0)
        found.append((tag, content))
    return found


def _element(data: bytes, at: int, depth: int) -> tuple[int, bytes, int]:
    """Return tag and content of the element at a place, and the place after it. Raises IndexError or
    ValueError for damaged data."""
    tag, size = data[at], data[at + 1]
    at += 2
    if size == _INDEFINITE:
        if depth > _DEEPEST:
            raise ValueError
        start = at
        while data[at : at + 2] != b"\0\0":
            *_, at = _element(data, at, depth + 1)
        return tag, data[start:at], at + 2
    if size > _INDEFINITE:
        start, at = at, at + size - _INDEFINITE
        size = int.from_bytes(data[start:at], "big")
    if at + size > len(data):
        raise ValueError
    return tag, data[at : at + size], at + size
