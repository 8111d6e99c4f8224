"""Provide real kernels over small contexts."""

from __future__ import annotations

import tempfile
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Sequence
from contextlib import AsyncExitStack, ExitStack
from pathlib import Path

import pytest

from rlm.sandbox.context.writer import ContextFile, ContextFileWriter
from rlm.sandbox.errors import SandboxRefused
from rlm.sandbox.host.jupyter_sandbox import JupyterSandbox
from rlm.sandbox.host.kernel_process import FreshKernels
from rlm.sandbox.host.requests import BadCall
from rlm.sandbox.in_kernel.handle import Handle
from rlm.sandbox.launch.forkserver import Forkserver, shared_forkserver
from rlm.sandbox.protocol import AnswerSink
from rlm.sandbox.text.body import Body
from rlm.sandbox.types import (
    ChildAnswer,
    ChildBatch,
    Finalization,
    FinalizeVerdict,
    KernelLimits,
    Progress,
    RankedSpan,
    RankQuery,
    Span,
    ToolCall,
)


class RecordingHandler:
    """Answers every child with its prompt and slice, and records all calls."""

    def __init__(self) -> None:
        self.batches: list[ChildBatch] = []
        self.finals: list[Finalization] = []
        self.refuse: str = ""
        self.queries: list[RankQuery] = []
        self.tools: list[ToolCall] = []
        self.before_answer: Callable[[], Awaitable[None]] | None = None

    async def children(self, batch: ChildBatch, answered: AnswerSink) -> None:
        self.batches.append(batch)
        if batch.prompts[0] == "refuse":
            raise BadCall("value", "only 3 calls are left")
        if self.before_answer is not None:
            await self.before_answer()
        for position in reversed(range(len(batch.prompts))):
            prompt = batch.prompts[position]
            if prompt == "fail" or (prompt == "fail odd" and position % 2):
                await answered(
                    position, ChildAnswer("", error="the model is away", error_type="model", found=False)
                )
            elif prompt == "absent":
                await answered(position, ChildAnswer("NOT_FOUND", found=False))
            else:
                await answered(position, ChildAnswer(f"{prompt} {position}", input_tokens=7, output_tokens=2))

    async def finalize(self, final: Finalization) -> FinalizeVerdict:
        self.finals.append(final)
        return FinalizeVerdict(accepted=not self.refuse, reason=self.refuse)

    async def rank(self, query: RankQuery) -> Sequence[RankedSpan]:
        self.queries.append(query)
        if query.query == "refuse":
            raise BadCall("value", "no room for an index")
        return [RankedSpan(Span(0, 3), 1.5, ("Top", "Under")), RankedSpan(Span(1, 2), 0.5)][: query.k]

    async def tool(self, call: ToolCall) -> object:
        self.tools.append(call)
        if call.name == "refuse":
            raise BadCall("tool", "refuse() failed: ValueError: no")
        return {"name": call.name, "args": list(call.args), "kwargs": dict(call.kwargs)}

    async def chunk_chars(self) -> int:
        return 20_000

    async def progress(self) -> Progress:
        return Progress(
            has_final_answer=bool(self.finals),
            limits={"rounds": {"used": 1, "limit": 30, "left": 29}},
            coverage={"complete": False},
            plan={"recommended_chunk": 1_234, "calls": 2, "cost_usd": 0.5},
        )


@pytest.fixture
def handler() -> RecordingHandler:
    return RecordingHandler()


@pytest.fixture
def make_context(tmp_path: Path) -> Callable[..., ContextFile]:
    """Return `make(text)` or `make(name=text, …)`, which writes a context of one document or of several."""

    def make(text: str = "", **documents: str) -> ContextFile:
        with ContextFileWriter(tmp_path / f"context-{len(list(tmp_path.iterdir()))}") as writer:
            for name, content in (documents or {"text": text}).items():
                writer.begin_document(name)
                writer.write(content)
                writer.end_document()
            return writer.finish()

    return make


@pytest.fixture(scope="module")
def make_body(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Callable[..., Body]]:
    """Yield `make(*documents)`, which opens a body. A document is a text, or (name, kind, text)."""
    with ExitStack() as stack:

        def make(*documents: str | tuple[str, str, str]) -> Body:
            with ContextFileWriter(tmp_path_factory.mktemp("context") / "c") as writer:
                for number, given in enumerate(documents):
                    name, kind, text = (f"d{number}.txt", "text", given) if isinstance(given, str) else given
                    writer.begin_document(name, kind)
                    writer.write(text)
                return stack.enter_context(writer.finish().open())

        yield make


@pytest.fixture(scope="module")
def make_handle(make_body: Callable[..., Body]) -> Callable[..., Handle]:
    """Return `make(*documents)`, which opens a handle over such a body."""
    return lambda *documents, plan=None: Handle(make_body(*documents), plan)


@pytest.fixture
def short_folder() -> Iterator[Path]:
    """Yield a temp folder of a driver."""
    with tempfile.TemporaryDirectory(prefix="t", dir="/tmp") as folder:
        yield Path(folder)


Opener = Callable[..., Awaitable[JupyterSandbox]]


@pytest.fixture
def forkserver(request: pytest.FixtureRequest) -> Iterator[Forkserver]:
    """Yield the forkserver of this process. With the parameter `program`, yield one that starts programs."""
    if getattr(request, "param", "fork") == "fork":
        yield shared_forkserver()
    else:
        own = Forkserver("program")
        yield own
        own.close()


@pytest.fixture
async def open_kernel(
    make_context: Callable[..., ContextFile], handler: RecordingHandler, forkserver: Forkserver
) -> AsyncIterator[Opener]:
    """Yield a function that opens kernels at the strongest level of this machine (or at `level`). They are
    closed after the test.
    """
    async with AsyncExitStack() as stack:

        async def open_(
            text: str = "one\ntwo\nthree\n",
            *,
            level: int | None = None,
            limits: KernelLimits | None = None,
            seed: str | None = None,
        ) -> JupyterSandbox:
            kernel = JupyterSandbox(
                make_context(text),
                handler,
                kernels=FreshKernels(
                    limits, level="auto" if level is None else level, minimum=0, forkserver=forkserver
                ),
                seed=seed,
            )
            stack.push_async_callback(kernel.close)
            try:
                await kernel.open()
            except SandboxRefused as error:
                pytest.skip(f"level {level} can't be had on this machine: {error}")
            return kernel

        yield open_
