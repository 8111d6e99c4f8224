"""Drives the root of a run, round by round, from the first prompt to the answer.

A round asks the root for one block, runs it, and feeds back its output. One round is kept in reserve to
answer when a limit is hit. Rounds that the journal holds are repeated without the model: their cells run in
the new kernel and get the recorded replies.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from contextlib import suppress
from dataclasses import asdict, dataclass, replace
from typing import Any

from rlm.accounting.budget import STOP_REASONS, seconds_left
from rlm.accounting.metered_model import estimate
from rlm.accounting.run_context import RunContext
from rlm.answers.finalization import Answer
from rlm.children.child_calls import ChildCalls
from rlm.driver.compaction import Compactor, Folded, Round
from rlm.driver.feedback import Feedback, bare_output, render
from rlm.driver.kernel_handler import RunHandler
from rlm.driver.reply_contract import Violation, fenced, parse
from rlm.driver.rerun import DIED, repeated
from rlm.errors import BudgetExhausted, ModelError
from rlm.events import CellEnded, CellStarted, RoundStarted, Violated, Warned, describe_violation
from rlm.models.base import FinishReason, Message, Model, Reply, Request
from rlm.playback.recording import RecordedCompaction, RecordedRound, Recording
from rlm.prompts import RootInput, RootPrompt
from rlm.prompts.recipes.corrections import correction, last_round_notice, soft_breach_reminder
from rlm.prompts.templates import table
from rlm.results import StopReason
from rlm.sandbox.errors import KernelDied, KernelStartError
from rlm.sandbox.protocol import Sandbox
from rlm.sandbox.types import CellResult
from rlm.settings import RootSettings

__all__ = [
    "Driver",
    "Outcome",
]

MAX_DEATHS = 3
MIN_CELL_SECONDS = 0.5
LAST_ROUND_SECONDS = 120.0
"""Seconds for the reply of the last round, which may begin when the run's time is up."""

LAST_ROUND_TOKENS = 1_000
"""The least tokens of its reply: fewer do not hold a `finalize`."""


@dataclass(frozen=True, slots=True)
class Outcome:
    """How the rounds ended. Without an `answer`, `detail` says why, and `variables` what the kernel held."""

    answer: Answer | None
    stop_reason: StopReason
    forced: bool = False
    detail: str = ""
    variables: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class _Ran:
    """A cell that was run. `notes` tell the root what happened to the kernel."""

    result: CellResult
    notes: tuple[str, ...] = ()
    answer: Answer | None = None


class _Over(Exception):
    """Raised to end the rounds without an answer."""

    def __init__(self, reason: StopReason, detail: str) -> None:
        super().__init__(detail)
        self.reason: StopReason = reason


