"""Drives the root of a run, round by round, from the first prompt to the answer.

In each round, the root writes one block, the driver runs it, and its output goes into the next prompt. One
round is kept in reserve to answer when a limit is hit. What happened is journalled and applied to the root's
state; a resumed root begins in the state of its journal, with its cells run again in a new kernel.
"""

from __future__ import annotations

import asyncio
import math
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import asdict, replace
from typing import Any

from rlm.accounting.budget import STOP_REASONS, seconds_left
from rlm.accounting.metered_model import estimate, least_thinking
from rlm.accounting.run_context import RunContext
from rlm.answers.finalization import Answer
from rlm.children.child_calls import ChildCalls
from rlm.driver.cache_lifetime import CacheLifetime
from rlm.driver.cell_runner import CellOutcome, CellRunner
from rlm.driver.compaction import Compactor
from rlm.driver.feedback import Feedback, bare_output, render
from rlm.driver.kernel_handler import RunHandler
from rlm.driver.outcome import NoAnswer, Outcome
from rlm.driver.reply_contract import Cell, Violation, ViolationKind, parse
from rlm.driver.root_state import HEAD, RootState
from rlm.errors import BudgetExhausted, ModelError
from rlm.events import CellRun, RoundStarted, Violated, Warned, describe_violation
from rlm.journal import EventKind
from rlm.models.base import FinishReason, Message, Model, Request
from rlm.playback.border import Border
from rlm.playback.recording import Recording
from rlm.prompts import RootInput, RootPrompt
from rlm.prompts.recipes.notices import (
    excerpt,
    last_round_notice,
    repetition_notice,
    soft_breach_reminders,
)
from rlm.prompts.templates import table
from rlm.results import RunTotals, StopReason
from rlm.sandbox.protocol import Sandbox
from rlm.sandbox.types import CellResult
from rlm.settings import RootSettings
from rlm.telemetry import note_event, span

__all__ = ["Driver"]

_ROUNDS_PER_REMINDER = 6
"""After so many rounds the root is told its task again, in one line."""
_SHOWN_OUTPUT = 4_000
"""Characters of a block's output that observers see."""

LAST_ROUND_SECONDS = 120.0
LAST_ROUND_SHARE, LAST_ROUND_MIN_SECONDS = 0.2, 3.0
"""The last round may begin when the time is up. Its reply, and then its cell, may take this share of the
run's seconds, within these bounds."""

LAST_ROUND_TOKENS = 1_000
"""The smallest output limit of its reply. A `finalize` does not fit into fewer tokens."""


