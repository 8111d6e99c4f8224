"""The tasks of a batch: every line is checked before anything is spent, and read again when it runs."""

from __future__ import annotations

import hashlib
import io
import json
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any, BinaryIO, NamedTuple, Self

from rlm.answers.answer_type import AnswerType
from rlm.documents import Source, TextSource, sources_from_arguments
from rlm.errors import DocumentError, RLMError, UsageError
from rlm.limits import Limits, limit_names
from rlm.prompts import InputError
from rlm.prompts.json_input import parse_json, read

__all__ = ["BadTask", "BatchTask", "TasksFile"]

_KEYS = ("id", "task", "context", "schema", "limits")
_MAX_SHOWN = 3
MAX_LINE = 128 << 20
"""Bytes of a task."""


class BadTask(UsageError):
    """A line is not a valid task. `id` is its id; in a file, a line without one has `line N`."""

    def __init__(self, message: str, id: str | int | None) -> None:
        super().__init__(message)
        self.id = id


class _Fields(NamedTuple):
    task: str
    schema: Mapping[str, Any] | None = None
    limits: Mapping[str, Any] | None = None


class _Text(NamedTuple):
    text: str
    name: str = ""


@dataclass(frozen=True, slots=True)
class BatchTask:
    """A question and its context: paths, and texts as `{"text": …}` with an optional `name`. `digest` is a
    hash of the content, and the id of a task without one."""

    id: str | int
    task: str
    context: tuple[str | Mapping[str, str], ...]
    schema: Mapping[str, Any] | None
    limits: Mapping[str, Any]
    digest: str

    @classmethod
    def parse(cls, line: bytes) -> BatchTask:
        """Parse a line. Raises BadTask with the fault and its remedy. Does not check files."""
        id_: str | int | None = None
        try:
            record = parse_json(line)
            if not isinstance(record, Mapping):
                raise InputError("$", "is no task", 'give {"id": …, "task": …, "context": […]}')
            content = {key: value for key, value in record.items() if value is not None}
            digest = hashlib.sha256(json.dumps(content, sort_keys=True).encode()).hexdigest()
            given = record.get("id", f"task-{digest[:12]}")
            if isinstance(given, bool) or not isinstance(given, str | int) or not str(given).strip():
                raise InputError("$.id", "is no id", "give a text or a whole number")
            id_ = given
            _refuse_unknown(record, "$", _KEYS)
            fields = read(_Fields, {key: content[key] for key in _Fields._fields if key in content})
            context = content.get("context")
            if not fields.task.strip():
                raise InputError("$.task", "is empty", "give a question")
            if not context:
                raise InputError("$.context", "is missing or empty", 'give paths or {"text": …}')
            parts = context if isinstance(context, list) else [context]
            if fields.schema is not None:
                AnswerType(fields.schema)
            limits = limit_names(fields.limits or {})
            Limits(**limits)
            sources = tuple(_part(part, f"$.context[{place}]") for place, part in enumerate(parts))
            return cls(id_, fields.task, sources, fields.schema, limits, digest[:16])
        except ValueError as error:
            raise BadTask(f"is not JSON ({error}): write one object on one line", None) from None
        except (InputError, RLMError) as error:
            raise BadTask(str(error), id_) from None

    def sources(self) -> tuple[Source, ...]:
        """Return the context for a run, with paths relative to the current folder. Raises DocumentError if a
        path does not exist."""
        sources: list[Source] = []
        for number, part in enumerate(self.context, 1):
            if isinstance(part, str):
                sources.extend(sources_from_arguments([part], io.BytesIO()))
            else:
                sources.append(TextSource(part.get("name") or f"text {number}", part["text"]))
        return tuple(sources)

    def under(self, limits: Limits) -> Limits:
        """Return the batch's limits, overridden by the task's own."""
        return replace(limits, **self.limits)


def _part(value: Any, path: str) -> str | Mapping[str, str]:
    if isinstance(value, str):
        if value in ("", "-"):
            raise InputError(path, f"is {value!r}", "name a file: a batch does not read stdin")
        return value
    if not isinstance(value, Mapping):
        raise InputError(path, "is no source", 'give a path or {"text": …}')
    _refuse_unknown(value, path, ("text", "name"))
    read(_Text, value, path)
    return value


def _refuse_unknown(record: Mapping[str, Any], path: str, known: Sequence[str]) -> None:
    for key in record:
        if key not in known:
            raise InputError(f"{path}.{key}", "is unknown", f"use {', '.join(known)}")


class TasksFile:
    """An open file of JSON lines. `tasks` holds the line number and the digest of each task by its id (as
    text), `bad` the invalid lines. Texts stay in the file, because there may be a million tasks: iterating
    reads one task at a time."""

    def __init__(self, path: Path, stream: BinaryIO) -> None:
        self.path = path
        self.tasks: dict[str, tuple[int, str]] = {}
        self.bad: list[BadTask] = []
        self._stream = stream

    @classmethod
    @contextmanager
    def open(cls, path: Path, *, skip_bad: bool = False) -> Iterator[Self]:
        """Open the file and check every line, including ids and paths. Raises UsageError if the file is
        unreadable or has no task, or (unless `skip_bad`) an invalid line."""
        with ExitStack() as stack:
            try:
                file = cls(path, stack.enter_context(path.open("rb")))
                file._check()
            except OSError as error:
                raise UsageError(f"cannot read {path}: {error.strerror or error}; check it") from None
            if file.bad and not skip_bad:
                more = len(file.bad) - _MAX_SHOWN
                shown = [*map(str, file.bad[:_MAX_SHOWN]), *([f"and {more} more"] if more > 0 else [])]
                raise UsageError(
                    f"{path}: {'; '.join(shown)} (nothing was spent; --skip-bad runs the other tasks)"
                )
            if not file.tasks and not file.bad:
                raise UsageError(f'{path} has no task: write one {{"id", "task", "context"}} a line')
            yield file

    def __iter__(self) -> Iterator[BatchTask]:
        """Read the tasks in order. Raises UsageError, at the end, if the file has changed."""
        left = len(self.tasks)
        for number, line in self._lines():
            try:
                task = BatchTask.parse(line)
            except BadTask:
                continue
            if self.tasks.get(str(task.id)) == (number, task.digest):
                left -= 1
                yield task
        if left:
            raise UsageError(f"{self.path} changed during the batch: start the command again")

    def _lines(self) -> Iterator[tuple[int, bytes]]:
        self._stream.seek(0)
        for number, line in enumerate(iter(partial(self._stream.readline, MAX_LINE + 1), b""), 1):
            if len(line) > MAX_LINE:
                raise UsageError(
                    f"line {number} of {self.path} has over {MAX_LINE >> 20} MB: put its text into a file"
                )
            if line.strip():
                yield number, line

    def _check(self) -> None:
        if not self._stream.seekable():
            raise UsageError(f"{self.path} is a pipe: write the tasks to a file first")
        numbers: dict[str, int] = {}
        for number, line in self._lines():
            id_, digest, fault = None, "", ""
            try:
                task = BatchTask.parse(line)
                id_, digest = task.id, task.digest
                task.sources()
            except BadTask as error:
                id_, fault = error.id, str(error)
            except DocumentError as error:
                fault = str(error)
            first = number if id_ is None else numbers.setdefault(str(id_), number)
            if first != number:
                fault = f"has the id of line {first} ({id_!r}): give each task its own id"
            if fault:
                # An id names one line of the results.
                name = f"line {number}" if id_ is None or first != number else id_
                self.bad.append(BadTask(f"line {number} {fault}", name))
            else:
                self.tasks[str(id_)] = number, digest
