"""One task of a batch: a line of the tasks file."""

from __future__ import annotations

import hashlib
import io
import json
from collections.abc import Mapping
from dataclasses import field, replace
from pathlib import Path
from typing import Any

from rlm.answers.answer_type import AnswerType
from rlm.documents import Source, TextSource, sources_from_arguments
from rlm.errors import RLMError, UsageError
from rlm.lazy_dataclass import dataclass
from rlm.limits import Limits, limit_names
from rlm.prompts.json_input import parse_json

__all__ = ["BadTask", "BatchTask"]

_KEYS = ("id", "task", "context", "schema", "limits")
_MAX_ID_CHARS = 500
_MAX_PARTS = 10_000
_MAX_SCHEMA_CHARS = 256_000


class BadTask(UsageError):
    """A line is not a valid task. `id` is its id, if it has one."""

    def __init__(self, message: str, id: str | int | None = None) -> None:
        super().__init__(message)
        self.id = id


@dataclass(frozen=True, slots=True)
class BatchTask:
    """A question and its context: paths, and texts as `{"text": …}` with an optional `name`. Without an `id`,
    its hash is one.

    `limits` override those of the batch. `digest` is a hash of the content.
    """

    id: str | int
    task: str
    context: tuple[str | Mapping[str, str], ...]
    schema: Mapping[str, Any] | None = None
    limits: Mapping[str, Any] = field(default_factory=dict)
    digest: str = ""

    @classmethod
    def parse(cls, line: bytes) -> BatchTask:
        """Parse a line. Raises BadTask with the fault and its remedy. Does not check files."""
        try:
            data = parse_json(line)
        except ValueError as error:
            raise BadTask(f"is not JSON ({error}): write one object on one line") from None
        if not isinstance(data, dict):
            raise BadTask('is not an object: write {"id": …, "task": …, "context": […]}')
        id_ = data.get("id") if "id" in data else f"task-{_digest(data)[:12]}"
        if isinstance(id_, bool) or not isinstance(id_, str | int) or str(id_).strip() == "":
            raise BadTask('has no "id": give a text or a whole number')
        if len(str(id_)) > _MAX_ID_CHARS:
            raise BadTask(f'has an "id" of over {_MAX_ID_CHARS} characters: give a shorter one')
        try:
            _check(data)
        except RLMError as error:
            raise BadTask(str(error), id_) from None
        context = data["context"]
        parts = tuple(context) if isinstance(context, list) else (context,)
        return cls(
            id=id_,
            task=data["task"],
            context=parts,
            schema=data.get("schema"),
            limits=data.get("limits") or {},
            digest=_digest(data)[:16],
        )

    def sources(self) -> tuple[Source, ...]:
        """Return the context for a run, with paths relative to the current folder.

        Raises DocumentError if a path does not exist.
        """
        sources: list[Source] = []
        for number, part in enumerate(self.context, 1):
            if isinstance(part, str):
                sources.extend(sources_from_arguments([part], io.BytesIO()))
            else:
                sources.append(TextSource(part.get("name", f"text {number}"), part["text"]))
        return tuple(sources)

    def with_absolute_paths(self, folder: Path) -> BatchTask:
        """Return the same task with absolute paths, for a process in another folder than `folder`."""
        parts = [
            str(folder / part)
            if isinstance(part, str) and not part.startswith("~") and "://" not in part
            else part
            for part in self.context
        ]
        return replace(self, context=tuple(parts))

    def under(self, limits: Limits) -> Limits:
        """Return the batch's limits, overridden by the task's own."""
        return replace(limits, **limit_names(self.limits))


def _digest(data: Mapping[str, Any]) -> str:
    """Return the hash of what a task asks."""
    content = {key: data[key] for key in _KEYS if data.get(key) is not None}
    return hashlib.sha256(json.dumps(content, sort_keys=True, ensure_ascii=True).encode()).hexdigest()


def _check(data: Mapping[str, Any]) -> None:
    unknown = sorted(data.keys() - set(_KEYS))
    if unknown:
        raise UsageError(f"has an unknown key {unknown[0]!r}: use {', '.join(_KEYS)}")
    task = data.get("task")
    if not isinstance(task, str) or not task.strip():
        raise UsageError('has no "task": give the question as a text')
    if "context" not in data:
        raise UsageError('has no "context": give a list of paths or {"text": …}')
    _check_context(data["context"])
    limits = data.get("limits")
    if limits is not None:
        if not isinstance(limits, dict):
            raise UsageError('"limits" is not an object: write {"max_cost": 0.1}')
        Limits(**limits)
    schema = data.get("schema")
    if schema is not None:
        if not isinstance(schema, dict):
            raise UsageError('"schema" is not an object: give a JSON Schema')
        if len(json.dumps(schema)) > _MAX_SCHEMA_CHARS:
            raise UsageError(f'"schema" has over {_MAX_SCHEMA_CHARS:,} characters: give a shorter one')
        AnswerType(schema)


def _check_context(context: Any) -> None:
    parts = context if isinstance(context, list) else [context]
    if len(parts) > _MAX_PARTS:
        raise UsageError(f'"context" has {len(parts):,} parts: give at most {_MAX_PARTS:,}, or a folder')
    if not parts:
        raise UsageError('"context" is empty: give a path or {"text": …}')
    for part in parts:
        if isinstance(part, dict):
            has_known_keys = part.keys() <= {"text", "name"}
            if (
                not has_known_keys
                or not isinstance(part.get("text"), str)
                or not isinstance(part.get("name", ""), str)
            ):
                raise UsageError('"context" holds an object that is not {"text": …} (and an optional "name")')
        elif not isinstance(part, str) or not part:
            raise UsageError('"context" holds something that is neither a path nor {"text": …}')
        elif part == "-":
            raise UsageError('"context" holds "-", but a batch does not read stdin: name a file')
