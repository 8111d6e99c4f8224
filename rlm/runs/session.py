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
from rlm.children.tools import Toolbox
from rlm.documents import Context, Loaded, PathSource, Source, sources_of
from rlm.documents.workspace import Workspace
from rlm.errors import DocumentError, JournalError, UsageError
from rlm.journal import new_run_id
from rlm.results import RunResult
from rlm.runs.config import RunConfig
from rlm.runs.notes import warnings_of
from rlm.runs.opening import (
    OpenInput,
    make_room,
    open_input,
    open_journal,
    open_stored,
    problem_facts,
    type_of,
    with_journal_failure,
)
from rlm.runs.shared_kernel import PreviousQuestion, SharedKernel, read_earlier_runs
from rlm.runs.stored_run import StoredRun, source_facts
from rlm.sandbox.context.writer import ContextFile, ContextFileWriter
from rlm.sandbox.text.body import Body

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
        self._run_ids: list[str] = []
        self._is_asking = False
        self._opened: OpenInput
        self._kernel: SharedKernel
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
            (len(self._opened.context.documents), "document"),
            (self._opened.context.chars, "character"),
            (len(self._run_ids), "question"),
        )
        return f"Session({', '.join(f'{count:,} {noun}' + 's' * (count != 1) for count, noun in sizes)})"

    @property
    def run_ids(self) -> tuple[str, ...]:
        """Return the runs of the questions, oldest first, including the runs that the session continues."""
        return tuple(self._run_ids)

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
        past: list[PreviousQuestion] = []
        if self._after is None:
            self._opened = await stack.enter_async_context(open_input(config, self._initial_sources))
        else:
            journal = await stack.enter_async_context(open_journal(config.settings))
            removed = await make_room(journal, config.settings)
            stored = await StoredRun.read(journal, self._after)
            runs = (*await read_earlier_runs(journal, stored), stored)
            _require_tools(config.tools, runs)
            past = [PreviousQuestion.of(one) for one in runs]
            for source in self._initial_sources:
                self.append(source)
            self._opened = await stack.enter_async_context(open_stored(config, stored, journal))
            self._opened.warnings += removed
        kernels = self._opened.kernels
        assert kernels is not None
        self._run_ids = [one.run_id for one in past]
        self._kernel = SharedKernel(self._opened.context, kernels, past=past, tools=config.tools.docs)
        stack.push_async_callback(self._kernel.close)

    async def _ask(self, config: RunConfig, task: str, answer_type: AnswerType | None) -> RunResult:
        opened, kernel = self._opened, self._kernel
        opened.config, opened.run_id = config, new_run_id()
        facts = {
            "session": kernel.first_run(opened.run_id),
            "after": self._run_ids[-1] if self._run_ids else None,
        }
        result: RunResult | None = None
        async with AsyncExitStack() as undo:
            # A run that did not end, or was not stored, cannot be resumed. The kernel must not keep the
            # variables that its cells assigned.
            undo.push_async_callback(kernel.close)
            try:
                async with opened.log(task, facts, answer_type) as log:
                    run = opened.new_run(task, log, answer_type=answer_type, kernel=kernel)
                    result = await run.run()
                    await run.log_result(result)
            except JournalError as error:
                if result is None:
                    raise
                return with_journal_failure(result, error)
            undo.pop_all()
        chars, seconds = opened.body.chars, config.limits.cell_seconds
        kernel.past.append(PreviousQuestion.asked(task, result, run.state, chars, seconds))
        self._run_ids.append(result.run_id)
        return result

    async def _append_pending(self) -> None:
        """Add the pending sources to the context."""
        pending = list(self._pending)
        if not pending:
            return
        opened = self._opened
        self._times_grown += 1
        folder = opened.workspace.folder / f"grown-{self._times_grown}"
        with Workspace() as workspace:
            try:
                loaded = await workspace.load(pending)
            except DocumentError:
                del self._pending[: len(pending)]
                raise
            writing = asyncio.ensure_future(asyncio.to_thread(_extend, opened.body, loaded, folder))
            try:
                grown = await asyncio.shield(writing)
            except asyncio.CancelledError:
                # Neither folder may be removed while the thread writes.
                await asyncio.wait([writing])
                shutil.rmtree(folder, ignore_errors=True)
                raise
        del self._pending[: len(pending)]
        previous, opened.context = opened.context, grown
        opened.body.close()
        opened.body = grown.open()
        self._kernel.context = grown
        opened.sources = [*opened.sources, *source_facts(pending)]
        opened.warnings = [*opened.warnings, *warnings_of(loaded)]
        opened.unread = [*opened.unread, *loaded.unread]
        opened.problems = [*opened.problems, *problem_facts(loaded)]
        if previous.folder.is_relative_to(opened.workspace.folder):
            shutil.rmtree(previous.folder, ignore_errors=True)


def _require_tools(tools: Toolbox, runs: Sequence[StoredRun]) -> None:
    for one in runs:
        missing = tools.as_recorded(one.facts.get("tools", ())).missing
        if missing:
            raise UsageError(
                f"run {one.run_id} had tools that are missing or changed: {', '.join(missing)}. Continue "
                "it in Python, with RLM(…, tools=[…]).session(after=…)"
            )


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
