"""Test cells that fail where IPython expects no failure, through a real kernel."""

from __future__ import annotations

import pytest

CHAIN = "n = 1\nif n < 0:\n    pass\n" + "".join(f"elif n == {at}:\n    pass\n" for at in range(1_200))


@pytest.mark.parametrize(
    "code",
    [*("x = " + "+".join(["1"] * terms) for terms in (1_100, 1_500, 20_000)), CHAIN],
    ids=["1,100 terms", "1,500 terms", "20,000 terms", "1,200 branches"],
)
async def test_code_too_deep_for_python_fails_the_cell_alone(open_kernel, code: str) -> None:
    """Generated code may sum a thousand terms."""
    kernel = await open_kernel()
    await kernel.execute("kept = 7", round=1, timeout=20)
    result = await kernel.execute(code, round=2, timeout=20)
    assert result.status in ("ok", "error")
    if result.status == "error":
        assert result.ename == "RecursionError"
        assert "recursion" in result.evalue
    assert (await kernel.execute("print(kept)", round=3, timeout=20)).stdout == "7\n"


async def test_an_error_whose_message_raises_fails_the_cell_alone(open_kernel) -> None:
    kernel = await open_kernel()
    code = "class Odd(Exception):\n    def __str__(self):\n        raise ValueError('no message')\nraise Odd"
    result = await kernel.execute(code, round=1, timeout=20)
    assert result.status == "error"
    assert (await kernel.execute("print(7)", round=2, timeout=20)).stdout == "7\n"
