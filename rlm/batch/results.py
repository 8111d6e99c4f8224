"""The results file: one line a task, each written once, whenever the batch is killed.

Beside it stands `NAME.batch`: which batch the file belongs to. It is what the runs of tasks that have no line
yet are found by in the journal, and its lock keeps a second process out.
"""

from __future__ import annotations

import fcntl
import json
import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, Self

from rlm.batch.summary import BatchSummary
from rlm.errors import UsageError
from rlm.journal import Journal
from rlm.playback.recording import Recording
from rlm.results import RESUMABLE

__all__ = ["ResultsFile", "unfinished_costs"]

_GO_ON_WITH = RESUMABLE | {"error"}
"""Ends after which a task is tried again when the batch is started again: what it has paid for is kept in
the journal."""


class ResultsFile:
    """An open results file. `done` maps the ids that have a line (as text) to the names of their runs;
    `summary` counts these lines; `is_new` says that no earlier start is being gone on with."""

    def __init__(self, path: Path, batch: str, *, is_new: bool) -> None:
        self.path = path
        self.batch = batch
        self.is_new = is_new
        self.done: dict[str, str] = {}
        self.summary = BatchSummary()
        self._file: int | None = None

    @classmethod
    @contextmanager
    def open(cls, path: Path, batch: str, facts: Mapping[str, Any]) -> Iterator[Self]:
        """The file, for the new batch `batch` of these `facts` (its models), or gone on with under the name
        it was begun with. A line that was cut off by the end of a process is dropped, and so are the lines of
        tasks that failed without coming to an end. Raises UsageError when it is no results file, belongs to a
        batch with other facts, is written by another process, or can't be written."""
        if path.exists() and not path.is_file():
            raise UsageError(f"{path} is no ordinary file: give --out a file, which can be gone on with")
        side = path.with_name(path.name + ".batch")
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
            lock = os.open(side, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o666)
        except OSError as error:
            raise _unwritable(side, error) from None
        try:
            try:
                fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                raise UsageError(
                    f"another rlm batch is writing {path}: wait for it, or give another --out"
                ) from None
            results = cls._begun(path, side, lock, batch, facts)
            try:
                results._load()
                yield results
            finally:
                results.close()
        finally:
            os.close(lock)

    @classmethod
    def _begun(cls, path: Path, side: Path, lock: int, batch: str, facts: Mapping[str, Any]) -> Self:
        known = _known(os.pread(lock, 1 << 20, 0))
        if known is None:
            if path.exists() and path.stat().st_size:
                raise UsageError(
                    f"{path} is there and is not known to be a batch's (there is no {side.name} beside it): "
                    "give another --out, or move it away"
                )
            try:
                os.ftruncate(lock, 0)
                os.pwrite(lock, json.dumps({"batch": batch, **facts}).encode() + b"\n", 0)
                os.fsync(lock)
            except OSError as error:
                raise _unwritable(side, error) from None
            return cls(path, batch, is_new=True)
        for name, value in facts.items():
            if known.get(name) != value:
                raise UsageError(
                    f"{path} was begun with {name} {known.get(name)}, not {value}: give that, or another "
                    "--out"
                )
        return cls(path, str(known["batch"]), is_new=False)

    def append(self, line: Mapping[str, Any]) -> None:
        """Write a line; it is on the disk when this returns. Raises UsageError when it can't be written."""
        data = json.dumps(line, ensure_ascii=False, separators=(",", ":"))
        file = self._opened()
        whole = os.fstat(file).st_size
        try:
            _write(file, data.encode("utf-8", "backslashreplace") + b"\n")
        except OSError as error:
            # Half a line with another one behind it could not be told apart any more.
            with suppress(OSError):
                os.ftruncate(file, whole)
            raise _unwritable(self.path, error) from None
        self._count(line)

    def close(self) -> None:
        """Let go of the file. Safe to call twice."""
        if self._file is not None:
            os.close(self._file)
            self._file = None

    def _load(self) -> None:
        """Count the lines there are, without those that are to be tried again."""
        dropped = False
        try:
            if self.path.exists():
                kept = self.path.with_name(self.path.name + ".new")
                with self.path.open("rb") as old, kept.open("wb") as new:
                    for number, line in enumerate(old, 1):
                        if not line.endswith(b"\n") or not self._keep(line, number):
                            dropped = True
                            continue
                        new.write(line)
                    new.flush()
                    os.fsync(new.fileno())
                if dropped:
                    kept.replace(self.path)
                else:
                    kept.unlink()
            self._file = os.open(self.path, os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC, 0o666)
        except OSError as error:
            raise _unwritable(self.path, error) from None
        self.summary.before = self.summary.done

    def _keep(self, raw: bytes, number: int) -> bool:
        try:
            line = json.loads(raw)
            again = line["answer"] is None and line["stop_reason"] in _GO_ON_WITH
            if not again:
                if str(line["id"]) in self.done:
                    raise UsageError(f"{self.path} has two lines of {line['id']!r}: remove one of them")
                self._count(line)
        except (ValueError, KeyError, TypeError):
            raise UsageError(
                f"line {number} of {self.path} is no line of a batch: put the file back as it was, or give "
                "another --out"
            ) from None
        return not again

    def _count(self, line: Mapping[str, Any]) -> None:
        self.summary.add(line)
        self.done[str(line["id"])] = str(line["run_id"])

    def _opened(self) -> int:
        if self._file is None:
            raise ValueError("the results file is closed")
        return self._file


def _known(data: bytes) -> dict[str, Any] | None:
    """What the file beside the results says; None for a new one, or one whose writing was cut off: then
    nothing was run yet."""
    try:
        known = json.loads(data)
    except ValueError:
        return None
    return known if isinstance(known, dict) and isinstance(known.get("batch"), str) else None


def _write(descriptor: int, data: bytes) -> None:
    view = memoryview(data)
    while view:
        view = view[os.write(descriptor, view) :]
    os.fsync(descriptor)


def _unwritable(path: Path, error: OSError) -> UsageError:
    return UsageError(f"{path} can't be written: {error.strerror}; make room, or give another --out")


async def unfinished_costs(store: str, batch: str) -> dict[str, float]:
    """US dollars by the run's name, as far as prices are known. `store` is the journal's. Raises
    JournalError."""
    async with Journal.open(store) as journal:
        names = await journal.unfinished(f"{batch}.")
        costs = [Recording.of(await journal.events(name)).spent.cost_usd for name in names]
    return {name: cost for name, cost in zip(names, costs, strict=True) if cost}
