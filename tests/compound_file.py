"""Writes an OLE file by hand."""

from __future__ import annotations

import struct


def compound(data: bytes) -> bytes:
    """Return an OLE file whose stream `Workbook` holds `data`, in sectors of 512 bytes."""
    data = data.ljust(max(4096, -(-len(data) // 512) * 512), b"\0")
    count = len(data) // 512
    chain = [0xFFFFFFFD, 0xFFFFFFFE, *range(3, 2 + count), 0xFFFFFFFE]
    fat = struct.pack("<128I", *chain, *[0xFFFFFFFF] * (128 - len(chain)))

    def entry(name: str, kind: int, child: int, start: int, size: int) -> bytes:
        raw = f"{name}\0".encode("utf-16-le") if name else b""
        tree = struct.pack("<HBBIII", len(raw), kind, 1, 0xFFFFFFFF, 0xFFFFFFFF, child)
        return raw.ljust(64, b"\0") + tree + bytes(36) + struct.pack("<IQ", start, size)

    entries = [entry("Root Entry", 5, 1, 0xFFFFFFFE, 0), entry("Workbook", 2, 0xFFFFFFFF, 2, len(data))]
    directory = b"".join(entries).ljust(512, b"\0")
    head = bytes.fromhex("d0cf11e0a1b11ae1") + bytes(16) + struct.pack("<HHHHH6x", 0x3E, 3, 0xFFFE, 9, 6)
    head += struct.pack("<9I", 0, 1, 1, 0, 4096, 0xFFFFFFFE, 0, 0xFFFFFFFE, 0)
    return head + struct.pack("<109I", 0, *[0xFFFFFFFF] * 108) + fat + directory + data
