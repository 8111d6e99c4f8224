"""The results file: one line a task, written once, also if the batch is killed.

The file `NAME.batch` next to it names the batch. The journal finds the runs of unfinished tasks by that name.
A lock on the file keeps a second process out.
"""

from __future__ import annotations

import fcntl
import json
import os
import re
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from functools import partial
from pathlib import Path
from typing import Any, Self

from rlm.batch.summary import BatchSummary
from rlm.errors import UsageError
from rlm.escaping import json_bytes
from rlm.journal import Journal
from rlm.journal.checks import damage_reported
from rlm.playback.recording import Recording
from rlm.results import RESUMABLE
from rlm.store_file import leads_out

__all__ = ["ResultsFile", "unfinished_costs"]

_RETRIED = RESUMABLE | {"error"}
"""Stop reasons after which the next start retries a task. The journal keeps the replies it has paid for."""
_MAX_LINE = 64 << 20
"""Bytes of a line of results."""
_BATCH = re.compile(r"[A-Za-z0-9_-]{1,40}")
"""The name of a batch, with which the names of its runs begin."""


class ResultsFile:
    """An open results file.

    `done` maps the ids that have a line (as text) to the names of their runs. `summary` counts these lines.
    `is_new` is False if an earlier start of the batch wrote to the file.
    """

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
        """Open the file for the new batch `batch` with these `facts` (its models), or for its own batch.

        Drops a line that a kill cut off, and the lines of failed tasks that are to be retried. Raises
        UsageError if `path` is not a results file, belongs to a batch with other facts, is locked by another
        process, or is not writable.
        """
        if path.exists() and not path.is_file():
            raise UsageError(
                f"{path} is not a regular file: give --out a file, so that the batch can be resumed"
            )
        if leads_out(path):
            raise UsageError(f"{path} is a link to {path.resolve()}: give that name, if you mean it")
        side = path.with_name(path.name + ".batch")
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
            # A link would let whoever made the folder have any file of the user emptied.
            lock = os.open(side, os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC, 0o666)
        except OSError as error:
            raise _unwritable(side, error) from None
        try:
            try:
                fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                raise UsageError(
                    f"another rlm batch is writing {path}: wait for it, or give a new --out"
                ) from None
            results = cls._for_batch(path, side, lock, batch, facts)
            try:
                results._load()
                yield results
            finally:
                results.close()
        finally:
            os.close(lock)

    @classmethod
    def _for_batch(cls, path: Path, side: Path, lock: int, batch: str, facts: Mapping[str, Any]) -> Self:
        sidecar = _parse_sidecar(os.pread(lock, 1 << 20, 0))
        if sidecar is None:
            if path.exists() and path.stat().st_size:
                raise UsageError(
                    f"{path} exists, but {side.name} next to it does not: give a new --out, or move the file "
                    "away"
                )
            try:
                os.ftruncate(lock, 0)
                os.pwrite(lock, json.dumps({"batch": batch, **facts}).encode() + b"\n", 0)
                os.fsync(lock)
            except OSError as error:
                raise _unwritable(side, error) from None
            return cls(path, batch, is_new=True)
        for name, value in facts.items():
            if sidecar.get(name) != value:
                raise UsageError(
                    f"{path} was started with {name} {sidecar.get(name)}, not {value}: use that, or give a "
                    "new --out"
                )
        return cls(path, str(sidecar["batch"]), is_new=False)

    def append(self, line: Mapping[str, Any]) -> None:
        """Write a line and wait until it is on the disk. Raises UsageError if that fails."""
        data = json_bytes(line, separators=(",", ":"))
        file = self._descriptor()
        size = os.fstat(file).st_size
        try:
            _write(file, data + b"\n")
        except OSError as error:
            # Half a line would merge with the next one.
            with suppress(OSError):
                os.ftruncate(file, size)
            raise _unwritable(self.path, error) from None
        self._count(line)

    def close(self) -> None:
        """Close the file. Safe to call twice."""
        if self._file is not None:
            os.close(self._file)
            self._file = None

    def _load(self) -> None:
        """Count the existing lines, and drop those of tasks that are to be retried."""
        has_dropped = False
        try:
            if self.path.exists():
                copy = self.path.with_name(self.path.name + ".new")
                copy.unlink(missing_ok=True)
                with self.path.open("rb") as old, copy.open("xb") as new:
                    for number, line in enumerate(iter(partial(old.readline, _MAX_LINE + 1), b""), 1):
                        if not line.endswith(b"\n") or not self._keep(line, number):
                            has_dropped = True
                            continue
                        new.write(line)
                    new.flush()
                    os.fsync(new.fileno())
                if has_dropped:
                    copy.replace(self.path)
                else:
                    copy.unlink()
            self._file = os.open(self.path, os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC, 0o666)
        except OSError as error:
            raise _unwritable(self.path, error) from None
        self.summary.before = self.summary.done

    def _keep(self, raw: bytes, number: int) -> bool:
        try:
            if len(raw) > _MAX_LINE:
                raise ValueError
            line = json.loads(raw)
            is_retried = line["answer"] is None and line["stop_reason"] in _RETRIED
            if not is_retried:
                if str(line["id"]) in self.done:
                    raise UsageError(
                        f"{self.path} has two lines with the id {line['id']!r}: remove one of them"
                    )
                self._count(line)
        except (ValueError, KeyError, TypeError, RecursionError):
            raise UsageError(
                f"line {number} of {self.path} is not a line of results: restore the file, or give "
                "a new --out"
            ) from None
        return not is_retried

    def _count(self, line: Mapping[str, Any]) -> None:
        self.summary.add(line)
        self.done[str(line["id"])] = str(line["run_id"])

    def _descriptor(self) -> int:
        if self._file is None:
            raise ValueError("the results file is closed")
        return self._file


def _parse_sidecar(data: bytes) -> dict[str, Any] | None:
    """Return the content of `NAME.batch`. None if it is new, or was cut off before any task ran."""
    try:
        sidecar = json.loads(data)
    except (ValueError, RecursionError):
        return None
    if not isinstance(sidecar, dict) or not _BATCH.fullmatch(str(sidecar.get("batch"))):
        return None
    return sidecar


def _write(descriptor: int, data: bytes) -> None:
    view = memoryview(data)
    while view:
        view = view[os.write(descriptor, view) :]
    os.fsync(descriptor)


def _unwritable(path: Path, error: OSError) -> UsageError:
    return UsageError(f"cannot write {path}: {error.strerror}; free some space, or give another --out")


async def unfinished_costs(store: str, batch: str) -> dict[str, float]:
    """Return the cost of each unfinished run in US dollars, as far as prices are known.

    `store` is the journal. Raises JournalError.
    """
    async with Journal.open(store) as journal:
        costs: dict[str, float] = {}
        for name in await journal.unfinished(f"{batch}."):
            with damage_reported(name):
                costs[name] = Recording.of(await journal.events(name)).spent.cost_usd
    return {name: cost for name, cost in costs.items() if cost}
