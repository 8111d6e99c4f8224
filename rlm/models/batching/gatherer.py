"""Gathers calls into batches, and follows the batches until their calls are answered."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Sequence
from contextlib import suppress

from rlm.events import BatchesWaiting
from rlm.journal.provider_batches import BatchLedger, BatchRecord
from rlm.models.base import Reply, Request
from rlm.models.batching.call import WaitingCall, custom_id
from rlm.models.batching.policy import BatchingPolicy, OnBatches
from rlm.models.batching.provider_batch import ProviderBatch, find_lost
from rlm.models.http.batches import BatchApi
from rlm.models.http.batches.outcomes import too_large
from rlm.models.http.error_mapping import AttemptFailure
from rlm.models.listener import OnRetry

__all__ = ["Gatherer"]

_FRAME_BYTES = 64
"""Bytes around the entries of a batch, and between two of them."""
_CLOSING_SECONDS = 10.0
"""How long leaving waits for batches that are being created: their ids are then known to the ledger."""


class Gatherer:
    """The calls of one model in one event loop. `model` is its name."""

    def __init__(
        self,
        model: str,
        api: BatchApi,
        ledger: BatchLedger,
        policy: BatchingPolicy,
        *,
        on_batches: OnBatches | None = None,
        on_retry: OnRetry | None = None,
    ) -> None:
        self._model = model
        self._api = api
        self._ledger = ledger
        self._policy = policy
        self._on_batches = on_batches
        self._on_retry = on_retry
        self._calls: dict[str, WaitingCall] = {}
        self._gathered: dict[str, WaitingCall] = {}
        self._bytes = 0
        self._first_at = 0.0
        self._timer: asyncio.TimerHandle | None = None
        self._batches: dict[str, tuple[ProviderBatch, asyncio.Task[None]]] = {}
        self._sending: set[asyncio.Task[None]] = set()
        self._max_requests = min(policy.max_requests, api.limits.requests)
        self._max_bytes = min(policy.max_bytes, api.limits.bytes) - _FRAME_BYTES

    async def ask(self, request: Request) -> Reply | AttemptFailure:
        """Return the outcome of a request, which may take up to 24 hours. The same call of a run that is
        asked again, also by another process, is looked for in the batches of the ledger first."""
        key = custom_id(self._model, request)
        call = self._calls.get(key)
        if call is None:
            entry = self._api.encode(key, request)
            if len(entry) + _FRAME_BYTES > self._max_bytes:
                return too_large(self._api.connection.mapper, len(entry), self._max_bytes)
            call = self._calls[key] = WaitingCall(key, request, entry)
            self._gather(call)
        call.waiters += 1
        try:
            return await call.outcome()
        finally:
            call.waiters -= 1
            if not call.waiters:
                self._leave(call)

    async def aclose(self) -> None:
        """Stop following the batches. They stay at the provider, and the ledger knows their ids."""
        if self._timer is not None:
            self._timer.cancel()
        with suppress(TimeoutError):
            async with asyncio.timeout(_CLOSING_SECONDS):
                await asyncio.gather(*(batch.created() for batch, _ in self._batches.values()))
        tasks = [*self._sending, *(task for _, task in self._batches.values())]
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    def _gather(self, call: WaitingCall) -> None:
        loop = asyncio.get_running_loop()
        size = call.size + _FRAME_BYTES
        if len(self._gathered) >= self._max_requests or self._bytes + size > self._max_bytes:
            self._flush()
        if not self._gathered:
            self._first_at = loop.time()
        self._gathered[call.key] = call
        self._bytes += size
        if self._timer is not None:
            self._timer.cancel()
        latest = self._first_at + self._policy.longest_wait
        self._timer = loop.call_at(min(loop.time() + self._policy.idle_seconds, latest), self._flush)

    def _flush(self) -> None:
        calls, self._gathered, self._bytes = list(self._gathered.values()), {}, 0
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        if calls:
            task = asyncio.ensure_future(self._send(calls))
            self._sending.add(task)
            task.add_done_callback(self._sending.discard)

    async def _send(self, calls: Sequence[WaitingCall]) -> None:
        """Follow the batches that hold these calls already, and send the others in a new one."""
        try:
            known = await self._ledger.find([call.key for call in calls])
            new = [call for call in calls if call.key not in known]
            for record in {one.batch: one for one in known.values()}.values():
                found = [call for call in calls if known.get(call.key) == record]
                new += await self._follow_known(record, found)
            if new:
                record = await self._ledger.begin(self._model, {call.key: _run_of(call) for call in new})
                self._follow(record, new)
        except Exception as error:
            for call in calls:
                call.settle(error)

    async def _follow_known(self, record: BatchRecord, calls: list[WaitingCall]) -> list[WaitingCall]:
        """Follow a batch that an earlier process, or an earlier call, has sent. Return the calls if it was
        never created."""
        following = self._batches.get(record.batch)
        if following is not None and following[0].join(calls):
            return []
        if record.provider_id is None and following is None:
            found = await find_lost(self._api, self._ledger, record, self._policy, self._on_retry)
            if found is None:
                return calls
            record = found
        self._follow(record, calls)
        return []

    def _follow(self, record: BatchRecord, calls: Sequence[WaitingCall]) -> None:
        batch = ProviderBatch(
            self._api,
            self._ledger,
            record,
            calls,
            self._policy,
            on_change=self._report,
            on_retry=self._on_retry,
        )
        task = asyncio.ensure_future(batch.run())
        name = record.batch
        while name in self._batches:  # its results are being read: they are read once more
            name = f"{name} again"
        self._batches[name] = (batch, task)
        task.add_done_callback(lambda _: self._batches.pop(name, None))

    def _leave(self, call: WaitingCall) -> None:
        """Nobody waits for the call any more. What was not sent is not sent; what was sent stays there."""
        self._calls.pop(call.key, None)
        if self._gathered.pop(call.key, None) is not None:
            self._bytes -= call.size + _FRAME_BYTES
        for batch, task in list(self._batches.values()):
            if batch.is_created and not batch.has_waiters:
                task.cancel()

    def _report(self) -> None:
        if self._on_batches is None:
            return
        waiting = [batch for batch, _ in self._batches.values() if batch.is_created and not batch.is_settled]
        began = min((batch.record.sent_at for batch in waiting), default=time.time())
        self._on_batches(
            BatchesWaiting(
                self._model,
                sum(batch.done for batch in waiting),
                sum(batch.record.requests for batch in waiting),
                max(0.0, time.time() - began),
                tuple(batch.record.provider_id or "" for batch in waiting),
            )
        )


def _run_of(call: WaitingCall) -> str:
    return call.request.run.partition("/")[0]
