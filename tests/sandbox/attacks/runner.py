"""Run attacks against one level and judge them from outside."""

from __future__ import annotations

import asyncio
import json
import os
import tempfile
import time
from collections.abc import Iterable, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Literal

from rlm.sandbox.context.writer import ContextFile, ContextFileWriter
from rlm.sandbox.errors import KernelDied
from rlm.sandbox.host.jupyter_sandbox import GRACE_SECONDS, JupyterSandbox
from rlm.sandbox.host.kernel_process import FreshKernels
from rlm.sandbox.host.requests import BadCall
from rlm.sandbox.isolation.bubblewrap import find
from rlm.sandbox.isolation.policy import Candidate
from rlm.sandbox.protocol import AnswerSink
from rlm.sandbox.types import (
    CellResult,
    ChildAnswer,
    ChildBatch,
    Finalization,
    FinalizeVerdict,
    KernelLimits,
    Progress,
    RankedSpan,
    RankQuery,
)

from .catalogue import Attack, prelude
from .world import World, processor_seconds

__all__ = ["WAYS", "Outcome", "Runner", "Way"]

Way = Literal["forkserver", "bubblewrap"]
WAYS: tuple[tuple[int, Way], ...] = (
    *((level, "forkserver") for level in range(4)),
    (2, "bubblewrap"),
)
"""The levels, and the ways to launch a kernel at them, that the suite tries."""

LIMITS = KernelLimits(memory_mb=512, scratch_mb=16)
_SLACK_SECONDS = 1.0
_CLOSE_SECONDS = 3.5
_IDLE_SECONDS = 0.6
_MOST_COMPUTED = 0.2
_TEXT = "one foo\ntwo fooo\nthree\n"


@dataclass(frozen=True, slots=True)
class Outcome:
    """The result of an attack. `harm` is empty if it was stopped."""

    attack: Attack
    level: int
    harm: tuple[str, ...]
    status: str
    detail: str
    seconds: float
    growth_mb: int
    skipped: str = ""

    def broken(self, *, root: bool) -> bool:
        """Return whether it succeeded although the level should stop it."""
        return bool(self.harm) and self.attack.stopped_at(self.level, root=root)

    @property
    def line(self) -> str:
        """Return its row of the printed table."""
        name = f"level {self.level}  {self.attack.category:<9}  {self.attack.name[:62]:<62}"
        if self.skipped:
            return f"{name}  not tried: {self.skipped}"
        verdict = f"NOT STOPPED: {', '.join(self.harm)}" if self.harm else "stopped"
        return (
            f"{name}  {verdict}  [{self.status}, {self.seconds:.1f} s, {self.growth_mb:+d} MB, {self.detail}]"
        )


class PatientHandler:
    """Answers `large` with 64 KB, `slow` after a while, `refuse` with a refusal, and anything else with
    the prompt.
    """

    async def children(self, batch: ChildBatch, answered: AnswerSink) -> None:
        await asyncio.sleep(0.2 if batch.prompts[0] == "slow" else 0)
        if batch.prompts[0] == "refuse":
            raise BadCall("value", "nothing is left")
        for position, prompt in enumerate(batch.prompts):
            await answered(position, ChildAnswer("a" * 65_536 if prompt == "large" else prompt))

    async def finalize(self, final: Finalization) -> FinalizeVerdict:
        return FinalizeVerdict(accepted=False, reason="not now")

    async def rank(self, query: RankQuery) -> Sequence[RankedSpan]:
        return ()

    async def chunk_chars(self) -> int:
        return 20_000

    async def progress(self) -> Progress:
        return Progress(False, {}, {}, {"recommended_chunk": 1, "calls": 1, "cost_usd": None})


class BubblewrapKernels(FreshKernels):
    """Starts kernels through bubblewrap alone."""

    def _candidates(self) -> tuple[list[Candidate], dict[str, str]]:
        try:
            find()
        except OSError as error:
            return [], {"bubblewrap": str(error)}
        return [Candidate(2, "bubblewrap")], {}


