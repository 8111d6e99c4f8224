"""One batch at a provider: creates it, waits for its end, and hands out its results."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Awaitable, Callable, Sequence
from contextlib import aclosing
from dataclasses import replace
from typing import TypeVar

from rlm.errors import ModelError
from rlm.journal.provider_batches import BatchLedger, BatchRecord
from rlm.models.base import Reply
from rlm.models.batching.call import WaitingCall
from rlm.models.batching.policy import BatchingPolicy
from rlm.models.http.batches import BatchApi, BatchStatus, SentBatch
from rlm.models.http.batches.outcomes import missing, unknown_batch
from rlm.models.http.error_mapping import AttemptFailure
from rlm.models.http.rate_limit import Limiter
from rlm.models.http.retry import with_retries
from rlm.models.listener import OnRetry

__all__ = ["ProviderBatch", "find_lost"]

_T = TypeVar("_T")
_GROWTH, _JITTER = 1.5, 0.1
"""By what the interval between two polls grows, and how random it is."""
_REFUSALS = (None, "rate_limited")
"""Reasons of failures after which there is certainly no batch."""
_RESULT_BYTES = 1 << 16
_RESULT_BYTES_PER_TOKEN = 100
"""Bytes of one result: its frame, and its text in JSON."""


class ProviderBatch:
    """A batch and the calls that wait for it. `run` ends when all of them have an outcome, or when nobody
    waits for one."""

    def __init__(
        self,
        api: BatchApi,
        ledger: BatchLedger,
        record: BatchRecord,
        calls: Sequence[WaitingCall],
        policy: BatchingPolicy,
        *,
        on_change: Callable[[], None],
        on_retry: OnRetry | None,
    ) -> None:
        self.record = record
        self.done = 0
        self.is_settled = False
        self._api = api
        self._ledger = ledger
        self._calls = {call.key: call for call in calls}
        self._policy = policy
        self._on_change = on_change
        self._on_retry = on_retry
        self._trouble: str | None = None
        self._is_reading = False
        self._created = asyncio.Event()
        if record.provider_id is not None:
            self._created.set()

    @property
    def has_waiters(self) -> bool:
        """Return whether anybody waits for a call of this batch."""
        return any(call.waiters for call in self._calls.values())

    def join(self, calls: Sequence[WaitingCall]) -> bool:
        """Add calls that are in this batch. Return False if its results are being read already."""
        if self._is_reading or self.is_settled:
            return False
        self._calls |= {call.key: call for call in calls}
        return True

    @property
    def is_created(self) -> bool:
        """Return whether the provider has the batch and the ledger its id, or that has failed."""
        return self._created.is_set()

    async def created(self) -> None:
        """Wait until `is_created`."""
        await self._created.wait()

    async def run(self) -> None:
        """Create the batch unless it is created, wait for its end, and settle its calls."""
        try:
            batch_id = self.record.provider_id or await self._create()
            if self.has_waiters:
                self._on_change()
                status = await self._wait(batch_id)
                await self._read(batch_id, status)
        except Exception as error:
            for call in self._calls.values():
                call.settle(error)
        finally:
            self._created.set()
        # Not after a cancellation: what waits then stays at the provider, and is reported as waiting.
        self.is_settled = True
        self._on_change()

    async def _create(self) -> str:
        """Return the id of the new batch. Raises ModelError."""
        entries = [call.entry for call in self._calls.values()]
        is_unsure = False

        async def attempt() -> str | AttemptFailure:
            nonlocal is_unsure
            if is_unsure:
                found = await _find(self._api, self._ledger, self.record)
                if found is not None:
                    return found
            made = await self._api.create(entries, self.record.batch)
            # A refusal made no batch. An answer that was lost may have made one.
            is_unsure = isinstance(made, AttemptFailure) and made.reason not in _REFUSALS
            return made

        try:
            batch_id = await _with_retries(self._api, attempt, self._policy, self._on_retry)
        except ModelError:
            if not is_unsure:
                await self._ledger.remove(self.record.batch)
            raise
        for call in self._calls.values():
            call.entry = b""
        await self._ledger.set_open(self.record.batch, batch_id)
        self.record = replace(self.record, provider_id=batch_id, state="open")
        self._created.set()
        return batch_id

    async def _wait(self, batch_id: str) -> BatchStatus:
        """Return the status of the batch once it has ended. Raises ModelError if refused."""

        async def ask() -> BatchStatus:
            status = await self._api.status(batch_id)
            if isinstance(status, AttemptFailure):
                if status.reason is None:
                    raise self._explain(status, batch_id).final(1, 0.0)
                self._report(status)
                return BatchStatus(self.done, self.record.requests, ended=False)
            self._trouble = None
            self.done = min(status.done, self.record.requests)
            self._on_change()
            return status

        # Never given up: a batch has been paid for. A little random, so that batches that were sent together
        # are not polled together.
        pause = self._policy.first_poll
        while not (status := await ask()).ended:
            await asyncio.sleep(pause * random.uniform(1, 1 + _JITTER))  # noqa: S311
            pause = min(self._policy.longest_poll, pause * _GROWTH)
        return status

    def _explain(self, failure: AttemptFailure, batch_id: str) -> AttemptFailure:
        """Return a failure that names the batch, where the provider does not know it."""
        mapper = self._api.connection.mapper
        return unknown_batch(mapper, batch_id) if failure.status == 404 else failure

    def _report(self, failure: AttemptFailure) -> None:
        """Report a poll that failed, unless the one before failed for the same reason."""
        if failure.reason is not None and failure.reason != self._trouble and self._on_retry is not None:
            self._on_retry(1, self._policy.longest_poll, failure.reason)
        self._trouble = failure.reason

    async def _read(self, batch_id: str, status: BatchStatus) -> None:
        """Settle every call: with its result, or with the reason why it has none."""
        self._is_reading = True
        left = dict(self._calls)
        failed: dict[WaitingCall, AttemptFailure] = {}
        if status.failure is None:
            await _with_retries(
                self._api,
                lambda: self._read_once(batch_id, status, left, failed),
                self._policy,
                self._on_retry,
            )
        mapper = self._api.connection.mapper
        failed |= {call: status.failure or missing(mapper) for call in left.values()}
        # First, so that a call that is sent again is not looked for in this batch.
        await self._ledger.forget(call.key for call in failed)
        for call, failure in failed.items():
            call.settle(failure)
        await self._ledger.set_ended(self.record.batch)

    async def _read_once(
        self,
        batch_id: str,
        status: BatchStatus,
        left: dict[str, WaitingCall],
        failed: dict[WaitingCall, AttemptFailure],
    ) -> bool | AttemptFailure:
        """Read the results. What was read stays when the connection drops, and is not read again."""
        tokens = max((call.request.max_output_tokens for call in left.values()), default=0)
        size = self.record.requests * (_RESULT_BYTES + _RESULT_BYTES_PER_TOKEN * tokens)
        async with aclosing(self._api.lines(batch_id, status, max_bytes=size)) as lines:
            async for line in lines:
                if isinstance(line, AttemptFailure):
                    return line
                found = self._api.read(line)
                # Results of other runs, results that nobody asked for, and second ones are skipped.
                call = None if found is None else left.pop(found[0], None)
                if found is None or call is None:
                    continue
                outcome = self._api.reply(found[1], call.request)
                if isinstance(outcome, Reply):
                    call.settle(replace(outcome, batch=batch_id))
                else:
                    failed[call] = outcome
                if not left:
                    return True
                await asyncio.sleep(0)
        return True


async def find_lost(
    api: BatchApi,
    ledger: BatchLedger,
    record: BatchRecord,
    policy: BatchingPolicy,
    on_retry: OnRetry | None,
) -> BatchRecord | None:
    """Look at the provider for a batch that a process recorded and then died. Return it with its id, or None
    if it was not created; it is then forgotten. Raises ModelError."""

    async def attempt() -> tuple[str | None] | AttemptFailure:
        found = await _find(api, ledger, record)
        return found if isinstance(found, AttemptFailure) else (found,)

    (batch_id,) = await _with_retries(api, attempt, policy, on_retry)
    if batch_id is None:
        await ledger.remove(record.batch)
        return None
    await ledger.set_open(record.batch, batch_id)
    return replace(record, provider_id=batch_id, state="open")


async def _find(api: BatchApi, ledger: BatchLedger, record: BatchRecord) -> str | AttemptFailure | None:
    others = await ledger.batches()
    known = frozenset(one.provider_id for one in others if one.provider_id is not None)
    return await api.find(SentBatch(record.batch, record.requests, record.sent_at), known)


async def _with_retries(
    api: BatchApi,
    attempt: Callable[[], Awaitable[_T | AttemptFailure]],
    policy: BatchingPolicy,
    on_retry: OnRetry | None,
) -> _T:
    return await with_retries(
        attempt,
        policy.retry,
        limiter=Limiter(1),
        has_answered=lambda: api.connection.has_answered,
        on_retry=on_retry,
    )
