"""The tasks file: checked whole before anything is spent, then read task by task."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO, Self

from rlm.batch.task import BadTask, BatchTask
from rlm.errors import DocumentError, UsageError

__all__ = ["BadLine", "TaskPlace", "TasksFile"]

_SHOWN = 3


@dataclass(frozen=True, slots=True)
class TaskPlace:
    """Where a task stands, and what it is known by. Texts are left in the file: there may be a million."""

    id: str | int
    digest: str
    line: int
    offset: int


@dataclass(frozen=True, slots=True)
class BadLine:
    """A line that is no task, and why; `id` is its own, else `line N`."""

    id: str | int
    line: int
    reason: str


class TasksFile:
    """A file of JSON lines, open. `places` are its tasks in order, `bad` the lines that are none."""

    def __init__(self, path: Path, stream: BinaryIO) -> None:
        self.path = path
        self._stream = stream
        self.places: list[TaskPlace] = []
        self.bad: list[BadLine] = []
        self._index()

    @classmethod
    @contextmanager
    def open(cls, path: Path, *, skip_bad: bool = False) -> Iterator[Self]:
        """The file, once every line of it is checked, paths included. Raises UsageError, one line, when it
        can't be read, holds no task or (unless `skip_bad`) holds a line that is none: an id given twice, a
        path that is not there."""
        try:
            stream = path.open("rb")
        except OSError as error:
            raise UsageError(f"{path} can't be read: {error.strerror}; check the path") from None
        with stream:
            if not stream.seekable():
                raise UsageError(f"{path} is a pipe: write the tasks to a file first")
            file = cls(path, stream)
            if file.bad and not skip_bad:
                raise UsageError(file._complaint())
            if not file.places and not file.bad:
                raise UsageError(f'{path} holds no task: write one {{"id", "task", "context"}} a line')
            yield file

    def read(self, place: TaskPlace) -> BatchTask:
        """The task at a place. Raises UsageError when the file was changed meanwhile."""
        self._stream.seek(place.offset)
        try:
            task = BatchTask.parse(self._stream.readline())
        except BadTask as error:
            raise UsageError(f"{self.path} was changed while it was worked through: {error}") from None
        if task.digest != place.digest:
            raise UsageError(f"{self.path} was changed while it was worked through: begin again")
        return task

    def _index(self) -> None:
        seen: dict[str, int] = {}
        offset = 0
        try:
            for number, line in enumerate(self._stream, 1):
                begins, offset = offset, offset + len(line)
                if not line.strip():
                    continue
                self._take(line, number, begins, seen)
        except OSError as error:
            raise UsageError(f"{self.path} can't be read: {error.strerror}") from None

    def _take(self, line: bytes, number: int, offset: int, seen: dict[str, int]) -> None:
        try:
            task = BatchTask.parse(line)
            first = seen.setdefault(str(task.id), number)
            if first != number:
                # Under its number: an id names one line of the results.
                raise BadTask(f"has the id of line {first} ({task.id!r}): give every task its own")
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
        shown = "; ".join(f"line {bad.line} {bad.reason}" for bad in self.bad[:_SHOWN])
        more = f"; and {len(self.bad) - _SHOWN} more" if len(self.bad) > _SHOWN else ""
        return f"{self.path}: {shown}{more} (nothing was spent; --skip-bad runs the others)"
