"""A session asks many questions over one context, in one kernel.

Variables stay from question to question, and the context may grow between questions.
"""

from __future__ import annotations

import asyncio
import shutil
from collections.abc import Callable, Sequence
from contextlib import AbstractAsyncContextManager, AsyncExitStack
from dataclasses import replace
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from rlm.answers.answer_type import AnswerType
from rlm.children.run_input import RunInput
from rlm.children.tools import Toolbox
from rlm.documents import Context, Loaded, PathSource, Source, sources_of
from rlm.documents.workspace import Workspace
from rlm.errors import DocumentError, JournalError, UsageError
from rlm.journal import Journal, new_run_id
from rlm.results import RunResult
from rlm.runs.config import RunConfig
from rlm.runs.load_warnings import warnings_of
from rlm.runs.options import RunOptions, RunResources
from rlm.runs.run import Run
from rlm.runs.setup import (
    cache_of,
    facts_of,
    load_input,
    make_room,
    open_journal,
    resources_for,
    start_warnings,
    type_of,
    with_journal_failure,
)
from rlm.runs.shared_kernel import SharedKernel
from rlm.runs.stored_run import StoredRun, input_to_keep, source_facts
from rlm.sandbox.context.writer import ContextFile, ContextFileWriter
from rlm.sandbox.text.body import Body
from rlm.sessions.previous_questions import (
    PreviousQuestion,
    describe_variables,
    read_earlier_runs,
)

__all__ = ["Session"]