class Runner:
    """Runs kernels at one level, over one small text, in one world. `way` is how they are launched."""

    def __init__(self, world: World, level: int, way: Way = "forkserver") -> None:
        self._world = world
        self._level = level
        kernels = BubblewrapKernels if way == "bubblewrap" else FreshKernels
        self._kernels = kernels(LIMITS, level=level, minimum=level)
        self._root = os.getuid() == 0
        with tempfile.TemporaryDirectory(dir=world.folder) as folder:
            self._folder = Path(folder)
        with ContextFileWriter(self._folder) as writer:
            writer.begin_document("text")
            writer.write(_TEXT)
            writer.end_document()
            self._context: ContextFile = writer.finish()

    async def run(self, attacks: Iterable[Attack]) -> list[Outcome]:
        """Run the attacks in turn, in one kernel as long as it lives. Remains after the kernel's end are
        counted for the last attack.
        """
        outcomes: list[Outcome] = []
        kernel: JupyterSandbox | None = None
        for attack in attacks:
            skipped = attack.skipped_at(self._level, root=self._root)
            if skipped:
                outcomes.append(Outcome(attack, self._level, (), "", "", 0.0, 0, skipped))
                continue
            if kernel is None:
                self._world.snapshot()
                kernel = await self._open()
            self._world.begin()
            outcome = await self._attack(kernel, attack)
            outcomes.append(self._judge(outcome))
            if not kernel.alive:
                outcomes[-1] = await self._close_and_judge(kernel, outcomes[-1])
                kernel = None
        if kernel is not None:
            outcomes[-1] = await self._close_and_judge(kernel, outcomes[-1])
        return outcomes

    async def run_side_by_side(self, attacks: Sequence[Attack]) -> list[Outcome]:
        """Run each attack in its own kernel, all at once: most of the time they wait. If there is any
        harm, run them again one after another to find out which attack did it.
        """
        suspects = [
            attack
            for attack in attacks
            if attack.stopped_at(self._level, root=self._root)
            and not attack.skipped_at(self._level, root=self._root)
        ]
        outcomes = {
            attack.name: outcome
            for attack, outcome in zip(suspects, await self._at_once(suspects), strict=True)
        }
        again = any(outcome.harm for outcome in outcomes.values())
        for attack in attacks:
            if again or attack.name not in outcomes:
                [outcomes[attack.name]] = await self.run([attack])
        return [outcomes[attack.name] for attack in attacks]

    async def _at_once(self, attacks: Sequence[Attack]) -> list[Outcome]:
        self._world.snapshot()
        opened = await asyncio.gather(*(self._open() for _ in attacks), return_exceptions=True)
        kernels = [kernel for kernel in opened if isinstance(kernel, JupyterSandbox)]
        for failure in opened:
            if isinstance(failure, BaseException):
                await asyncio.gather(*(kernel.close() for kernel in kernels))
                raise failure
        self._world.begin()
        outcomes = await asyncio.gather(*map(self._attack, kernels, attacks))
        closed = await asyncio.gather(*map(self._close, kernels, outcomes))
        harm = [*self._world.harm(), *await asyncio.to_thread(self._world.left)]
        if not self._context_is_whole():
            harm.append("changed the text")
        return [replace(outcome, harm=(*outcome.harm, *harm)) for outcome in closed]

    async def _open(self) -> JupyterSandbox:
        kernel = JupyterSandbox(self._context, PatientHandler(), kernels=self._kernels)
        await kernel.open()
        first = await kernel.execute("1", round=1, timeout=10.0)
        assert first.status == "ok", first
        return kernel

    async def _attack(self, kernel: JupyterSandbox, attack: Attack) -> Outcome:
        targets = f"import json\nT = json.loads({json.dumps(self._world.targets())!r})\n"
        began = time.monotonic()
        result = await kernel.execute(targets + prelude() + attack.code, round=2, timeout=attack.seconds)
        seconds = time.monotonic() - began
        harm = _missing_reason(result)
        if seconds > attack.seconds + GRACE_SECONDS + _SLACK_SECONDS:
            harm.append(f"held the run for {seconds:.1f} s")
        if kernel.alive and attack.idle and (computed := await _computed_meanwhile(kernel)) > _MOST_COMPUTED:
            harm.append(f"computed {computed:.1f} s after the cell")
        if kernel.alive and attack.alone:
            # Whatever the attack has left in its kernel, the next cell must end in time, too.
            began = time.monotonic()
            with suppress(KernelDied):
                harm += _missing_reason(await kernel.execute("6 * 7", round=3, timeout=0.5))
            if time.monotonic() - began > 0.5 + GRACE_SECONDS + _SLACK_SECONDS:
                harm.append(f"held the next cell for {time.monotonic() - began:.1f} s")
        harm += self._world.claims(_output(result))
        detail = f"{result.ename}: {result.evalue}"[:100] if result.ename else result.stdout[-60:]
        return Outcome(attack, self._level, tuple(harm), result.status, detail.replace("\n", " "), seconds, 0)

    def _judge(self, outcome: Outcome) -> Outcome:
        harm = [*outcome.harm, *self._world.harm()]
        if not self._context_is_whole():
            harm.append("changed the text")
        return replace(outcome, harm=tuple(harm), growth_mb=self._world.growth >> 20)

    async def _close_and_judge(self, kernel: JupyterSandbox, last: Outcome) -> Outcome:
        outcome = await self._close(kernel, last)
        left = await asyncio.to_thread(self._world.left)
        return replace(outcome, harm=(*outcome.harm, *left))

    async def _close(self, kernel: JupyterSandbox, last: Outcome) -> Outcome:
        began = time.monotonic()
        await kernel.close()
        harm = list(last.harm)
        if time.monotonic() - began > _CLOSE_SECONDS:
            harm.append(f"took {time.monotonic() - began:.1f} s to close")
        return replace(last, harm=tuple(harm))

    def _context_is_whole(self) -> bool:
        return any(path.read_bytes() == _TEXT.encode() for path in self._folder.iterdir() if path.is_file())


async def _computed_meanwhile(kernel: JupyterSandbox) -> float:
    """Return the seconds that the watcher and all below it compute in a while."""
    assert kernel._kernel is not None
    assert kernel._kernel._link is not None
    facts = Path(f"/proc/self/fdinfo/{kernel._kernel._link.pidfd}").read_text()
    watcher = next(int(line.split()[1]) for line in facts.splitlines() if line.startswith("Pid:"))
    before = processor_seconds(watcher)
    await asyncio.sleep(_IDLE_SECONDS)
    return processor_seconds(watcher) - before


def _output(result: CellResult) -> str:
    texts = (result.stdout, result.stderr, result.result, result.evalue, result.traceback, result.report)
    return "\n".join(map(str, texts))


def _missing_reason(result: CellResult) -> list[str]:
    if result.status == "died" and not result.evalue:
        return ["the run was given no reason"]
    return []
