"""The tasks file: every line is checked before anything is spent, then tasks are read one by one."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import BinaryIO, Self

from rlm.batch.task import BadTask, BatchTask
from rlm.errors import DocumentError, UsageError
from rlm.lazy_dataclass import dataclass

__all__ = ["BadLine", "TaskPlace", "TasksFile"]

_MAX_SHOWN = 3
MAX_LINE = 128 << 20
"""Bytes of a task."""


@dataclass(frozen=True, slots=True)
class TaskPlace:
    """The place of a task in the file. Its texts stay in the file, because there may be a million tasks."""

    id: str | int
    digest: str
    line: int
    offset: int


@dataclass(frozen=True, slots=True)
class BadLine:
    """A line that is not a valid task, and why. `id` is its id, or `line N` without one."""

    id: str | int
    line: int
    reason: str


class TasksFile:
    """An open file of JSON lines. `places` are its tasks in order, `bad` its invalid lines."""

    def __init__(self, path: Path, stream: BinaryIO) -> None:
        self.path = path
        self._stream = stream
        self.places: list[TaskPlace] = []
        self.bad: list[BadLine] = []
        self._index()

    @classmethod
    @contextmanager
    def open(cls, path: Path, *, skip_bad: bool = False) -> Iterator[Self]:
        """Open the file and check every line, including ids and paths.

        Raises UsageError if the file is unreadable or has no task, or (unless `skip_bad`) an invalid line.
        """
        try:
            stream = path.open("rb")
        except OSError as error:
            raise UsageError(f"cannot read {path}: {error.strerror}; check the path") from None
        with stream:
            if not stream.seekable():
                raise UsageError(f"{path} is a pipe: write the tasks to a file first")
            file = cls(path, stream)
            if file.bad and not skip_bad:
                raise UsageError(file._complaint())
            if not file.places and not file.bad:
                raise UsageError(f'{path} has no task: write one {{"id", "task", "context"}} a line')
            yield file

    def read(self, place: TaskPlace) -> BatchTask:
        """Read the task at a place. Raises UsageError if the file has changed."""
        self._stream.seek(place.offset)
        try:
            task = BatchTask.parse(self._stream.readline())
        except BadTask as error:
            raise UsageError(f"{self.path} changed during the batch: {error}") from None
        if task.digest != place.digest:
            raise UsageError(f"{self.path} changed during the batch: start the command again")
        return task

    def _index(self) -> None:
        seen: dict[str, int] = {}
        offset = 0
        try:
            lines = iter(partial(self._stream.readline, MAX_LINE + 1), b"")
            for number, line in enumerate(lines, 1):
                start, offset = offset, offset + len(line)
                if len(line) > MAX_LINE:
                    raise UsageError(
                        f"line {number} of {self.path} has over {MAX_LINE >> 20} MB: put its text into a "
                        "file, and name the file in its context"
                    )
                if not line.strip():
                    continue
                self._index_line(line, number, start, seen)
        except OSError as error:
            raise UsageError(f"cannot read {self.path}: {error.strerror}; check its disk") from None

    def _index_line(self, line: bytes, number: int, offset: int, seen: dict[str, int]) -> None:
        try:
            task = BatchTask.parse(line)
            first = seen.setdefault(str(task.id), number)
            if first != number:
                # Reported under its line number, because an id names one line of the results.
                raise BadTask(f"has the id of line {first} ({task.id!r}): give each task its own id")
            task.sources()
        except BadTask as error:
            if error.id is not None and seen.setdefault(str(error.id), number) == number:
                self.bad.append(BadLine(error.id, number, str(error)))
            else:
                self.bad.append(BadLine(f"line {number}", number, str(error)))
        except DocumentError as error:
            self.bad.append(BadLine(task.id, number, str(error)))
        else:
            self.places.append(TaskPlace(task.id, task.digest, number, offset))

    def _complaint(self) -> str:
        shown = "; ".join(f"line {bad.line} {bad.reason}" for bad in self.bad[:_MAX_SHOWN])
        more = f"; and {len(self.bad) - _MAX_SHOWN} more" if len(self.bad) > _MAX_SHOWN else ""
        return f"{self.path}: {shown}{more} (nothing was spent; --skip-bad runs the other tasks)"
