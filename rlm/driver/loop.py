"""Drives the root of a run, round by round, from the first prompt to the answer.

In each round, the root writes one block, the driver runs it, and its output goes into the next prompt. One
round is kept in reserve to answer when a limit is hit. Rounds that the journal holds are replayed without the
model: their cells run in the new kernel and get the recorded replies.
"""

from __future__ import annotations

import asyncio
import math
from collections.abc import Callable
from contextlib import nullcontext, suppress
from dataclasses import asdict, replace
from typing import Any, cast

from rlm.accounting.budget import STOP_REASONS, seconds_left
from rlm.accounting.metered_model import estimate, least_thinking
from rlm.accounting.run_context import RunContext
from rlm.answers.finalization import Answer
from rlm.children.child_calls import ChildCalls
from rlm.driver.cache_lifetime import CacheLifetime
from rlm.driver.cell_runner import CellRunner
from rlm.driver.compaction import Compactor, Folded, Round
from rlm.driver.feedback import Feedback, bare_output, render
from rlm.driver.kernel_handler import RunHandler
from rlm.driver.outcome import NoAnswer, Outcome
from rlm.driver.reply_contract import Cell, Violation, ViolationKind, fenced, parse
from rlm.errors import BudgetExhausted, ModelError
from rlm.events import CellRun, RoundStarted, Violated, describe_violation
from rlm.models.base import FinishReason, Message, Model, Reply, Request
from rlm.playback.recording import RecordedCompaction, RecordedRound
from rlm.prompts import RootInput, RootPrompt
from rlm.prompts.recipes.corrections import (
    correction,
    excerpt,
    last_round_notice,
    repetition_notice,
    soft_breach_reminders,
)
from rlm.prompts.templates import table
from rlm.results import StopReason
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
    """Runs the root of one run. `new_sandbox` makes a kernel that is not open yet. `forget_answers` is called
    before the cells of the run are re-run in a new kernel. So many `violations` in a row end the rounds."""

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
        violations: int,
        summary_model: Model | None = None,
    ) -> None:
        self._model = model
        self._task = task
        self._child_calls = child_calls
        self._handler = handler
        self._budget = run_context.budget
        self._metered = run_context.metered
        self._coverage = run_context.coverage
        self._log = run_context.log
        self._playback = run_context.playback
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
        self._is_last_round = False
        self._violations = 0
        self._max_violations = violations
        self._last_violation: Violation | None = None
        self._blocks = BlockHistory()
        # Only appended to until rounds are folded. Each request then begins with the messages of the request
        # before it, so that provider caches work.
        self._messages: list[Message] = []
        self._sent: list[tuple[str, str]] = []  # in the round that is replayed
        calls = child_calls.plan()["calls"] or 0
        self._cache_lifetime = CacheLifetime(calls, run_context.budget.limits.concurrency)
        self._round_positions: list[Round] = []
        self._begun_compaction: RecordedCompaction | None = None
        self._report: dict[str, Any] = {}
        self._tokens = 0
        self._last_cell: CellResult | None = None
        self._cells = CellRunner(
            handler,
            run_context,
            new_sandbox=new_sandbox,
            forget=forget_answers,
            forget_costs=child_calls.take_tally,
            last_round_seconds=lambda: self._last_round_seconds() if self._is_last_round else None,
        )
        self._limit = self._playback.recording.limit or ("rounds", "")

    async def run(self, prompt: RootInput) -> Outcome:
        """Run rounds until there is an answer or a reason to stop. Always closes the kernel. Raises
        BudgetExceeded (the task is too long), SandboxRefused and KernelStartError before any model call."""
        first = RootPrompt().assemble(prompt)
        self._report = first.report.to_json()
        self._add_message(Message("system", first.system, stable=True))
        self._add_message(Message("user", first.user, stable=True))
        try:
            await self._cells.open()
            outcome = await self._run_rounds()
            if outcome.answer is None:
                return replace(outcome, variables=self._cells.variables)
            return outcome
        finally:
            await self._cells.close()

    async def _run_rounds(self) -> Outcome:
        try:
            outcome = await self._replay_rounds()
            if outcome is not None:
                return outcome
            if self._playback.recording.over:
                return Outcome(None, "cancelled")
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
        except NoAnswer as end:
            return Outcome(None, end.reason, detail=str(end))

    async def _replay_rounds(self) -> Outcome | None:
        """Replay the rounds of the journal. Return how the run ended, or None if it continues."""
        rounds = self._playback.rounds
        for past in rounds:
            if past is rounds[-1] and past.cell is None and self._playback.recording.over:
                break
            self._repeat_compaction(past.folding)
            self._restore_messages(past)
            self._budget.count_replayed_round(is_last=past.final)
            self._observe(RoundStarted(past.number, self._budget.limits.max_rounds, past.final))
            if past.final:
                self._begin_last_round()
            if past.cell is None:
                # This cell did not end. It is run again, so its time counts.
                self._restore_seconds()
            answer = await self._process_reply(past.reply, past.number, past)
            if past.final:
                return self._last_round_outcome(answer)
            if answer is not None:
                return Outcome(answer, "finalized")
            if self._playback.diverged:
                break
        else:
            self._repeat_compaction(self._playback.recording.folding)
        if rounds and rounds[-1].cell is not None:
            self._restore_seconds()
        return None

    def _restore_seconds(self) -> None:
        """Do not count the time of the replay."""
        self._budget.restore_seconds(self._playback.recording.spent.seconds)

    async def _round(self, round_: int, *, final: bool = False) -> Answer | None:
        """Ask the root for a block and process its reply. Return the answer if the block gave one."""
        await self._compact()
        self._observe(RoundStarted(round_, self._budget.limits.max_rounds, final))
        request = Request(
            role="root",
            messages=self._cache_lifetime.mark(self._messages),
            max_output_tokens=self._last_round_output() if final else self._output,
            task=self._task,
            round=round_,
            last_cell=self._last_cell,
            final=final,
            thinking=least_thinking(self._model)
            if final and self._limit[0] in ("tokens", "cost_usd")
            else None,
        )
        try:
            async with asyncio.timeout(self._last_round_seconds()) if final else seconds_left(self._budget):
                call = await self._metered.ask(
                    self._model,
                    request,
                    prompt_tokens=self._tokens,
                    last_round=final,
                    event_fields=self._event_fields(),
                )
        except ModelError as error:
            raise NoAnswer("model", str(error)) from error
        return await self._process_reply(call.reply, round_)

    async def _process_reply(
        self, reply: Reply, round_: int, past: RecordedRound | None = None
    ) -> Answer | None:
        """Check a reply, run its cell and add the output to the messages. `past` is the recorded round.
        Return the answer if the cell gave one."""
        self._round_positions.append(Round(round_, len(self._messages)))
        # A server may ignore the output limit. A reply that is too long must not stay in the messages.
        overlong = estimate(reply.text) > 4 * self._output
        finish: FinishReason = "length" if overlong else reply.finish_reason
        cell = self._parse(reply.text, finish, past)
        if isinstance(cell, Violation):
            await self._handle_violation(round_, cell, finish, past)
            return None
        self._violations, self._last_violation = 0, None
        notes = soft_breach_reminders(cell.prose, cell.mark)
        # The messages teach the format, so they hold only the block, without prose and reasoning. What the
        # provider wants back goes with it.
        self._add_message(Message("assistant", fenced(cell.code), carry=reply.carry))
        if reply.carry:
            self._tokens += reply.usage.reasoning_tokens
        recorded = None if past is None else past.cell
        if recorded is None:
            self._observe(CellRun(round_, cell.code))
        with span("cell", code=cell.code) if recorded is None else nullcontext() as note:
            ran = await self._cells.run(cell.code, round_, recorded)
            result = ran.result
            output = bare_output(result, self._settings.output_limit)
            if note is not None:
                note(result.status, result.ename, output)
        notes.extend(ran.notes)
        self._last_cell = result
        self._round_positions[-1] = replace(self._round_positions[-1], output=output)
        if self._blocks.add(cell.code, output):
            notes.append(repetition_notice())
        self._cells.note_variables(result)
        self._coverage.note("read", result.report.read)
        self._coverage.note("scanned", result.report.scanned)
        if result is not recorded:
            shown = result.shown[:_SHOWN_OUTPUT]
            self._observe(CellRun(round_, cell.code, result.status, result.seconds, shown))
            await self._log.append(
                "cell",
                {
                    "round": round_,
                    "code": cell.code,
                    "prose": cell.prose,
                    "mark": cell.mark,
                    "result": asdict(result),
                },
                totals=self._metered.totals(round_, self._child_calls.calls),
            )
        if ran.answer is None:
            self._add_message(Message("user", self._feedback(round_, result, notes), stable=True))
        return ran.answer

    def _parse(self, text: str, finish: FinishReason, past: RecordedRound | None) -> Cell | Violation:
        """Return the reply's cell or violation. A recorded reply is judged as it was judged then."""
        if past is not None and past.violation is not None:
            return Violation(cast(ViolationKind, past.violation), text)
        if past is not None and past.cell is not None:
            return Cell(past.code, past.prose, past.mark)
        cell = parse(text, finish_reason=finish, contract=self._settings.contract)
        if isinstance(cell, Violation):
            return cell
        if self._blocks.is_stuck(cell.code) and not self._is_last_round:
            return Violation("repeated_block", cell.code)
        return cell

    async def _compact(self) -> None:
        begun, self._begun_compaction = self._begun_compaction, None
        folded = await self._compactor.fold(
            self._messages, self._round_positions, self._cells.variables, begun
        )
        if folded is not None:
            self._use_folded(folded)

    def _repeat_compaction(self, past: RecordedCompaction | None) -> None:
        """Fold the same rounds as the recorded run, so that the messages are the same."""
        if past is None:
            return
        if past.message is None:
            self._begun_compaction = past
            return
        self._use_folded(self._compactor.repeat(self._messages, self._round_positions, past))

    def _use_folded(self, folded: Folded) -> None:
        self._messages, self._round_positions = list(folded.messages), list(folded.rounds)
        self._tokens = sum(estimate(message.content) for message in self._messages)

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

    async def _handle_violation(
        self, round_: int, violation: Violation, finish: FinishReason, past: RecordedRound | None
    ) -> None:
        """Add a correction to the messages in place of the reply."""
        if past is None or past.violation is None:
            note_event("rlm.violation", kind=violation.kind)
            self._observe(Violated(round_, violation.kind))
            await self._log.append(
                "limit", {"round": round_, "violation": violation.kind, "finish_reason": finish}
            )
        self._violations += 1
        self._last_violation = violation
        # A recorded run may have continued where this one would end.
        went_on = past is not None and past is not self._playback.rounds[-1]
        if self._violations >= self._max_violations and not went_on:
            raise NoAnswer(
                "contract_violation",
                f"{self._violations} replies in a row were not one repl block "
                f"(the last {describe_violation(violation.kind)}: {excerpt(violation.received)})",
            )
        told = correction(violation.kind, violation.received)
        self._add_message(Message("user", told, stable=True))

    async def _run_last_round(self, exhausted: BudgetExhausted) -> Outcome:
        """Run the round in reserve, in which the root may still finalize."""
        self._limit = (exhausted.limit, exhausted.cause)
        await self._log.append("limit", {"limit": exhausted.limit, "message": exhausted.cause})
        self._begin_last_round()
        self._add_message(Message("user", last_round_notice(exhausted.cause), stable=True))
        answer: Answer | None = None
        number = self._budget.rounds + 1
        with suppress(BudgetExhausted, TimeoutError), span("round", number=number, final=True):
            answer = await self._round(number, final=True)
        return self._last_round_outcome(answer)

    def _begin_last_round(self) -> None:
        self._is_last_round = True
        self._handler.begin_last_round()

    def _last_round_outcome(self, answer: Answer | None) -> Outcome:
        """Return the outcome of a run whose last round gave `answer`."""
        limit, message = self._limit
        if answer is None and self._last_violation is not None:
            # The reply was paid for, and may hold the answer in another form: its user should see it.
            kind, received = self._last_violation.kind, self._last_violation.received
            message += f"; the last reply {describe_violation(kind)}: {excerpt(received)}"
        reason: StopReason = "finalized" if answer is not None else STOP_REASONS[limit]
        return Outcome(answer, reason, forced=answer is not None, detail=message)

    def _event_fields(self) -> dict[str, Any]:
        """Return the journal's data of a prompt: whether it is the last, and the report of the first one."""
        fields: dict[str, Any] = {"final": self._is_last_round}
        return fields if len(self._messages) > 2 else {**fields, "report": self._report}

    async def _hold_last_round(self) -> None:
        tokens = self._metered.calibrated(self._model, self._tokens)
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
        prices, prompt = self._metered.prices, self._metered.calibrated(self._model, self._tokens)
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

    def _restore_messages(self, past: RecordedRound) -> None:
        """Replace the messages by those that the round was sent, word for word: our own prompts may have
        changed since."""
        known: dict[tuple[str, str], Message] = {(one.role, one.content): one for one in self._messages}
        self._tokens -= sum(estimate(one.content) for one in self._messages)
        self._messages = []
        self._sent = [*self._sent[: past.kept], *past.messages]
        for role, content in self._sent:
            new = Message(cast(Any, role), content, stable=role != "assistant")
            self._add_message(known.get((role, content), new))

    def _add_message(self, message: Message) -> None:
        self._messages.append(message)
        self._tokens += estimate(message.content)


class BlockHistory:
    """The last two blocks of a root and what they put out."""

    def __init__(self) -> None:
        self._last: tuple[str, str] | None = None
        self._is_repeated = False

    def add(self, code: str, output: str) -> bool:
        """Add a block that was run. Return whether it is the one before it, with the same output."""
        self._is_repeated = (code.strip(), output) == self._last
        self._last = (code.strip(), output)
        return self._is_repeated

    def is_stuck(self, code: str) -> bool:
        """Return whether `code` is the last block, and the one before it, too."""
        return self._is_repeated and self._last is not None and self._last[0] == code.strip()
