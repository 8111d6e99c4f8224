"""Reads a run and its input back from the journal."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import MISSING, dataclass, fields, replace
from pathlib import Path
from typing import Any, TypeVar, get_args

from rlm.answers.answer_type import AnswerType
from rlm.documents import ContextCache, Loaded, PathSource, Source
from rlm.documents.workspace import Workspace
from rlm.errors import DocumentError, JournalError, ModelRejected, UsageError
from rlm.journal import Journal, JournalEvent
from rlm.journal.checks import damage_reported, is_number
from rlm.limits import Limits
from rlm.models.base import ModelWindow, Reply, Request
from rlm.models.call_settings import CallSettings
from rlm.models.catalog.info import ModelInfo
from rlm.playback.recording import Recording
from rlm.results import RESUMABLE, RunResult, StopReason
from rlm.sandbox.context.writer import ContextFile
from rlm.sandbox.types import KernelLimits
from rlm.settings import ChildSettings, DirectSettings, RootSettings, Settings

__all__ = ["StoredRun", "input_to_keep", "limits_of", "settings_of", "source_facts", "stored_result"]

_MB = 1 << 20
MAX_KEPT_FROM_PATHS = 16 * _MB
"""Bytes. The journal keeps inputs of up to this size; larger ones are read again from their paths."""
MAX_KEPT_FROM_STREAMS = 64 * _MB
"""The same limit for an input that cannot be read again: standard input, strings, pipes, URLs, revisions."""

_T = TypeVar("_T")


@dataclass(frozen=True, slots=True)
class StoredRun:
    """A run as the journal stores it. `facts` are its settings. `result` is None if the run can be resumed,
    because it has not ended or because the provider failed."""

    run_id: str
    task: str
    facts: Mapping[str, Any]
    events: tuple[JournalEvent, ...]
    result: RunResult | None

    @classmethod
    async def read(cls, journal: Journal, run: str, *, job: str | None = None) -> StoredRun:
        """Read the run with the name `run`, or whose name starts with `run`. `job` is the required kind of
        job; None requires a run of one question. Raises JournalError."""
        name = await journal.resolve(run)
        summary = await journal.get(name)
        events = await journal.events(name)
        facts = summary.settings
        if facts.get("job") != job:
            raise JournalError(_wrong_kind(name, facts.get("job"), job))
        result = stored_result(name, events)
        if result is not None and result.stop_reason in RESUMABLE:
            result = None
        with damage_reported(name):
            stored = cls(name, summary.task, facts, events, result)
            stored._check()
        return stored

    def _check(self) -> None:
        """Read everything of the facts once, so that nothing of it fails later."""
        limits_of(self.facts)
        settings_of(Settings(), self.facts)
        self.answer_type, self.model_facts, self.headers("model")
        for source in self.facts["sources"]:
            _name_of(source), _file(source)
        for name in ("warnings", "context_sha256", "context_chars"):
            self.facts[name]

    def recording(self) -> Recording:
        """Return the recorded rounds and replies. Raises JournalError if this version cannot read them."""
        with damage_reported(self.run_id):
            return Recording.of(self.events)

    @property
    def answer_type(self) -> AnswerType | None:
        """Return the type of the answer, if the run has one. Only its JSON schema is stored."""
        schema = self.facts["answer_schema"]
        return None if schema is None else AnswerType(json.loads(schema))

    @property
    def model_facts(self) -> Mapping[str, ModelInfo]:
        """Return the windows, prices and sizes of children that the run used, by the name of the model."""
        given = self.facts["model_facts"]
        alone = self.facts["summary_model"]
        if alone in (self.facts["model"], *self.sub_models.values()):
            alone = None
        return {
            name: replace(
                _restore(ModelInfo, given.get(name, {})),
                window=sizes["context"] + sizes.get("thinking", 0),
                output=sizes["output"],
                child_tokens=sizes.get("child_tokens"),
                calls=self.calls("summary_model") if name == alone else CallSettings(),
            )
            for name, sizes in self._sizes.items()
        }

    @property
    def sub_models(self) -> Mapping[str, str]:
        """Return the names of the models of its children, by the names that its cells use."""
        return {child["name"]: child["model"] for child in self.facts["sub_models"]}

    @property
    def _sizes(self) -> Mapping[str, Mapping[str, Any]]:
        """Return the windows of all models, and the sizes of children, by the name of the model."""
        windows = {self.facts[kind]: window for kind, window in self.facts["windows"].items()}
        return {**windows, **{one["model"]: one for one in self.facts["sub_models"]}}

    def calls(self, kind: str) -> CallSettings:
        """Return what the calls of the run's `model`, `sub_model` or `summary_model` asked for, without
        headers, which are not stored."""
        return CallSettings.from_json(self.facts["options"].get(kind, {}))

    def headers(self, kind: str) -> Sequence[str]:
        """Return the names of the headers that the calls of that kind (see `calls`) were sent with."""
        names: Sequence[str] = self.facts["options"].get(kind, {}).get("headers", ())
        return names

    def replay_only_models(self) -> tuple[ReplayOnlyModel, dict[str, ReplayOnlyModel], ReplayOnlyModel]:
        """Return stubs for the root, sub and summary models, with their names and windows."""

        def stub(name: str) -> ReplayOnlyModel:
            return ReplayOnlyModel(self.run_id, name, _restore(ModelWindow, self._sizes[name]))

        children = {name: stub(model) for name, model in self.sub_models.items()}
        return stub(self.facts["model"]), children, stub(self.facts["summary_model"])

    async def load(
        self,
        journal: Journal,
        workspace: Workspace,
        given: Sequence[Source] = (),
        cache: ContextCache | None = None,
    ) -> Loaded:
        """Load the input again: from the journal, or else from `given`, or else from the original files, read
        through the `cache`. Fetches nothing that the journal names. Raises UsageError if the input is gone or
        has changed."""
        sources: Sequence[Mapping[str, Any]] = self.facts["sources"]
        lost = next((source["name"] for source in sources if "path" not in source), None)
        files = [file for source in sources if (file := _file(source)) is not None]
        again = given or (() if lost else files)
        pictures = bool(self.facts.get("pictures"))
        loaded: Loaded | None = None
        if pictures and again:
            # The journal keeps the text of a page, and not its file.
            with suppress(DocumentError):
                loaded = await workspace.load(again, cache=cache, pictures=True)
                if loaded.context.sha256 == self.facts["context_sha256"]:
                    return loaded
        folder = workspace.folder / "kept"
        if await journal.restore_input(self.run_id, folder):
            return Loaded(await asyncio.to_thread(ContextFile.of, folder))
        if lost and not again:
            raise UsageError(
                f"the input of run {self.run_id} ({lost}) was not kept (it was given with "
                f"--no-document-cache, over {MAX_KEPT_FROM_STREAMS // _MB} MB, or contained an API key), and "
                "only files are read again. Ask the question again, with the same input"
            )
        try:
            loaded = loaded or await workspace.load(again, cache=cache, pictures=pictures)
        except DocumentError as error:
            raise UsageError(f"the input of run {self.run_id} is gone: {error}") from error
        if loaded.context.sha256 != self.facts["context_sha256"]:
            raise UsageError(
                f"the input of run {self.run_id} has changed since ({_name_of(sources[0])}"
                f"{', …' if len(sources) > 1 else ''}): restore the files, or ask the question again"
            )
        return loaded


def _wrong_kind(run: str, found: str | None, wanted: str | None) -> str:
    """Return why this command cannot resume a run, and the command that resumes it."""
    if found == "summarize":
        return f"run {run} is a summary. Give the same command again with --since {run}"
    if found == "plan":
        return f"run {run} made a plan (rlm show {run}). Give the plan to rlm research with --plan FILE"
    if found is None:
        return f"run {run} is not a {wanted} job. Resume it with rlm resume {run}"
    return f"run {run} is a {found} job, not a run of one question. Resume it with rlm resume {run}"


def source_facts(sources: Sequence[Source]) -> list[dict[str, Any]]:
    """Return the sources as the journal stores them: files by their path, anything else by its name."""
    # No address and no repository is stored: a resume would fetch what a stranger's store names.
    return [
        {"path": str(source.path.absolute()), "exclude": list(source.exclude)}
        if isinstance(source, PathSource) and not source.path.is_fifo()
        else {"name": source.name}
        for source in sources
    ]


def input_to_keep(
    journal: Journal, folder: Path, sources: Sequence[Mapping[str, Any]], settings: Settings
) -> Path | None:
    """Return the folder of the context if the journal may store it, or None."""
    if not settings.keep_input:
        return None
    has_only_paths = all("path" in source for source in sources)
    max_bytes = MAX_KEPT_FROM_PATHS if has_only_paths else MAX_KEPT_FROM_STREAMS
    return folder if journal.may_keep(folder, max_bytes) else None


def limits_of(facts: Mapping[str, Any], most: Limits | None = None) -> Limits:
    """Return the limits of a stored run, none of them above those of `most`."""
    stored = Limits(**facts["limits"])
    if most is None:
        return stored
    lower: dict[str, Any] = {}
    for one in fields(Limits):
        values = [value for limits in (stored, most) if (value := getattr(limits, one.name)) is not None]
        lower[one.name] = min(values, default=None)
    return Limits(**lower)


def settings_of(settings: Settings, facts: Mapping[str, Any]) -> Settings:
    """Return `settings`, with the stored settings of the run where they affect its rounds. Its kernels get
    what both allow: a journal may come from a stranger."""
    stored = _restore(KernelLimits, facts["kernel"])
    kernel = {
        one.name: min(getattr(stored, one.name), getattr(settings.kernel, one.name)) for one in fields(stored)
    }
    return replace(
        settings,
        strategy=facts["strategy"],
        cache=facts["cache"],
        check_support=facts["check_support"],
        slow=facts.get("slow", False),
        root=_restore(RootSettings, facts["root"]),
        child=_restore(ChildSettings, facts["child"]),
        direct=_restore(DirectSettings, facts["direct"]),
        kernel=KernelLimits(**kernel),
    )


def _restore(kind: type[_T], facts: Mapping[str, Any]) -> _T:
    """Return a settings dataclass from its stored fields, and the default of a missing one. Ignores fields
    that do not exist. Raises ValueError for a value that is not of the type of the default."""
    values = {field.name: facts[field.name] for field in fields(kind) if field.name in facts}  # type: ignore[arg-type]
    for field in fields(kind):  # type: ignore[arg-type]
        value, default = values.get(field.name, field.default), field.default
        is_right = value == default or (
            is_number(value) or (default is None and isinstance(value, bool))
            if default is None or is_number(default)
            else type(value) is type(default)
        )
        if not is_right and default is not MISSING:
            raise ValueError(f"{field.name} is {value!r:.40}")
    return kind(**values)


def _name_of(facts: Mapping[str, Any]) -> str:
    return str(facts["path"] if "path" in facts else facts["name"])


def _file(facts: Mapping[str, Any]) -> PathSource | None:
    return PathSource(Path(facts["path"]), tuple(facts["exclude"])) if "path" in facts else None


def stored_result(run_id: str, events: Sequence[JournalEvent]) -> RunResult | None:
    """Return the result of a run from its events; None if it has not ended. Raises JournalError if it is
    damaged."""
    if not events or events[-1].kind != "finished":
        return None
    with damage_reported(run_id):
        if events[-1].data["stop_reason"] not in get_args(StopReason):
            raise ValueError("its stop reason is unknown")
        return RunResult.from_json(events[-1].data)


class ReplayOnlyModel:
    """Implements Model with the name and the window of the recorded model."""

    def __init__(self, run_id: str, name: str, window: ModelWindow) -> None:
        self._run_id = run_id
        self._name = name
        self._window = window

    @property
    def name(self) -> str:
        return self._name

    @property
    def window(self) -> ModelWindow:
        return self._window

    async def generate(self, request: Request) -> Reply:
        raise ModelRejected(
            f"the journal of run {self._run_id} holds no reply to this {request.role} call: the "
            "replay diverged from the run"
        )

    async def aclose(self) -> None:
        """Do nothing."""
