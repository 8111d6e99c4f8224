"""What a body is written in, by a sample of it."""

from __future__ import annotations

from collections.abc import Iterable

from ..body.body import Body

__all__ = ["ByteRates"]

_SAMPLES = 16
_SAMPLE = 4_096


class ByteRates:
    """How often each byte stands in a KB of a body, by a sample of 64 KB from all over it."""

    PIECE = 256
    """Bytes of the sample that are looked at together."""

    __slots__ = ("rates", "sample")

    def __init__(self, body: Body) -> None:
        raw, size = body.raw, body.bytes
        whole = size <= _SAMPLES * _SAMPLE
        self.sample = (
            raw[:size]
            if whole
            else b"".join(raw[at : at + _SAMPLE] for at in range(0, size - _SAMPLE, size // _SAMPLES))
        )
        scale = 1024 / max(1, len(self.sample))
        self.rates = tuple(scale * self.sample.count(bytes((byte,))) for byte in range(256))

    def share(self, keys: Iterable[int]) -> float:
        """The share of the pieces of the body that hold any of `keys`."""
        wanted = {bytes((key,)) for key in keys}
        pieces = [self.sample[at : at + self.PIECE] for at in range(0, len(self.sample), self.PIECE)]
        return sum(any(key in piece for key in wanted) for piece in pieces) / max(1, len(pieces))
