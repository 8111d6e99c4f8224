"""The results of a batch: one line a task, written once, also if the batch is killed; and their sums.

The file `NAME.batch` next to them names the batch, and the journal finds the runs of unfinished tasks by that
name. A lock on the file keeps a second process out.
"""

from __future__ import annotations

import fcntl
import json
import os
import re
from collections import Counter
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import asdict, dataclass, field
from functools import partial
from io import FileIO
from pathlib import Path
from typing import Any, Self

from rlm.errors import UsageError
from rlm.escaping import json_bytes
from rlm.results import RESUMABLE
from rlm.store_file import leads_out

__all__ = ["BatchSummary", "ResultsFile", "cost_of"]

_RETRIED = RESUMABLE | {"error"}
"""Stop reasons after which the next start retries a task. The journal keeps the replies it has paid for."""
_MAX_LINE = 64 << 20
"""Bytes of a line of results."""
_BATCH = re.compile(r"[A-Za-z0-9_-]{1,40}")
"""The name of a batch, with which the names of its runs begin."""


@dataclass(slots=True)
class BatchSummary:
    """The sums so far. `ends` counts tasks by `answered` or their stop reason. `cost_usd` is a lower bound if
    `cost_known` is False. `before` is the number of lines that earlier starts wrote."""

    tasks: int = 0
    before: int = 0
    ends: Counter[str] = field(default_factory=Counter)
    calls: int = 0
    input_tokens: int = 0
    output_tokens: int = 0
    cost_usd: float = 0.0
    cost_known: bool = True
    citations: int = 0
    verified: int = 0
    seconds: float = 0.0

    @property
    def done(self) -> int:
        """The number of tasks that have a line."""
        return self.ends.total()

    @property
    def answered(self) -> int:
        return self.ends["answered"]

    def add(self, line: Mapping[str, Any]) -> None:
        """Count one line of the results."""
        self.ends["answered" if line["answer"] is not None else str(line["stop_reason"])] += 1
        for usage in line["usage"]:
            self.calls += usage["calls"]
            self.input_tokens += usage["input_tokens"]
            self.output_tokens += usage["output_tokens"]
        cost = cost_of(line)
        self.cost_known = self.cost_known and cost is not None
        self.cost_usd += cost or 0.0
        self.citations += len(line["citations"])
        self.verified += sum(bool(citation["verified"]) for citation in line["citations"])

    def to_json(self) -> dict[str, Any]:
        """Return a JSON-safe mapping."""
        return {**asdict(self), "ends": dict(self.ends), "done": self.done, "answered": self.answered}


def cost_of(line: Mapping[str, Any]) -> float | None:
    """Return the cost of a line's task, None if a price is unknown."""
    costs = [usage["cost_usd"] for usage in line["usage"]]
    return None if any(cost is None for cost in costs) else float(sum(costs))


