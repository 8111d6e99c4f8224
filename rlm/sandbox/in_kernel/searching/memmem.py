"""The C library's `memmem` over a mapped file: nothing finds one given text faster."""

from __future__ import annotations

import ctypes
import mmap

__all__ = ["AVAILABLE", "places"]

_PyBUF_SIMPLE = 0


class _Buffer(ctypes.Structure):
    """CPython's Py_buffer: the address of a read-only mapping is to be had in no other way."""

    _fields_ = (
        ("buf", ctypes.c_void_p),
        ("obj", ctypes.py_object),
        ("len", ctypes.c_ssize_t),
        ("itemsize", ctypes.c_ssize_t),
        ("readonly", ctypes.c_int),
        ("ndim", ctypes.c_int),
        ("format", ctypes.c_char_p),
        ("shape", ctypes.c_void_p),
        ("strides", ctypes.c_void_p),
        ("suboffsets", ctypes.c_void_p),
        ("internal", ctypes.c_void_p),
    )


try:
    _memmem = ctypes.CDLL(None).memmem
    _get, _release = ctypes.pythonapi.PyObject_GetBuffer, ctypes.pythonapi.PyBuffer_Release
except (AttributeError, OSError):
    AVAILABLE = False
else:
    AVAILABLE = True
    _memmem.restype = ctypes.c_void_p
    _memmem.argtypes = (ctypes.c_void_p, ctypes.c_size_t, ctypes.c_char_p, ctypes.c_size_t)
    _get.argtypes = (ctypes.py_object, ctypes.POINTER(_Buffer), ctypes.c_int)
    _release.argtypes = (ctypes.POINTER(_Buffer),)
    _release.restype = None


def places(raw: mmap.mmap | bytes | memoryview, data: bytes, start: int, stop: int, most: int) -> list[int]:
    """The first `most` places, from byte `start` up to `stop`, where `data` stands, none within another. For
    0 <= start and data that is not empty; only where AVAILABLE. A signal is seen when it returns: give it a
    window of a body, not the whole."""
    buffer = _Buffer()
    _get(raw, ctypes.byref(buffer), _PyBUF_SIMPLE)
    found: list[int] = []
    try:
        base, size = int(buffer.buf or 0), len(data)
        at, end = base + start, base + min(stop, buffer.len)
        while len(found) < most and end - at >= size:
            place = _memmem(at, end - at, data, size)
            if place is None:
                break
            found.append(place - base)
            at = place + size
    finally:
        _release(ctypes.byref(buffer))
    return found
