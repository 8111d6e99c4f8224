"""The folder of a bench: what it is (`bench.json`), its results so far, and the journal of every run.

A result is one line of `results.jsonl`, keyed by item, arm and repetition, and written once. A killed bench
keeps the lines it has, and `runs.db` has the replies of the runs that have no line yet.
"""

from __future__ import annotations

import fcntl
import json
import os
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict, field, fields
from pathlib import Path
from typing import Any, Self

from benchmarks.quality.bench.item import Item
from rlm.errors import UsageError
from rlm.escaping import json_bytes
from rlm.lazy_dataclass import dataclass

__all__ = ["BenchFolder", "Key", "Row", "write_whole"]

Key = tuple[str, str, int]
"""Item, arm, repetition (from 1)."""
_FACTS, _RESULTS, _STORE = "bench.json", "results.jsonl", "runs.db"


@dataclass(frozen=True, slots=True)
class Row:
    """The result of one arm on one item.

    `status` is `answered`, `not found`, `no answer`, `too long` (the text does not fit the one prompt of the
    arm) or `error`; `detail` says why. `said` is what was scored.
    `run_id` names the run in the journal, "" for none. `is_cut`: the arm got a part of the text. `supported`
    of `checked` claims are supported by their citations. `cost_usd` is None if a price is unknown."""

    item: str
    arm: str
    repeat: int
    status: str
    said: str = ""
    score: float | None = None
    run_id: str = ""
    detail: str = ""
    is_cut: bool = False
    stop_reason: str = ""
    strategy: str = ""
    rounds: int = 0
    calls: int = 0
    input_tokens: int = 0
    output_tokens: int = 0
    cost_usd: float | None = 0.0
    seconds: float = 0.0
    citations: int = 0
    verified: int = 0
    supported: int = 0
    checked: int = 0

    @property
    def key(self) -> Key:
        return self.item, self.arm, self.repeat

    @property
    def tokens(self) -> int:
        return self.input_tokens + self.output_tokens

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> Row:
        """Return the row of a line. Raises TypeError and KeyError if it is none."""
        known = {one.name for one in fields(cls)}
        return cls(**{name: value for name, value in data.items() if name in known})


@dataclass(slots=True)
class BenchFolder:
    """An open folder. `rows` holds the results so far, by key; `facts` what the bench is. `asked_again` are
    the keys that failed at first."""

    path: Path
    facts: Mapping[str, Any]
    rows: dict[Key, Row] = field(default_factory=dict)
    asked_again: set[Key] = field(default_factory=set)
    _file: int = -1

    @property
    def store(self) -> Path:
        """Return the file of the journal."""
        return self.path / _STORE

    @classmethod
    def read(cls, path: Path) -> Self:
        """Return a folder for reading. Raises UsageError if it is none."""
        try:
            facts = json.loads((path / _FACTS).read_bytes())
        except (OSError, ValueError):
            raise UsageError(f"{path} holds no bench ({_FACTS} is missing or damaged): check --out") from None
        folder = cls(path, facts)
        folder._load()
        return folder

    @classmethod
    @contextmanager
    def open(cls, path: Path, facts: Mapping[str, Any], items: Sequence[Item]) -> Iterator[Self]:
        """Open the folder for a new bench, or for the one that it holds. Drops a line that a kill cut off.

        Raises UsageError if it holds a bench with other facts or other texts, if another process writes it,
        or if it cannot be written."""
        try:
            path.mkdir(parents=True, exist_ok=True)
            file = os.open(path / _RESULTS, os.O_RDWR | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC, 0o666)
        except OSError as error:
            raise UsageError(f"{path} cannot be written: {error.strerror}; give another --out") from None
        try:
            try:
                fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                raise UsageError(
                    f"another bench is writing {path}: wait for it, or give another --out"
                ) from None
            folder = cls(path, cls._merge(path, facts, items), _file=file)
            folder._load(cut=True)
            yield folder
        finally:
            os.close(file)

    @staticmethod
    def _merge(path: Path, facts: Mapping[str, Any], items: Sequence[Item]) -> Mapping[str, Any]:
        """Write what the bench is, with the items of earlier starts, and return it."""
        known: dict[str, Any] = {}
        file = path / _FACTS
        if file.exists():
            earlier = BenchFolder.read(path).facts
            for name, before, now in _differences(earlier, facts):
                raise UsageError(
                    f"{path} was started with {name} {before}, not {now}: use that, or give another --out"
                )
            known = dict(earlier["items"])
        elif (path / _RESULTS).stat().st_size:
            raise UsageError(f"{path} holds results without {_FACTS}: give another --out")
        for item in items:
            if item.id in known and known[item.id]["digest"] != item.digest:
                raise UsageError(
                    f"{path} holds results of another text of the item {item.id}: give another --out"
                )
            known[item.id] = {
                "digest": item.digest,
                "group": item.group,
                "rule": item.rule,
                "chars": item.chars,
                "question": item.question,
                "golds": list(item.golds),
            }
        merged = {**facts, "items": known}
        write_whole(file, json_bytes(merged, indent=1) + b"\n")
        return merged

    def append(self, row: Row) -> None:
        """Write a result, and wait until it is on the disk. Raises UsageError if that fails."""
        data = json_bytes(asdict(row), separators=(",", ":")) + b"\n"
        size = os.fstat(self._file).st_size
        try:
            while data:
                data = data[os.write(self._file, data) :]
            os.fsync(self._file)
        except OSError as error:
            os.ftruncate(self._file, size)
            raise UsageError(
                f"{self.path / _RESULTS} cannot be written: {error.strerror}; free some space, and give the "
                "same command again"
            ) from None
        self.rows[row.key] = row

    def _load(self, *, cut: bool = False) -> None:
        """Read the rows. `cut` removes what a kill left of the last one."""
        file = self.path / _RESULTS
        data = file.read_bytes() if file.exists() else b""
        whole = data.rfind(b"\n") + 1
        if cut and whole < len(data):
            os.ftruncate(self._file, whole)
        for number, line in enumerate(data[:whole].splitlines(), 1):
            try:
                row = Row.from_json(json.loads(line))
            except (ValueError, TypeError, AttributeError):
                raise UsageError(
                    f"{file}, line {number} is no result of a bench: give another --out"
                ) from None
            if (before := self.rows.get(row.key)) is not None and before.status == "error":
                self.asked_again.add(row.key)
            self.rows[row.key] = row


def _differences(
    earlier: Mapping[str, Any], facts: Mapping[str, Any], within: str = ""
) -> Iterator[tuple[str, Any, Any]]:
    """Yield the name of each fact that differs, what it was and what it is."""
    for name, now in facts.items():
        before = earlier.get(name)
        if isinstance(before, Mapping) and isinstance(now, Mapping):
            yield from _differences(before, now, f"{within}{name}.")
        elif before != now:
            yield f"{within}{name}", before, now


def write_whole(file: Path, data: bytes) -> None:
    """Replace a file at once, so that a kill leaves the old one or the new one."""
    new = file.with_name(f"{file.name}.new")
    with new.open("wb") as stream:
        stream.write(data)
        stream.flush()
        os.fsync(stream.fileno())
    new.replace(file)