class ResultsFile:
    """An open results file of the batch named `batch`. `done` maps the ids that have a line (as text) to the
    names of their runs. `is_new` is False if an earlier start wrote to the file."""

    def __init__(self, path: Path, batch: str, *, is_new: bool) -> None:
        self.path = path
        self.batch = batch
        self.is_new = is_new
        self.done: dict[str, str] = {}
        self.summary = BatchSummary()
        self._file: FileIO

    @classmethod
    @contextmanager
    def open(cls, path: Path, batch: str, facts: Mapping[str, Any]) -> Iterator[Self]:
        """Open the file for the new batch `batch` with these `facts` (its models), or for its own batch.

        Drops a line that a kill cut off, and the lines of failed tasks that are to be retried. Raises
        UsageError if `path` is not a results file, belongs to a batch with other facts, is locked by another
        process, or is not writable.
        """
        if path.exists() and not path.is_file():
            raise UsageError(f"{path} is not a regular file: give --out a file, so that the batch can resume")
        if leads_out(path):
            raise UsageError(f"{path} is a link to {path.resolve()}: give that name, if you mean it")
        with ExitStack() as stack:
            try:
                results = cls._locked(path, {"batch": batch, **facts}, stack)
                results._drop_unfinished()
                # Unbuffered: what does not fit on a full disk is not written later.
                results._file = stack.enter_context(path.open("ab", buffering=0))
            except OSError as error:
                raise _unwritable(path, error) from None
            yield results

    @classmethod
    def _locked(cls, path: Path, facts: Mapping[str, Any], stack: ExitStack) -> Self:
        """Lock the file that names the batch, and read it or write it."""
        side = path.with_name(path.name + ".batch")
        path.parent.mkdir(parents=True, exist_ok=True)
        # A link would let whoever made the folder have any file of the user emptied.
        lock = os.open(side, os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC, 0o666)
        named = stack.enter_context(FileIO(lock, "r+"))
        try:
            fcntl.flock(named, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise UsageError(f"another rlm batch is writing {path}: wait, or give a new --out") from None
        with suppress(ValueError, RecursionError):  # cut off before any task ran
            known = json.loads(named.read(1 << 20))
            if isinstance(known, dict) and _BATCH.fullmatch(str(known.get("batch"))):
                for name in facts.keys() - {"batch"}:
                    if known.get(name) != facts[name]:
                        raise UsageError(
                            f"{path} was started with {name} {known.get(name)}, not {facts[name]}: use that, "
                            "or give a new --out"
                        )
                return cls(path, str(known["batch"]), is_new=False)
        if path.exists() and path.stat().st_size:
            raise UsageError(f"{path} exists, but {side.name} does not: give a new --out, or move it away")
        named.truncate(0)
        os.pwrite(lock, json.dumps(facts).encode() + b"\n", 0)
        os.fsync(lock)
        return cls(path, facts["batch"], is_new=True)

    def append(self, line: Mapping[str, Any]) -> None:
        """Write a line and wait until it is on the disk. Raises UsageError if that fails."""
        data = memoryview(json_bytes(line, separators=(",", ":")) + b"\n")
        size = os.fstat(self._file.fileno()).st_size
        try:
            while data:
                data = data[self._file.write(data) :]
            os.fsync(self._file.fileno())
        except OSError as error:
            # Half a line would merge with the next one.
            with suppress(OSError):
                self._file.truncate(size)
            raise _unwritable(self.path, error) from None
        self._count(line)

    def _drop_unfinished(self) -> None:
        """Count the existing lines, and drop those of tasks that are to be retried."""
        if not self.path.exists():
            return
        copy = self.path.with_name(self.path.name + ".new")
        copy.unlink(missing_ok=True)
        with self.path.open("rb") as old, copy.open("xb") as new:
            for number, line in enumerate(iter(partial(old.readline, _MAX_LINE + 1), b""), 1):
                if line.endswith(b"\n") and self._keep(line, number):
                    new.write(line)
            new.flush()
            os.fsync(new.fileno())
            is_same = os.fstat(new.fileno()).st_size == os.fstat(old.fileno()).st_size
        copy.unlink() if is_same else copy.replace(self.path)
        self.summary.before = self.summary.done

    def _keep(self, raw: bytes, number: int) -> bool:
        try:
            line = json.loads(raw)
            if line["answer"] is None and line["stop_reason"] in _RETRIED:
                return False
            if str(line["id"]) in self.done:
                raise UsageError(f"{self.path} has two lines with the id {line['id']!r}: remove one of them")
            self._count(line)
        except (ValueError, KeyError, TypeError, RecursionError):
            raise UsageError(
                f"line {number} of {self.path} is not a line of results: restore it, or give a new --out"
            ) from None
        return True

    def _count(self, line: Mapping[str, Any]) -> None:
        self.summary.add(line)
        self.done[str(line["id"])] = str(line["run_id"])


def _unwritable(path: Path, error: OSError) -> UsageError:
    name = error.filename or path
    return UsageError(f"cannot write {name}: {error.strerror}; free some space, or give another --out")
