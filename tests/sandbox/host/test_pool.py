"""Test kernels kept ready: fast, bounded in number, never used twice."""

from __future__ import annotations

import asyncio

import pytest

from rlm.sandbox.errors import KernelStartError, SandboxRefused
from rlm.sandbox.host.jupyter_sandbox import JupyterSandbox
from rlm.sandbox.host.kernel_process import FreshKernels
from rlm.sandbox.host.pool import KernelPool


class CountingKernels(FreshKernels):
    """Counts the living kernels, and refuses on command."""

    def __init__(self, forkserver) -> None:
        super().__init__(minimum=0, forkserver=forkserver)
        self.started = self.starting = self.most = 0
        self.running: set[object] = set()
        self.refusing = False

    async def acquire(self):
        if self.refusing:
            raise SandboxRefused("not today")
        self.started += 1
        self.starting += 1
        self.most = max(self.most, self.alive)
        try:
            kernel = await super().acquire()
        finally:
            self.starting -= 1
        self.running.add(kernel)
        return kernel

    async def release(self, kernel) -> None:
        await super().release(kernel)
        self.running.discard(kernel)

    @property
    def alive(self) -> int:
        return self.starting + len(self.running)


@pytest.fixture
def source(forkserver) -> CountingKernels:
    return CountingKernels(forkserver)


@pytest.fixture
def over(make_context, handler):
    """Return a sandbox of a pool over a text."""

    def make(pool: KernelPool, text: str = "one\n") -> JupyterSandbox:
        return JupyterSandbox(make_context(text), handler, kernels=pool)

    return make


async def stdout_of(kernel: JupyterSandbox, code: str) -> str:
    result = await kernel.execute(code, round=1, timeout=20)
    assert result.status == "ok", result
    return result.stdout


async def test_a_spare_kernel_serves_a_context_it_did_not_know(source, over) -> None:
    """One spare kernel is kept warm. Each question sees its own text and nobody's variables."""
    async with KernelPool(3, source=source) as pool:
        for number, text in enumerate(("first text", "second, a longer text")):
            kernel = over(pool, text)
            await kernel.open()
            assert await stdout_of(kernel, "print(peek(0, 99), globals().get('kept'))") == f"{text} None\n"
            await stdout_of(kernel, "kept = 1; peek = None")
            await kernel.close()
            # The one just used, and the one made ready when it was taken.
            assert source.started == number + 2
    assert source.alive == 0


async def test_no_more_than_the_cap_are_alive(source, over) -> None:
    """Callers above the cap wait in order."""
    order = []

    async def use(pool: KernelPool, number: int) -> None:
        kernel = over(pool)
        await kernel.open()
        order.append(number)
        await stdout_of(kernel, "print(1)")
        await kernel.close()

    async with KernelPool(2, spare=1, source=source) as pool:
        async with asyncio.timeout(50):
            await asyncio.gather(*[use(pool, number) for number in range(7)])
        assert pool.alive <= 2
    assert source.most == 2
    assert sorted(order) == list(range(7))
    assert order[-1] in (5, 6)
    assert source.alive == 0


async def test_a_spare_is_replaced_only_where_it_is_asked_for(source, over) -> None:
    async with KernelPool(2, refill=False, source=source) as pool, asyncio.timeout(50):
        root = over(pool)
        await root.open()
        assert (source.started, pool.alive) == (1, 1)
        await root.close()
    assert source.alive == 0


async def test_a_spare_that_has_died_is_not_handed_out(source, over) -> None:
    async with KernelPool(2, source=source) as pool:
        spare = await pool._spares[0]
        spare.kill("a test")
        kernel = over(pool)
        await kernel.open()
        assert await stdout_of(kernel, "print(1)") == "1\n"
        await kernel.close()


async def test_who_stops_waiting_takes_nothing(source, over) -> None:
    async with KernelPool(1, source=source) as pool:
        kernel = over(pool)
        await kernel.open()
        waiting = asyncio.ensure_future(over(pool).open())
        await asyncio.sleep(0)
        waiting.cancel()
        await asyncio.gather(waiting, return_exceptions=True)
        await kernel.close()
        impatient = asyncio.ensure_future(over(pool).open())
        await asyncio.sleep(0.01)
        impatient.cancel()
        await asyncio.gather(impatient, return_exceptions=True)
        again = over(pool)
        await again.open()
        await again.close()
    assert source.most == 1
    assert source.alive == 0


async def test_a_closed_pool_has_no_kernels(source, over) -> None:
    pool = KernelPool(2, source=source)
    kernel = over(pool)
    await kernel.open()
    waiting = [asyncio.ensure_future(over(pool).open()) for _ in range(2)]
    await asyncio.sleep(0.01)
    await asyncio.gather(pool.close(), kernel.close())
    assert not kernel.alive
    for outcome in await asyncio.gather(*waiting, return_exceptions=True):
        assert isinstance(outcome, KernelStartError)
    with pytest.raises(KernelStartError, match="closed"):
        await over(pool).open()
    await pool.close()
    assert (source.alive, pool.alive) == (0, 0)


async def test_a_refusal_reaches_the_one_who_asks(source, over) -> None:
    source.refusing = True
    async with KernelPool(1, source=source) as pool:
        for _ in range(2):
            with pytest.raises(SandboxRefused, match="not today"):
                await over(pool).open()
        source.refusing = False
        kernel = over(pool)
        await kernel.open()
        await kernel.close()


@pytest.mark.parametrize(("cap", "spare"), [(0, 0), (1, -1)])
def test_a_pool_has_room(cap, spare) -> None:
    with pytest.raises(ValueError, match=f"cap={cap}"):
        KernelPool(cap, spare=spare)