class Driver:
    """Runs the root of one run. `new_sandbox` makes a kernel that is not open yet. `forget_answers` is called
    before the cells of the run are re-run in a new kernel."""

    def __init__(
        self,
        model: Model,
        task: str,
        *,
        new_sandbox: Callable[[], Sandbox],
        child_calls: ChildCalls,
        handler: RunHandler,
        run_context: RunContext,
        settings: RootSettings,
        forget_answers: Callable[[], None],
        summary_model: Model | None = None,
    ) -> None:
        self._model = model
        self._task = task
        self._new_sandbox = new_sandbox
        self._child_calls = child_calls
        self._handler = handler
        self._budget = run_context.budget
        self._metered = run_context.metered
        self._coverage = run_context.coverage
        self._log = run_context.log
        self._playback = run_context.playback
        self._observe = run_context.observe
        self._settings = settings
        self._forget_answers = forget_answers
        self._output = min(settings.output_tokens, model.window.output)
        self._compactor = Compactor(
            summary_model or model,
            task,
            root=model,
            window=model.window,
            output_tokens=self._output,
            compact_at=settings.compact_at,
            run_context=run_context,
        )
        self._sandbox: Sandbox | None = None
        self._final = False
        self._deaths = 0
        self._violations = 0
        # Append-only until rounds are folded, and each message is the border of a prefix that the next round
        # repeats, so that provider caches work.
        self._messages: list[Message] = []
        self._rounds_at: list[Round] = []
        self._folding: RecordedCompaction | None = None
        self._report: dict[str, Any] = {}
        self._tokens = 0
        self._last_cell: CellResult | None = None
        self._variables: dict[str, str] = {}
        self._limit = self._playback.recording.limit or ("rounds", "")

    async def run(self, prompt: RootInput) -> Outcome:
        """Run rounds until there is an answer, or a reason why there is none. Raises BudgetExceeded (the
        task is too long), SandboxRefused and KernelStartError before anything is spent. On cancellation the
        kernel is closed first."""
        first = RootPrompt().assemble(prompt)
        self._report = first.report.to_json()
        self._add(Message("system", first.system, stable=True))
        self._add(Message("user", first.user, stable=True))
        try:
            await self._open()
            outcome = await self._rounds()
            if outcome.answer is None:
                return replace(outcome, variables=tuple(self._variables.values()))
            return outcome
        finally:
            await self._close()

    async def _rounds(self) -> Outcome:
        try:
            ended = await self._repeat()
            if ended is not None:
                return ended
            if self._playback.recording.over:
                return Outcome(None, "cancelled")
            while True:
                try:
                    self._hold_last_round()
                    round_ = self._budget.begin_round()
                    answer = await self._round(round_)
                except BudgetExhausted as error:
                    return await self._last_round(error)
                if answer is not None:
                    return Outcome(answer, "finalized")
        except _Over as over:
            return Outcome(None, over.reason, detail=str(over))

    async def _repeat(self) -> Outcome | None:
        """Repeat the rounds of the journal. Return how the run ended, or None if it goes on."""
        rounds = self._playback.rounds
        for past in rounds:
            if past is rounds[-1] and past.cell is None and self._playback.recording.over:
                break
            if past is not rounds[0]:
                self._retell(past)
            self._fold_again(past.folding)
            self._budget.count_replayed_round(is_last=past.final)
            self._observe(RoundStarted(past.number, self._budget.limits.rounds, past.final))
            if past.final:
                self._begin_last_round()
            if past.cell is None:
                # This cell was not finished. It is run anew, so its time counts.
                self._restore_seconds()
            answer = await self._take(past.reply, past.number, past)
            if past.final:
                return self._forced(answer)
            if answer is not None:
                return Outcome(answer, "finalized")
            if self._playback.diverged:
                break
        else:
            self._fold_again(self._playback.recording.folding)
        if rounds and rounds[-1].cell is not None:
            self._restore_seconds()
        return None

    def _restore_seconds(self) -> None:
        """Leave out the time that the repetition took."""
        self._budget.restore_seconds(self._playback.recording.spent.seconds)

    async def _round(self, round_: int, *, final: bool = False) -> Answer | None:
        """Ask the root for a block, run it, feed back its output. Return the answer if the block gave one."""
        await self._make_room()
        self._observe(RoundStarted(round_, self._budget.limits.rounds, final))
        request = Request(
            role="root",
            messages=tuple(self._messages),
            max_output_tokens=self._last_output() if final else self._output,
            task=self._task,
            round=round_,
            last_cell=self._last_cell,
            final=final,
        )
        try:
            async with asyncio.timeout(LAST_ROUND_SECONDS) if final else seconds_left(self._budget):
                call = await self._metered.ask(
                    self._model,
                    request,
                    prompt_tokens=self._tokens,
                    last_round=final,
                    event_fields=self._event_fields(),
                )
        except ModelError as error:
            raise _Over("model", str(error)) from error
        return await self._take(call.reply, round_)

    async def _take(self, reply: Reply, round_: int, past: RecordedRound | None = None) -> Answer | None:
        """Check a reply, run its cell, feed back its output. `past` is the round as the journal has it.
        Return the answer if the cell gave one."""
        self._rounds_at.append(Round(round_, len(self._messages)))
        # A server may ignore the output limit. Its reply must not fill the window for good.
        overlong = estimate(reply.text) > 4 * self._output
        finish: FinishReason = "length" if overlong else reply.finish_reason
        cell = parse(reply.text, finish_reason=finish, contract=self._settings.contract)
        if isinstance(cell, Violation):
            await self._violated(round_, cell, finish, again=past is not None)
            return None
        self._violations = 0
        notes = [soft_breach_reminder()] if cell.prose else []
        # The history teaches the format: it holds the block alone, without prose and reasoning.
        self._add(Message("assistant", fenced(cell.code)))
        before = None if past is None else past.cell
        if before is None:
            self._observe(CellStarted(round_, cell.code))
        ran = await self._run_cell(cell.code, round_, before)
        result = ran.result
        notes.extend(ran.notes)
        self._last_cell = result
        self._rounds_at[-1] = replace(
            self._rounds_at[-1], output=bare_output(result, self._settings.output_limit)
        )
        self._variables.update((variable.name, str(variable)) for variable in result.report.changed)
        self._coverage.note_read(result.report.read)
        self._coverage.note_scanned(result.report.scanned)
        if result is not before:
            self._observe(CellEnded(round_, result.status, result.seconds))
            await self._log.append(
                "cell", {"round": round_, "code": cell.code, "prose": cell.prose, "result": asdict(result)}
            )
            await self._log.tally(self._metered.totals(round_, self._child_calls.calls))
        if ran.answer is None:
            self._add(Message("user", self._feedback(round_, result, notes), stable=True))
        return ran.answer

    async def _make_room(self) -> None:
        begun, self._folding = self._folding, None
        folded = await self._compactor.fold(
            self._messages, self._rounds_at, tuple(self._variables.values()), begun
        )
        if folded is not None:
            self._put_folded(folded)

    def _fold_again(self, past: RecordedCompaction | None) -> None:
        """Fold the same rounds as before, so that the root's history is the same."""
        if past is None:
            return
        if past.message is None:
            self._folding = past
            return
        self._put_folded(self._compactor.repeat(self._messages, self._rounds_at, past))

    def _put_folded(self, folded: Folded) -> None:
        self._messages, self._rounds_at = list(folded.messages), list(folded.rounds)
        self._tokens = sum(estimate(message.content) for message in self._messages)

    def _feedback(self, round_: int, result: CellResult, notes: list[str]) -> str:
        return render(
            Feedback(
                round=round_,
                rounds=self._budget.limits.rounds,
                cell=result,
                children=self._child_calls.take_tally(),
                coverage=self._coverage.report(),
                low=self._low(),
                notes=notes,
                output_limit=self._settings.output_limit,
            )
        )

    async def _violated(
        self, round_: int, violation: Violation, finish: FinishReason, *, again: bool
    ) -> None:
        """Put a correction into the history, in place of the reply."""
        if not again:
            self._observe(Violated(round_, violation.kind))
            await self._log.append(
                "limit", {"round": round_, "violation": violation.kind, "finish_reason": finish}
            )
        self._violations += 1
        if self._violations >= self._budget.limits.violations:
            raise _Over(
                "contract_violation",
                f"{self._violations} replies in a row were not one repl block "
                f"(the last {describe_violation(violation.kind)})",
            )
        self._add(Message("user", correction(violation.kind, violation.received), stable=True))

    async def _last_round(self, exhausted: BudgetExhausted) -> Outcome:
        """Run the round in reserve: the root may still finalize from what it has."""
        self._limit = (exhausted.limit, exhausted.cause)
        await self._log.append("limit", {"limit": exhausted.limit, "message": exhausted.cause})
        self._begin_last_round()
        self._add(Message("user", last_round_notice(exhausted.cause), stable=True))
        answer: Answer | None = None
        with suppress(BudgetExhausted, TimeoutError):
            answer = await self._round(self._budget.rounds + 1, final=True)
        return self._forced(answer)

    def _begin_last_round(self) -> None:
        self._final = True
        self._handler.begin_last_round()

    def _forced(self, answer: Answer | None) -> Outcome:
        """Return how a run ends whose last round gave `answer`."""
        limit, message = self._limit
        reason: StopReason = "finalized" if answer is not None else STOP_REASONS[limit]
        return Outcome(answer, reason, forced=answer is not None, detail=message)

    async def _run_cell(
        self, code: str, round_: int, past: CellResult | None = None, *, again: bool = False
    ) -> _Ran:
        """Run a cell. `past` is the result that the journal has: that very object comes back unless the cell
        diverged. A cell that kills its kernel is run `again` in a new one, once."""
        if past is not None and past.ename == DIED:
            return _Ran(past)
        self._playback.begin(round_, past)
        words = table("feedback.toml")["kernel"]
        result = await self._execute(code, round_)
        if result.ename == DIED:
            changed = await self._renew(round_, result)
            if result.status == "timeout" or again:
                if past is not None:
                    await self._note_divergence(round_)
                skipped = words["skipped_twice" if again else "skipped_timeout"]
                return _Ran(result, (skipped, *changed), self._handler.answer())
            ran = await self._run_cell(code, round_, past, again=True)
            return ran if ran.notes else replace(ran, notes=(words["restored"], *changed))
        answer = self._handler.answer()
        if past is None:
            return _Ran(result, answer=answer)
        if result.status == past.status and not self._playback.diverged:
            return _Ran(past, answer=answer)
        await self._note_divergence(round_)
        return _Ran(result, (words["changed"],), answer)

    async def _note_divergence(self, round_: int) -> None:
        self._playback.diverged = True
        await self._log.append("diverged", {"round": round_})
        self._observe(
            Warned(f"round {round_} did not go as before when it was run again: from there all is new")
        )

    async def _renew(self, round_: int, result: CellResult) -> list[str]:
        """Replace a dead kernel by one with the state before `round_`. Return notes for the root."""
        # The variables of the dead kernel exist nowhere but in the cells that made them, so these are re-run.
        # The journal of this process is read back first: it answers what the cells ask, so no model is called
        # and no tool has its effect twice. A cell that was in flight is forgotten, and is run by the caller.
        # The re-run may kill the new kernel, too, which is why this is a loop with a count of deaths.
        while True:
            self._deaths += 1
            if self._deaths >= MAX_DEATHS:
                raise _Over("kernel", f"the kernel died {self._deaths} times (the last: {result.evalue})")
            await self._log.append("kernel_died", {"round": round_, "reason": result.evalue})
            await self._close()
            self._variables.clear()
            self._forget_answers()
            self._playback.load(Recording.of(await self._log.events(), self._log.within))
            try:
                await self._open()
            except KernelStartError as error:
                raise _Over("kernel", str(error)) from error
            died, changed = await self._rebuild(round_)
            if died is None:
                self._child_calls.take_tally()
                words = table("feedback.toml")["kernel"]["earlier_changed"]
                return [words.format(rounds=", ".join(map(str, changed)))] if changed else []
            result = died

    async def _rebuild(self, round_: int) -> tuple[CellResult | None, list[int]]:
        """Re-run the cells before `round_`. Return the result of a cell that killed the kernel, if any, and
        the rounds whose cells diverged."""
        changed: list[int] = []
        again = repeated(self._playback, self._settings.contract, self._execute, before=round_)
        async for past, result, same in again:
            if result.ename == DIED:
                return result, changed
            if not same:
                changed.append(past.number)
            self._variables.update((variable.name, str(variable)) for variable in result.report.changed)
        return None, changed

    async def _execute(self, code: str, round_: int) -> CellResult:
        """Run a cell and return its result. It is interrupted when the run's time is up, as its children are.
        The kernel stays for the last round."""
        assert self._sandbox is not None
        seconds = self._budget.limits.cell_seconds
        if not self._final:
            seconds = min(seconds, max(self._budget.remaining()["seconds"], MIN_CELL_SECONDS))
        try:
            return await self._sandbox.execute(code, round=round_, timeout=seconds)
        except KernelDied as error:
            return CellResult(status="died", ename=DIED, evalue=str(error))

    async def _open(self) -> None:
        """Open a kernel. If it fails to start, try once more."""
        self._sandbox = self._new_sandbox()
        try:
            await self._sandbox.open()
        except KernelStartError:
            await self._close()
            self._sandbox = self._new_sandbox()
            await self._sandbox.open()

    async def _close(self) -> None:
        if self._sandbox is not None:
            sandbox, self._sandbox = self._sandbox, None
            await sandbox.close()

    def _event_fields(self) -> dict[str, Any]:
        """Return what the journal keeps of a prompt: its new message, and the report of the first prompt."""
        facts: dict[str, Any] = {
            "prompt": self._messages[-1].content,
            "final": self._final,
        }
        return facts if len(self._messages) > 2 else {**facts, "report": self._report}

    def _hold_last_round(self) -> None:
        tokens = self._metered.calibrated(self._model, self._tokens)
        self._budget.hold_last_round(
            tokens=tokens + self._output,
            cost_usd=self._metered.prices.at_most(self._model, tokens, self._output),
        )

    def _last_output(self) -> int:
        """Return the tokens of the last reply, so that it costs no more than what is left. The hold was made
        before the latest round, whose output has made the prompt longer."""
        prices, prompt = self._metered.prices, self._metered.calibrated(self._model, self._tokens)
        tokens, dollars = self._budget.last_round_room()
        room = min(self._output, tokens - prompt)
        unread, whole = (prices.at_most(self._model, prompt, output) for output in (0, self._output))
        if unread is not None and whole is not None and whole > unread:
            room = min(room, int((dollars - unread) / (whole - unread) * self._output))
        return max(room, min(self._output, LAST_ROUND_TOKENS))

    def _low(self) -> list[str]:
        """Describe each limit of which less than a quarter is left, in one line. Earlier reminders would make
        models finish early."""
        used: dict[str, dict[str, Any]] = self._budget.used()
        words = table("feedback.toml")["low"]
        return [
            words.format(name=name, left=f"{used[name]['left']:g}", limit=f"{used[name]['limit']:g}")
            for name in self._budget.limits_running_low()
        ]

    def _retell(self, past: RecordedRound) -> None:
        """Put the recorded message before that round into the history, word for word."""
        if not past.final:
            self._tokens -= estimate(self._messages.pop().content)
        self._add(Message("user", past.prompt, stable=True))

    def _add(self, message: Message) -> None:
        self._messages.append(message)
        self._tokens += estimate(message.content)
