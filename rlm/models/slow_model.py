"""A model that answers within 24 hours, at half the price: its calls are sent in batches of its provider.

The calls of one event loop are gathered, sent, recorded by the provider's id of their batch, polled and read.
A batch is recorded only after the provider has named it: a process that is killed in between, or an answer
that is lost, lets its calls be sent and paid once more.
"""

from __future__ import annotations

import asyncio
import hashlib
import json
import random
import time
from collections.abc import Awaitable, Callable, Sequence
from contextlib import aclosing
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, TypeVar
from weakref import WeakKeyDictionary

from rlm.events import BatchesWaiting
from rlm.journal.provider_batches import BatchLedger, BatchRecord
from rlm.models.base import Model, ModelWindow, OnRetry, Reply, Request, call_key
from rlm.models.call_settings import CallSettings
from rlm.models.http.batches import BatchStatus, batch_api_of
from rlm.models.http.errors import AttemptFailure
from rlm.models.http.retry import with_retries
from rlm.models.options import RetryPolicy

__all__ = ["SlowModel", "make_slow"]

_T = TypeVar("_T")
_IDLE_SECONDS = 3.0
"""A batch is sent when no call has come for so long."""
_LONGEST_GATHERING = 60.0
"""So many seconds after its first call, a batch is sent in any case."""
_MAX_BYTES = 64_000_000
_FRAME_BYTES = 64
"""Bytes around the entries of a batch, and between two of them."""
_FIRST_POLL, _LONGEST_POLL, _GROWTH, _JITTER = 2.0, 60.0, 1.5, 0.1
"""The seconds between two polls grow. A little random, so that batches of one moment are polled apart."""
_CLOSING_SECONDS = 10.0
"""How long `aclose` waits for batches that are being created, until the ledger has their ids."""
_RESULT_BYTES = 1 << 16
_RESULT_BYTES_PER_TOKEN = 100
"""Bytes of one result: its frame, and its text in JSON."""
_REQUESTS = RetryPolicy(attempts=20, base=1.0, cap=60.0, total=3_600.0, retry_after_cap=600.0)
"""For the requests that create and read a batch."""
_BATCHES = RetryPolicy(attempts=3, base=60.0, cap=600.0, total=86_400.0)
"""For a call that failed within its batch for a reason that passes: it is sent in another one."""


class SlowModel:
    """Implements Model. The ledger in `store` records the batches, so that a resumed run finds its replies.
    `on_batches` is called from the event loop when a batch was sent or polled."""

    def __init__(
        self,
        model: Model,
        store: str | Path,
        on_batches: Callable[[BatchesWaiting], None],
        on_retry: OnRetry,
    ) -> None:
        self.inner = model
        """The model that answers at once."""
        self.api = batch_api_of(model)
        self.price_share = self.api.price_share
        self.collects_later = True
        self.ledger = BatchLedger(store)
        self.on_batches = on_batches
        self.on_retry = on_retry
        self._senders: WeakKeyDictionary[asyncio.AbstractEventLoop, _Sender] = WeakKeyDictionary()

    def __repr__(self) -> str:
        return f"SlowModel({self.inner!r})"

    @property
    def name(self) -> str:
        return self.inner.name

    @property
    def window(self) -> ModelWindow:
        return self.inner.window

    @property
    def calls(self) -> CallSettings:
        """Return the settings of its calls."""
        return getattr(self.inner, "calls", CallSettings())

    async def generate(self, request: Request) -> Reply:
        """Return the reply, which may take up to 24 hours. Raises ModelError and JournalError."""
        loop = asyncio.get_running_loop()
        if loop not in self._senders:
            self._senders[loop] = _Sender(self)
        sender = self._senders[loop]
        return await with_retries(lambda: sender.ask(request), _BATCHES, on_retry=self.on_retry)

    async def aclose(self) -> None:
        """Stop waiting for the batches. They stay at the provider."""
        sender = self._senders.pop(asyncio.get_running_loop(), None)
        if sender is not None:
            await sender.aclose()
        await self.inner.aclose()


def make_slow(
    model: Model, store: str | Path, on_batches: Callable[[BatchesWaiting], None], on_retry: OnRetry
) -> SlowModel:
    """Return `model` over its provider's batch API. Raises ConfigurationError if there is none."""
    return model if isinstance(model, SlowModel) else SlowModel(model, store, on_batches, on_retry)


