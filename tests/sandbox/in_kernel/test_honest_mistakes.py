"""Test that a mistake in the arguments of any helper is an error of the cell and never ends the kernel."""

from __future__ import annotations

import json

import pytest

from rlm.sandbox.in_kernel.registry import NAMES

VALUES = r"""
deep = []
for _ in range(5_000):
    deep = [deep]
deep_dict = {}
for _ in range(5_000):
    deep_dict = {"a": deep_dict}
own = []
own.append(own)
VALUES = [
    "a \ud800", "\udfff", "\ud83d", "\x00", "a\x00b", "", " ", "x" * 200_000, "\u202e", "é" * 100_000,
    0, -1, 10**400, -(10**400), 10**5_000, 2**53, 2**63, True, None, 0.5, -0.0,
    float("nan"), float("inf"), 1e308, 1j, b"bytes", bytearray(b"x"), object(), print, int, ...,
    [], (), {}, set(), [None], [""], [[]], [()], [{}], ["\ud800"], {"\ud800": "\ud800"}, {1: 2}, {None: None},
    (0, 3), (3, 0), (-3, -1), (0, 10**400), (0, 0), (0, 3, 5), [(0, 3)] * 20_000, [(5, 1)], [[0, 3]],
    [("a", "b")], ["q"] * 20_000, range(3), iter([1]), (n for n in "abc"), deep, deep_dict, own, deep[0],
    {"type": "object"}, {"a": "int"}, {"pattern": "(a|a)*"}, {"$ref": "#"}, {"start": 0, "end": 10**400},
]
"""
TRY = r"""
import itertools, random
random.seed({seed})
done = errors = 0
name = {name!r}
call = getattr(helpers, name)
tries = [(one,) for one in VALUES]
tries += [("q", one) for one in VALUES]
tries += [("q", (0, 3), one) for one in VALUES]
tries += [tuple(random.choice(VALUES) for _ in range(random.randint(0, 5))) for _ in range(40)]
for arguments in tries:
    try:
        call(*arguments)
        done += 1
    except helpers_finalized:
        done += 1
    except KeyboardInterrupt:
        raise
    except Exception:
        errors += 1
print(done, errors)
"""
FINALIZED = "import sys\nhelpers_finalized = sys.modules[type(helpers).__module__].Finalized\n"


@pytest.mark.parametrize("name", NAMES)
async def test_no_value_in_any_place_ends_the_kernel(open_kernel, handler, name) -> None:
    """The cell goes on after each. The handler would break at a text that UTF-8 cannot hold."""
    kernel = await open_kernel()
    check_texts_of(handler)
    await kernel.execute(VALUES + FINALIZED, round=1, timeout=30.0)
    result = await kernel.execute(TRY.format(name=name, seed=len(name)), round=2, timeout=60.0, deadline=90.0)
    assert (result.status, kernel.alive) == ("ok", True), (result.ename, result.evalue, result.traceback)
    done, errors = map(int, result.stdout.split("\n")[-2].split())
    assert done + errors > 100
    assert (await kernel.execute("print(peek(0, 1))", round=3, timeout=10.0)).status == "ok"


def check_texts_of(handler) -> None:
    """Make every call of the handler encode its arguments, as a hash or a database does."""

    def checked(method):
        async def call(request, *more):
            json.dumps(repr(request), ensure_ascii=False).encode()
            return await method(request, *more)

        return call

    handler.sub_rlms = handler.children
    for name in ("children", "sub_rlms", "finalize", "rank", "tool"):
        setattr(handler, name, checked(getattr(handler, name)))
