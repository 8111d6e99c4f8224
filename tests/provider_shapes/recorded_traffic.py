"""Read recorded answers of providers (tests/rlm/models/conformance/recordings) and play them on a server.

A recording is the HTTP answer as it is, with its body byte for byte. `expected.json` of its folder says what
must be read from it.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import Any

from provider_server import Raw

FOLDER = Path(__file__).parents[1] / "rlm" / "models" / "conformance" / "recordings"


@dataclass(frozen=True)
class Recording:
    """One answer. `expected` holds `text`, `finish_reason`, `usage`, `thinking` and `tool_calls` of the
    reply; or `error`, the name of the exception, with `says`, a part of its message, and `retries`. `sdk` is
    why the official SDK reads it differently; `whole` marks an answer that is one JSON value."""

    protocol: str
    name: str
    code: int
    headers: Mapping[str, str]
    body: bytes
    expected: Mapping[str, Any] = field(default_factory=dict)

    def played(self, *, key: str = "", piece: int = 0) -> Raw:
        """Return the behaviour of a server that answers so, in pieces of `piece` bytes. `KEY` in the body
        becomes `key`, as some providers repeat it."""
        others = {name: value for name, value in self.headers.items() if name != "content-type"}
        body = self.body.replace(b"KEY", key.encode()) if key else self.body
        return Raw(body, self.headers.get("content-type", ""), self.code, others, piece)


@cache
def recordings(protocol: str) -> dict[str, Recording]:
    """Return the recordings of a protocol by name."""
    expected = json.loads((FOLDER / protocol / "expected.json").read_text(encoding="utf-8"))
    files = sorted((FOLDER / protocol).glob("*.http"))
    if {file.stem for file in files} != set(expected):
        raise ValueError(f"{FOLDER / protocol}: expected.json does not name exactly the recordings")
    return {file.stem: _read(protocol, file, expected[file.stem]) for file in files}


def protocols() -> list[str]:
    """Return the names of the protocols that have recordings."""
    return sorted(folder.name for folder in FOLDER.iterdir() if folder.is_dir())


def _read(protocol: str, file: Path, expected: Mapping[str, Any]) -> Recording:
    head, _, body = file.read_bytes().partition(b"\n\n")
    status, *lines = head.decode().split("\n")
    headers = dict(line.split(": ", 1) for line in lines)
    return Recording(protocol, file.stem, int(status.split()[1]), headers, body, expected)