class Session:
    """Made by `RLM.session`. Use it in `async with`. It answers one question at a time.

    Each question is a run of its own and gets the full limits of the RLM. If a question is cancelled or fails
    with an exception, its variables are discarded, but not those of earlier questions.
    """

    def __init__(
        self,
        config: Callable[[], RunConfig],
        sources: Sequence[Source],
        after: str | None,
        open_toolbox: Callable[[], AbstractAsyncContextManager[Toolbox]],
    ) -> None:
        self._config = config
        self._open_toolbox = open_toolbox
        self._tools = Toolbox()
        self._initial_sources = list(sources)
        self._after = after
        self._stack: AsyncExitStack | None = None
        self._pending: list[Source] = []
        self._earlier: list[PreviousQuestion] = []
        self._is_asking = False
        self._workspace: Workspace
        self._journal: Journal
        self._resources: RunResources
        self._kernel: SharedKernel
        self._context: ContextFile
        self._body: Body
        self._sources: list[dict[str, Any]]
        self._warnings: list[str]
        self._unread: list[str]
        self._times_grown = 0

    async def __aenter__(self) -> Self:
        async with AsyncExitStack() as stack:
            await self._open(stack)
            self._stack = stack.pop_all()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._stack is not None:
            stack, self._stack = self._stack, None
            await stack.aclose()

    def __repr__(self) -> str:
        if self._stack is None:
            return "Session(not open)"
        sizes = (
            (len(self._context.documents), "document"),
            (self._context.chars, "character"),
            (len(self._earlier), "question"),
        )
        return f"Session({', '.join(f'{count:,} {noun}' + 's' * (count != 1) for count, noun in sizes)})"

    @property
    def run_ids(self) -> tuple[str, ...]:
        """Return the runs of the questions, oldest first, including the runs that the session continues."""
        return tuple(one.run_id for one in self._earlier)

    def append(self, source: Context) -> None:
        """Append a text, a file or a folder to the context of the next question. It is read when that
        question is asked. The offsets of earlier documents do not change. Raises UsageError for an empty
        text, DocumentError for a path that does not exist."""
        if isinstance(source, str) and not source:
            raise UsageError("the text to append is empty")
        added = sources_of(source)
        for one in added:
            if isinstance(one, PathSource) and not one.path.exists():
                raise DocumentError(f"{one.path} does not exist: check the path")
        self._pending += added

    async def run(self, task: str, *, schema: Any = None) -> RunResult:
        """Answer the next question like `RLM.run`. Raises DocumentError if an appended source cannot be read;
        then nothing is appended."""
        if self._stack is None:
            raise UsageError("the session is not open. Ask inside `async with rlm.session(…) as session`")
        if self._is_asking:
            raise UsageError("the session answers one question at a time. Await the previous question first")
        self._is_asking = True
        try:
            config = self._new_config()
            answer_type = type_of(task, schema, config.model)
            await self._append_pending()
            return await self._ask(config, task, answer_type)
        finally:
            self._is_asking = False

    def _new_config(self) -> RunConfig:
        return replace(self._config(), tools=self._tools)

    async def _open(self, stack: AsyncExitStack) -> None:
        self._tools = await stack.enter_async_context(self._open_toolbox())
        config = self._new_config()
        self._workspace = stack.enter_context(Workspace())
        self._journal = await stack.enter_async_context(open_journal(config.settings))
        removed = await make_room(self._journal, config.settings)
        loaded = await (
            self._load(config) if self._after is None else self._load_continued(config, self._after)
        )
        self._warnings += removed
        self._context, self._body = loaded.context, loaded.context.open()
        stack.callback(self._close_body)
        kernels = config.kernels()
        stack.push_async_callback(kernels.close)
        self._resources = resources_for(config, self._workspace, kernels)
        self._kernel = SharedKernel(self._context, kernels, tools=config.tools.docs)
        stack.push_async_callback(self._kernel.close)
        self._kernel.past = [one.past for one in self._earlier]

    async def _load(self, config: RunConfig) -> Loaded:
        loaded = await load_input(config, self._initial_sources, self._workspace, pictures=True)
        self._sources = source_facts(self._initial_sources)
        self._warnings = start_warnings(config, loaded)
        self._unread = list(loaded.unread)
        return loaded

    async def _load_continued(self, config: RunConfig, after: str) -> Loaded:
        """Load the context of the run `after`, and read its question and the earlier ones."""
        stored = await StoredRun.read(self._journal, after)
        runs = (*await read_earlier_runs(self._journal, stored), stored)
        for one in runs:
            missing = config.tools.as_recorded(one.facts.get("tools", ())).missing
            if missing:
                raise UsageError(
                    f"run {one.run_id} had tools that are missing or changed: {', '.join(missing)}. Continue "
                    "it in Python, with RLM(…, tools=[…]).session(after=…)"
                )
        self._earlier = [PreviousQuestion.of(one) for one in runs]
        self._sources = list(stored.facts["sources"])
        self._warnings = list(stored.facts["warnings"])
        self._unread = list(stored.facts.get("unread", ()))
        for source in self._initial_sources:
            self.append(source)
        return await stored.load(self._journal, self._workspace, cache=cache_of(config.settings))

    async def _ask(self, config: RunConfig, task: str, answer_type: AnswerType | None) -> RunResult:
        run_id = new_run_id()
        first = self._earlier[0].run_id if self._earlier else run_id
        self._kernel.seed = f"{first}:0"
        facts = {
            **facts_of(config, self._context, self._sources, self._warnings, answer_type),
            "unread": self._unread,
            "session": first,
            "after": self._earlier[-1].run_id if self._earlier else None,
        }
        kept = input_to_keep(self._journal, self._context.folder, self._sources, config.settings)
        result: RunResult | None = None
        async with AsyncExitStack() as undo:
            # A run that did not end, or was not stored, cannot be replayed. The kernel must not keep the
            # variables that its cells assigned.
            undo.push_async_callback(self._kernel.close)
            try:
                async with self._journal.run(run_id, task, facts, input=kept) as log:
                    run = Run(
                        config,
                        task,
                        RunInput(self._context, self._body),
                        log,
                        replace(self._resources, kernel=self._kernel),
                        RunOptions(
                            answer_type=answer_type,
                            warnings=self._warnings,
                            unread=self._unread,
                            earlier=[one.question for one in self._earlier],
                            variables=describe_variables(self._earlier),
                            session=first,
                        ),
                    )
                    result = await run.run()
                    await run.log_result(result)
                seconds = config.limits.cell_seconds
                one = PreviousQuestion.asked(task, result, run.state, self._body.chars, seconds)
            except JournalError as error:
                if result is None:
                    raise
                return with_journal_failure(result, error)
            undo.pop_all()
        self._earlier.append(one)
        self._kernel.past.append(one.past)
        return result

    def _close_body(self) -> None:
        self._body.close()

    async def _append_pending(self) -> None:
        """Add the pending sources to the context."""
        pending = list(self._pending)
        if not pending:
            return
        self._times_grown += 1
        folder = self._workspace.folder / f"grown-{self._times_grown}"
        with Workspace() as workspace:
            try:
                loaded = await workspace.load(pending)
            except DocumentError:
                del self._pending[: len(pending)]
                raise
            writing = asyncio.ensure_future(asyncio.to_thread(_extend, self._body, loaded, folder))
            try:
                grown = await asyncio.shield(writing)
            except asyncio.CancelledError:
                # Neither folder may be removed while the thread writes.
                await asyncio.wait([writing])
                shutil.rmtree(folder, ignore_errors=True)
                raise
        del self._pending[: len(pending)]
        previous, self._context = self._context, grown
        self._body.close()
        self._body = grown.open()
        self._kernel.context = grown
        self._sources = [*self._sources, *source_facts(pending)]
        self._warnings = [*self._warnings, *warnings_of(loaded)]
        self._unread = [*self._unread, *loaded.unread]
        if previous.folder.is_relative_to(self._workspace.folder):
            shutil.rmtree(previous.folder, ignore_errors=True)


def _extend(body: Body, added: Loaded, folder: Path) -> ContextFile:
    """Write the documents of a body, then the documents of `added`. A name that is taken gets a number."""
    names: set[str] = set()

    def unique_name(name: str) -> str:
        number, wanted = 2, name
        while name in names:
            name = f"{wanted} ({number})"
            number += 1
        names.add(name)
        return name

    with ContextFileWriter(folder) as writer, added.context.open() as more:
        writer.add_body(body, unique_name)
        writer.add_body(more, unique_name)
        return writer.finish()
