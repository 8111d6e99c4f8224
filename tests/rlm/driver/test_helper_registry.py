"""Test that the kernel, the root's prompt, Python's `help` and the documents have the helpers of one list."""

from __future__ import annotations

import ast
import inspect
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from rlm.sandbox.in_kernel.handle import Handle
from rlm.sandbox.in_kernel.helpers import Helpers
from rlm.sandbox.in_kernel.registry import HELPERS, NAMES, Helper, bare_signature
from rlm.settings import Limits
from rlm.testing import ScriptedModel


def own(helper: Helper) -> Callable[..., Any]:
    """Return the function of a helper."""
    return getattr(Helpers if hasattr(Helpers, helper.name) else Handle, helper.name)


def parameters(call: str) -> dict[str, str | None]:
    """Return the parameters of a call as it is listed, with their defaults."""
    listed = ast.parse(f"def {call}: ...").body[0]
    assert isinstance(listed, ast.FunctionDef)
    names = [one.arg for one in listed.args.args]
    defaults = [ast.unparse(one) for one in listed.args.defaults]
    return dict(zip(names, [None] * (len(names) - len(defaults)) + defaults, strict=True))


@pytest.mark.parametrize("helper", HELPERS, ids=NAMES)
def test_a_helper_has_the_parameters_it_is_listed_with(helper) -> None:
    """In the prompt a default may be left out, so that the parameter is given."""
    function = own(helper)
    assert inspect.getdoc(function)
    taken = parameters(f"{helper.name}{bare_signature(function)}")
    for name, default in parameters(helper.call).items():
        assert default in (taken[name], None)


async def test_the_kernel_holds_exactly_the_listed_helpers(run, block) -> None:
    code = (
        "peek(0, 1)\n"
        "finalize([name for name in dir(helpers) if callable(getattr(helpers, name)) and name[0] != '_'])"
    )
    result = await run(ScriptedModel.of(root=[block(code)]))
    assert set(result.answer) - {"namespace"} == set(NAMES)


async def test_pythons_help_describes_helpers_and_tools(run, block) -> None:
    def price(name: str) -> float:
        """Return the price of an article."""
        return 2.5 if name == "bolt" else 0.0

    code = "for one in (search, sub_query, finalize, price): help(one)"
    model = ScriptedModel.of(root=[block(code), block("peek(0, 1)\nfinalize('done')")])
    await run(model, tools=[price])
    shown = model.requests[1].messages[-1].content
    by_name = {helper.name: helper for helper in HELPERS}
    for name in ("search", "sub_query", "finalize"):
        assert f"{name}{bare_signature(own(by_name[name]))}" in shown
        assert by_name[name].example.splitlines()[0] in shown
    assert "Return the price of an article." in shown


async def test_every_example_runs(run, block, tree) -> None:
    """Each example runs where what it is about is there: hits, chunks and answers."""
    (tree / "terms.txt").write_text("Fees may be terminated by either party.\nA refund of 3 USD.\n" * 20)
    rows = "".join(f"{day},open,{day}\n" for day in range(60))
    (tree / "orders.csv").write_text(f"order,status,days\n{rows}")
    code = "\n".join(
        [
            "hits = search('refund')",
            "chunks = chunk(max_chars=200)",
            "names, slices = ['Ann'], [hits[0]]",
            "answers = sub_query_batch('dates', chunks, schema=list[dict[str, str]])",
            "failed = []",
            "for name, example in EXAMPLES.items():",
            "    try:",
            "        exec(example, globals())",
            "    except Exception as error:",
            "        failed.append([name, repr(error)])",
            "finalize(failed)",
        ]
    )
    examples = {one.name: one.example for one in HELPERS if one.name not in ("look", "finalize", "output_of")}
    model = ScriptedModel.of(
        root=[block(f"EXAMPLES = {examples!r}\n{code}"), *[block("peek(0, 1)\nfinalize('both')")] * 3],
        child=['[{"date": "May", "amount": "3"}]'] * 60,
    )
    result = await run(model, context=tree)
    assert result.answer == []


def test_the_reference_names_the_helpers() -> None:
    reference = (Path(__file__).parents[3] / "docs" / "reference" / "helpers.md").read_text()
    assert [name for name in NAMES if f"| `{name}` | `{name}(" not in reference] == []


@pytest.mark.parametrize(("calls", "told"), [(0, "- children: none: "), (7, "- children: 7 calls of ")])
async def test_a_root_without_children_is_told_so(calls: int, told: str, run, block) -> None:
    model = ScriptedModel.of(root=[block("peek(0, 1)\nfinalize('done')")])
    await run(model, limits=Limits(max_calls=calls))
    (first,) = model.requests
    assert told in first.messages[-1].content
