"""Test that the kernel, the root's prompt and the documents have the helpers of one list."""

from __future__ import annotations

import inspect
import re
from pathlib import Path

import pytest

from rlm.driver.root_helpers import root_helpers, root_notes
from rlm.prompts import HandleFacts, RootInput, RootPrompt
from rlm.sandbox.in_kernel.context_handle.handle import Handle
from rlm.sandbox.in_kernel.helper_api.argument_hints import ARGUMENT_ALIASES
from rlm.sandbox.in_kernel.helper_api.data_views import DataViews
from rlm.sandbox.in_kernel.helper_api.help import HelpDesk
from rlm.sandbox.in_kernel.helper_api.helpers import Helpers
from rlm.sandbox.in_kernel.helper_api.registry import HELPERS, NAMES

ROOT = RootPrompt().assemble(
    RootInput(
        task="x",
        helpers=root_helpers("full", several=True, looks=True),
        notes=root_notes(),
        handle=HandleFacts(chars=1, lines=1),
    )
)


def function_of(name: str):
    """Return the function of a helper."""
    return next(
        getattr(owner, name) for owner in (Helpers, Handle, DataViews, HelpDesk) if hasattr(owner, name)
    )


def bare(function) -> str:
    """Return the signature that a cell sees: no self, no annotations."""
    signature = inspect.signature(function)
    parameters = [
        parameter.replace(annotation=inspect.Parameter.empty)
        for name, parameter in signature.parameters.items()
        if name != "self"
    ]
    return str(signature.replace(parameters=parameters, return_annotation=inspect.Signature.empty))


@pytest.mark.parametrize("helper", HELPERS, ids=NAMES)
def test_a_helper_has_the_signature_it_is_listed_with(helper) -> None:
    """Every listed helper is in the kernel, with the listed signature and defaults."""
    function = function_of(helper.name)
    assert bare(function) == helper.signature


def test_every_guess_is_of_a_parameter_that_there_is() -> None:
    """A guessed name stands for a parameter of the helper, and is not one itself."""
    taken = {name: set(inspect.signature(function_of(name)).parameters) for name in NAMES}
    assert set(ARGUMENT_ALIASES) <= set().union(*taken.values())
    for own, guesses in ARGUMENT_ALIASES.items():
        assert own not in guesses
        assert len(set(guesses)) == len(guesses)


@pytest.mark.parametrize("helper", [helper for helper in HELPERS if not helper.on_demand])
def test_a_helper_is_in_the_roots_prompt(helper) -> None:
    assert helper.call in ROOT.system
    assert helper.summary in ROOT.system
    assert not helper.fields or f"[{', '.join(helper.fields)}]" in ROOT.system


async def test_the_kernel_holds_exactly_the_listed_helpers(run, block) -> None:
    from rlm.testing import ScriptedModel

    code = (
        "peek(0, 1)\n"
        "finalize([name for name in dir(helpers) if callable(getattr(helpers, name)) and name[0] != '_'])"
    )
    result = await run(ScriptedModel.of(root=[block(code)]))
    assert set(result.answer) - {"namespace"} == set(NAMES)


def test_the_prompt_calls_nothing_else() -> None:
    """Every call in the prompt's examples is a helper, a method of a value, or Python's own."""
    examples = "\n".join(re.findall(r"```repl\n(.*?)\n```", ROOT.system, re.DOTALL))
    called = set(re.findall(r"(?<![\w.])(\w+)\(", examples))
    assert called <= set(NAMES) | {"print", "len"}
    assert called & set(NAMES)


@pytest.mark.parametrize(
    ("name", "example"),
    [
        ("context_meta", None),
        ("search", "search('o')[0]"),
        ("documents", "documents()[0]"),
        ("chunk", "chunk(5)[0]"),
        ("rank", "rank('two')[0]"),
        ("read_lines", "{key: read_lines()[0][key] for key in ('number', 'start', 'end', 'text')}"),
        ("chunk_coverage", "chunk_coverage(chunk(5))"),
        ("section_at", "section_at(0)"),
        ("evaluate_progress", "evaluate_progress()"),
    ],
)
async def test_a_record_has_the_fields_it_is_listed_with(run, block, name, example) -> None:
    """The prompt lists the fields of every returned record."""
    from rlm.testing import ScriptedModel

    code = f"peek(0, 1)\nfinalize(list(({example or name + '()'}).keys()))"
    result = await run(ScriptedModel.of(root=[block(code)]))
    (helper,) = [helper for helper in HELPERS if helper.name == name]
    assert tuple(result.answer) == helper.fields


def test_the_documents_name_the_helpers() -> None:
    readme = (Path(__file__).parents[3] / "README.md").read_text()
    reference = (Path(__file__).parents[3] / "docs" / "reference" / "helpers.md").read_text()
    assert [name for name in NAMES if f"| `{name}` | `{name}(" not in reference] == []
    assert {"peek", "search", "chunk"} <= set(re.findall(r"`(\w+)`", readme)) & set(NAMES)