class Driver:
    """Runs the root of one run, from `state`. `new_sandbox` makes a kernel that is not open yet, whose calls
    go to `border`; `restore_sub_rlms` is called after a kernel died. So many `violations` in a row end the
    rounds."""

    def __init__(
        self,
        model: Model,
        task: str,
        *,
        new_sandbox: Callable[[], Sandbox],
        child_calls: ChildCalls,
        handler: RunHandler,
        border: Border,
        state: RootState,
        restore_sub_rlms: Callable[[Recording], None],
        run_context: RunContext,
        settings: RootSettings,
        violations: int,
        summary_model: Model | None = None,
    ) -> None:
        self._model = model
        self._task = task
        self._child_calls = child_calls
        self._handler = handler
        self._border = border
        self._state = state
        self._budget = run_context.budget
        self._metered = run_context.metered
        self._coverage = run_context.coverage
        self._log = run_context.log
        self._observe = run_context.observe
        self._settings = settings
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
        self._is_last_round = state.is_last_round
        self._max_violations = violations
        calls = child_calls.plan()["calls"] or 0
        self._cache_lifetime = CacheLifetime(calls, run_context.budget.limits.concurrency)
        self._report: dict[str, Any] = {}
        self._cells = CellRunner(
            handler,
            border,
            state,
            run_context,
            new_sandbox=new_sandbox,
            restore_sub_rlms=restore_sub_rlms,
            last_round_seconds=lambda: self._last_round_seconds() if self._is_last_round else None,
        )

    async def run(self, prompt: RootInput) -> Outcome:
        """Run rounds until there is an answer or a reason to stop. Always closes the kernel. Raises
        BudgetExceeded (the task is too long), SandboxRefused and KernelStartError before any model call."""
        if not self._state.messages:
            first = RootPrompt().assemble(prompt)
            self._report = first.report.to_json()
            self._state.messages = [
                Message("system", first.system, stable=True),
                Message("user", first.user, stable=True),
            ]
        try:
            outcome = await self._resume() or await self._run_rounds()
            if outcome.answer is None:
                return replace(outcome, variables=tuple(self._state.variables.values()))
            return outcome
        except NoAnswer as end:
            return Outcome(None, end.reason, detail=str(end), variables=tuple(self._state.variables.values()))
        finally:
            await self._cells.close()

    async def _resume(self) -> Outcome | None:
        """Open the kernel and go to where the state ends: its cells run again, and a reply that was not acted
        on is. Return how the run ended, or None if it goes on."""
        state, spent = self._state, self._budget.used()["seconds"]["used"]
        self._budget.restore_rounds(state.rounds, is_last=state.is_last_round)
        self._handler.note_refusals(state.refusals)
        if self._is_last_round:
            self._handler.begin_last_round()
        other_way = await self._cells.open()
        if state.rounds:
            # The time of running the cells again does not count.
            self._budget.restore_seconds(spent)
        answer = self._handler.answer()
        if other_way is not None:
            past, ran = other_way
            await self._record("diverged", {"round": past.round})
            self._budget.restore_rounds(state.rounds, is_last=state.is_last_round)
            self._is_last_round = state.is_last_round
            self._observe(
                Warned(f"round {past.round} changed when it was run again: the following rounds are new")
            )
            answer = await self._end_cell(past.round, Cell(past.code, past.prose, past.mark), ran, [])
        elif state.pending is not None:
            answer = await self._act()
        if self._is_last_round:
            return self._last_round_outcome(answer)
        return None if answer is None else Outcome(answer, "finalized")

    async def _run_rounds(self) -> Outcome:
        while True:
            try:
                await self._hold_last_round()
                round_ = self._budget.begin_round()
                with span("round", number=round_, final=False):
                    answer = await self._round(round_)
            except BudgetExhausted as error:
                return await self._run_last_round(error)
            if answer is not None:
                return Outcome(answer, "finalized")

    async def _round(self, round_: int, *, final: bool = False) -> Answer | None:
        """Ask the root for a block and process its reply. Return the answer if the block gave one."""
        folded = await self._compactor.fold(self._state)
        if folded is not None:
            await self._record("compaction", folded)
        self._observe(RoundStarted(round_, self._budget.limits.max_rounds, final))
        request = Request(
            role="root",
            messages=self._cache_lifetime.mark(self._state.messages),
            max_output_tokens=self._last_round_output() if final else self._output,
            task=self._task,
            round=round_,
            last_cell=self._state.last_cell,
            final=final,
            thinking=least_thinking(self._model)
            if final and self._state.limit[0] in ("tokens", "cost_usd")
            else None,
        )
        try:
            async with asyncio.timeout(self._last_round_seconds()) if final else seconds_left(self._budget):
                call = await self._metered.ask(
                    self._model,
                    request,
                    prompt_tokens=self._state.tokens,
                    last_round=final,
                    event_fields=self._event_fields(),
                )
        except ModelError as error:
            raise NoAnswer("model", str(error)) from error
        self._state.apply("model_call", call.event)
        return await self._act()

    async def _act(self) -> Answer | None:
        """Check the reply that is pending and run its cell. Return the answer if the cell gave one."""
        assert self._state.pending is not None
        round_, reply = self._state.pending.round, self._state.pending.reply
        # A server may ignore the output limit. A reply that is too long must not stay in the messages.
        overlong = estimate(reply.text) > 4 * self._output
        finish: FinishReason = "length" if overlong else reply.finish_reason
        cell = parse(reply.text, finish_reason=finish, contract=self._settings.contract)
        if isinstance(cell, Cell) and self._state.is_stuck(cell.code) and not self._is_last_round:
            cell = Violation("repeated_block", cell.code)
        if isinstance(cell, Violation):
            await self._handle_violation(round_, cell.kind, finish)
            return None
        self._observe(CellRun(round_, cell.code))
        with span("cell", code=cell.code) as note:
            ran = await self._cells.run(cell.code, round_, self._state.tools)
            note(ran.result.status, ran.result.ename, bare_output(ran.result, self._settings.output_limit))
        return await self._end_cell(round_, cell, ran, soft_breach_reminders(cell.prose, cell.mark))

    async def _end_cell(self, round_: int, cell: Cell, ran: CellOutcome, notes: list[str]) -> Answer | None:
        """Journal a cell, with what the root is told of it. Return the answer if it gave one."""
        result = ran.result
        self._coverage.note("read", result.report.read)
        self._coverage.note("scanned", result.report.scanned)
        shown = result.shown[:_SHOWN_OUTPUT]
        self._observe(CellRun(round_, cell.code, result.status, result.seconds, shown))
        notes = [*notes, *ran.notes]
        if self._state.is_repetition(cell.code, bare_output(result, self._settings.output_limit)):
            notes.append(repetition_notice())
        self._state.tools = list(self._border.tools)
        await self._record(
            "cell",
            {
                "round": round_,
                "code": cell.code,
                "prose": cell.prose,
                "mark": cell.mark,
                "result": asdict(result),
                "answers": self._border.answers,
                "feedback": None if ran.answer else self._feedback(round_, result, notes),
            },
            totals=self._metered.totals(round_, self._child_calls.calls),
        )
        return ran.answer

    async def _record(
        self, kind: EventKind, data: Mapping[str, Any], totals: RunTotals | None = None
    ) -> None:
        """Journal an event and apply it to the state."""
        await self._log.append(kind, data, totals=totals)
        self._state.apply(kind, data)

    def _feedback(self, round_: int, result: CellResult, notes: list[str]) -> str:
        left, seconds = self._budget.remaining(), self._budget.limits.max_seconds
        # In tenths of the limit: a resumed run then gets the same words, and a cached prompt stays valid.
        tenths = math.ceil(10 * left["seconds"] / seconds)
        return render(
            Feedback(
                round=round_,
                rounds=self._budget.limits.max_rounds,
                cell=result,
                children=self._child_calls.take_tally(),
                coverage=self._coverage.report(),
                low=self._limit_warnings(),
                left=(int(left["sub_calls"]), seconds * tenths / 10),
                task=self._task if round_ % _ROUNDS_PER_REMINDER == 0 else "",
                notes=notes,
                output_limit=self._settings.output_limit,
            )
        )

    async def _handle_violation(self, round_: int, kind: ViolationKind, finish: FinishReason) -> None:
        """Journal a violation. Raises NoAnswer if it is one too many."""
        note_event("rlm.violation", kind=kind)
        self._observe(Violated(round_, kind))
        await self._record("limit", {"round": round_, "violation": kind, "finish_reason": finish})
        state = self._state
        if state.violations >= self._max_violations and state.last_violation is not None:
            raise NoAnswer(
                "contract_violation",
                f"{state.violations} replies in a row were not one repl block "
                f"(the last {describe_violation(kind)}: {excerpt(state.last_violation[1])})",
            )

    async def _run_last_round(self, exhausted: BudgetExhausted) -> Outcome:
        """Run the round in reserve, in which the root may still finalize."""
        await self._record("limit", {"limit": exhausted.limit, "message": exhausted.cause})
        self._is_last_round = True
        self._handler.begin_last_round()
        self._state.messages.append(Message("user", last_round_notice(exhausted.cause), stable=True))
        answer: Answer | None = None
        number = self._budget.rounds + 1
        with suppress(BudgetExhausted, TimeoutError), span("round", number=number, final=True):
            answer = await self._round(number, final=True)
        return self._last_round_outcome(answer)

    def _last_round_outcome(self, answer: Answer | None) -> Outcome:
        """Return the outcome of a run whose last round gave `answer`."""
        limit, message = self._state.limit
        if answer is None and self._state.last_violation is not None:
            # The reply was paid for, and may hold the answer in another form: its user should see it.
            kind, received = self._state.last_violation
            message += f"; the last reply {describe_violation(kind)}: {excerpt(received)}"
        reason: StopReason = "finalized" if answer is not None else STOP_REASONS[limit]
        return Outcome(answer, reason, forced=answer is not None, detail=message)

    def _event_fields(self) -> dict[str, Any]:
        """Return the journal's data of a prompt: whether it is the last, and the report of the first one."""
        fields: dict[str, Any] = {"final": self._is_last_round}
        return fields if len(self._state.messages) > HEAD else {**fields, "report": self._report}

    async def _hold_last_round(self) -> None:
        tokens = self._metered.calibrated(self._model, self._state.tokens)
        async with seconds_left(self._budget):
            output = self._output + least_thinking(self._model)
            await self._budget.hold_last_round_when_settled(
                tokens=tokens + output,
                cost_usd=self._metered.prices.at_most(self._model, tokens, output),
            )

    def _last_round_seconds(self) -> float:
        share = LAST_ROUND_SHARE * self._budget.limits.max_seconds
        extra = min(max(share, LAST_ROUND_MIN_SECONDS), LAST_ROUND_SECONDS)
        return max(self._budget.seconds_left, extra)

    def _last_round_output(self) -> int:
        """Return the output limit of the last reply. It may be lower than usual, so that the reply costs no
        more than what is left: the prompt has grown since the amount was held for it."""
        prices, prompt = self._metered.prices, self._metered.calibrated(self._model, self._state.tokens)
        tokens, dollars = self._budget.last_round_room()
        thinking = least_thinking(self._model)
        most = self._output + thinking
        output_tokens = min(most, tokens - prompt)
        prompt_cost, full_cost = (prices.at_most(self._model, prompt, output) for output in (0, most))
        if prompt_cost is not None and full_cost is not None and full_cost > prompt_cost:
            output_tokens = min(
                output_tokens, int((dollars - prompt_cost) / (full_cost - prompt_cost) * most)
            )
        output_tokens -= thinking
        return max(output_tokens, min(self._output, LAST_ROUND_TOKENS))

    def _limit_warnings(self) -> list[str]:
        """Return one line for each limit of which less than a quarter is left. Earlier warnings would make
        models finish too early."""
        used: dict[str, dict[str, Any]] = self._budget.used()
        words = table("feedback.toml")["low"]
        return [
            words.format(name=name, left=f"{used[name]['left']:g}", limit=f"{used[name]['limit']:g}")
            for name in self._budget.limits_running_low()
        ]