@dataclass(eq=False, slots=True)
class _Call:
    """A request with the id by which its batch knows it. `entry` is its text, until it was sent."""

    key: str
    request: Request
    entry: bytes
    outcome: asyncio.Future[Reply | AttemptFailure | Exception]
    waiters: int = 0

    @property
    def size(self) -> int:
        return len(self.entry) + _FRAME_BYTES


@dataclass(slots=True)
class _Batch:
    """A batch that is followed. `calls` are those that wait for it, by their keys."""

    record: BatchRecord
    done: int = 0
    calls: dict[str, _Call] = field(default_factory=dict)

    def settle(self, call: _Call, outcome: Reply | AttemptFailure) -> None:
        """Give a call its outcome. One of the same key that joined meanwhile still waits."""
        _settle(call, outcome)
        if self.calls.get(call.key) is call:
            del self.calls[call.key]


class _Sender:
    """The calls of one model in one event loop."""

    def __init__(self, model: SlowModel) -> None:
        self._model = model
        self._api = model.api
        self._ledger = model.ledger
        self._calls: dict[str, _Call] = {}
        self._gathered: dict[str, _Call] = {}
        self._bytes = 0
        self._first_at = 0.0
        self._timer: asyncio.TimerHandle | None = None
        self._batches: dict[str, _Batch] = {}
        self._sending: set[asyncio.Task[None]] = set()
        self._following: set[asyncio.Task[None]] = set()

    async def ask(self, request: Request) -> Reply | AttemptFailure:
        """Return the outcome of a request. A caller that is cancelled leaves it in its batch, where the same
        call of its run finds it."""
        key = _key_of(self._model.name, request)
        call = self._calls.get(key)
        if call is None:
            future: asyncio.Future[Any] = asyncio.get_running_loop().create_future()
            call = _Call(key, request, self._api.encode(key, request), future)
            if call.size > _MAX_BYTES:
                return self._api.mapper.describe("batch too small", given=f"{call.size:,}")
            self._calls[key] = call
            self._gather(call)
        call.waiters += 1
        try:
            outcome = await asyncio.shield(call.outcome)
        finally:
            call.waiters -= 1
            if not call.waiters:
                del self._calls[key]
                if self._gathered.pop(key, None) is not None:
                    self._bytes -= call.size
        if isinstance(outcome, Exception):
            raise outcome
        return outcome

    async def aclose(self) -> None:
        """Stop following the batches, once those that are being created are recorded."""
        if self._timer is not None:
            self._timer.cancel()
        if self._sending:
            await asyncio.wait(self._sending, timeout=_CLOSING_SECONDS)
        tasks = [*self._sending, *self._following]
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    def _gather(self, call: _Call) -> None:
        if len(self._gathered) >= self._api.max_requests or self._bytes + call.size > _MAX_BYTES:
            self._flush()
        loop = asyncio.get_running_loop()
        if not self._gathered:
            self._first_at = loop.time()
        self._gathered[call.key] = call
        self._bytes += call.size
        if self._timer is not None:
            self._timer.cancel()
        at = min(loop.time() + _IDLE_SECONDS, self._first_at + _LONGEST_GATHERING)
        self._timer = loop.call_at(at, self._flush)

    def _flush(self) -> None:
        calls, self._gathered, self._bytes = list(self._gathered.values()), {}, 0
        if calls:
            _start(self._send(calls), self._sending)

    async def _send(self, calls: list[_Call]) -> None:
        """Follow the batches that hold these calls already, and send the others in a new one."""
        try:
            known = await self._ledger.find([call.key for call in calls])
            new = [call for call in calls if call.key not in known]
            for call in calls:
                if call.key in known:
                    self._follow(known[call.key], [call])
            if new:
                entries = [call.entry for call in new]
                batch_id = await self._with_retries(lambda: self._api.create(entries))
                runs = {call.key: call.request.run.partition("/")[0] for call in new}
                self._follow(await self._ledger.add(batch_id, self._model.name, runs), new)
        except Exception as error:
            for call in calls:
                _settle(call, error)

    def _follow(self, record: BatchRecord, calls: Sequence[_Call]) -> None:
        batch = self._batches.get(record.provider_id)
        if batch is None:
            batch = self._batches[record.provider_id] = _Batch(record)
            _start(self._run(batch), self._following)
        for call in calls:
            call.entry = b""
            batch.calls[call.key] = call

    async def _run(self, batch: _Batch) -> None:
        """Poll a batch while anybody waits for it, and settle its calls. A poll that fails for a reason that
        passes is never given up: the batch has been paid for."""
        batch_id, pause = batch.record.provider_id, _FIRST_POLL
        try:
            while any(call.waiters for call in batch.calls.values()):
                status = await self._api.status(batch_id)
                if isinstance(status, AttemptFailure):
                    if status.reason is None:
                        raise status.final(1, 0.0)
                    self._model.on_retry(1, _LONGEST_POLL, status.reason)
                else:
                    batch.done = min(status.done, batch.record.requests)
                self._report()
                if isinstance(status, BatchStatus) and status.ended:
                    await self._read(batch, status)
                else:
                    await asyncio.sleep(pause * random.uniform(1, 1 + _JITTER))  # noqa: S311
                    pause = min(_LONGEST_POLL, pause * _GROWTH)
        except Exception as error:
            for call in batch.calls.values():
                _settle(call, error)
            batch.calls.clear()
        del self._batches[batch_id]
        if not batch.calls:  # else it waits at the provider, and stays reported
            self._report()

    async def _read(self, batch: _Batch, status: BatchStatus) -> None:
        """Settle every call: with its result, or with the reason why it has none."""
        left = dict(batch.calls)
        failed: dict[_Call, AttemptFailure] = {}
        tokens = max((call.request.max_output_tokens for call in left.values()), default=0)
        size = batch.record.requests * (_RESULT_BYTES + _RESULT_BYTES_PER_TOKEN * tokens)

        async def read() -> bool | AttemptFailure:
            """Read the results. What was read stays when the connection drops, and is not read again."""
            async with aclosing(self._api.results(status, max_bytes=size)) as results:
                async for result in results:
                    if isinstance(result, AttemptFailure):
                        return result
                    # Results of other runs, results that nobody asked for, and second ones are skipped.
                    call = left.pop(result[0], None)
                    if call is not None:
                        outcome = self._api.reply(result[1], call.request)
                        if isinstance(outcome, Reply):
                            batch.settle(call, replace(outcome, batch=batch.record.provider_id))
                        else:
                            failed[call] = outcome
                        if not left:
                            break
                        await asyncio.sleep(0)
            return True

        if status.failure is None:
            await self._with_retries(read)
        missing = status.failure or self._api.mapper.describe("no result")
        failed |= dict.fromkeys(left.values(), missing)
        # First, so that a call that is sent again is not looked for in this batch.
        await self._ledger.forget([call.key for call in failed])
        for call, failure in failed.items():
            batch.settle(call, failure)
        await self._ledger.set_ended(batch.record.provider_id)

    def _report(self) -> None:
        """Report the batches that wait."""
        waiting = [batch for batch in self._batches.values() if batch.calls]
        began = min((batch.record.sent_at for batch in waiting), default=time.time())
        done, total = (sum(batch.done for batch in waiting), sum(batch.record.requests for batch in waiting))
        ids = tuple(batch.record.provider_id for batch in waiting)
        seconds = max(0.0, time.time() - began)
        self._model.on_batches(BatchesWaiting(self._model.name, done, total, seconds, ids))

    async def _with_retries(self, attempt: Callable[[], Awaitable[_T | AttemptFailure]]) -> _T:
        return await with_retries(
            attempt,
            _REQUESTS,
            has_answered=lambda: self._api.has_answered,
            on_retry=self._model.on_retry,
        )


def _settle(call: _Call, outcome: Reply | AttemptFailure | Exception) -> None:
    """Give a call's outcome to all who wait. The first one counts."""
    if not call.outcome.done():
        call.outcome.set_result(outcome)


def _start(work: Awaitable[None], tasks: set[asyncio.Task[None]]) -> None:
    task = asyncio.ensure_future(work)
    tasks.add(task)
    task.add_done_callback(tasks.discard)


def _key_of(model: str, request: Request) -> str:
    """Return the id of a call within its run: equal for the same call of a resumed run, 64 characters long.

    The last message to a root tells it the time left and what its children took, which a resumed run words
    otherwise. So a root's call is known by its round and by what came before.
    """
    if request.role == "root":
        cell = request.last_cell
        seen = None if cell is None else [cell.status, cell.stdout, cell.result, cell.ename, cell.evalue]
        before = [[message.role, message.content] for message in request.messages[:-1]]
        call = json.dumps([model, request.round, request.final, request.max_output_tokens, before, seen])
    else:
        call = call_key(model, request)
    return hashlib.sha256(f"{request.run}\0{request.role}\0{call}".encode(errors="replace")).hexdigest()
