"""Test the attack suite at every level of this machine: each is stopped where its catalogue says so."""

from __future__ import annotations

import importlib.util
import os
import sys
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from rlm.sandbox.errors import SandboxRefused


def _load() -> dict[str, ModuleType]:
    """Load the package of this folder, which is on no import path."""
    folder = Path(__file__).parent / "attacks"
    spec = importlib.util.spec_from_file_location(
        "attacks", folder / "__init__.py", submodule_search_locations=[str(folder)]
    )
    assert spec is not None
    assert spec.loader is not None
    sys.modules["attacks"] = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(sys.modules["attacks"])
    names = ("catalogue", "runner", "world")
    return {name: importlib.import_module(f"attacks.{name}") for name in names}


_modules = _load()
catalogue = _modules["catalogue"].catalogue()
WAYS = _modules["runner"].WAYS
ROOT = os.getuid() == 0
SIDE_BY_SIDE = 6
GREEDY = ("frames", "output")
"""Categories of attacks on the driver's memory, which is measured for all that run at once."""


def _groups() -> list[tuple[str, tuple[Any, ...]]]:
    """Group the attacks: some share a kernel, and the others have one each, a few at a time."""
    groups = []
    for category in catalogue:
        together = tuple(attack for attack in category.attacks if not attack.alone)
        if together:
            groups.append((category.name, together))
        alone = [attack for attack in category.attacks if attack.alone]
        some = 1 if category.name in GREEDY else SIDE_BY_SIDE
        for at in range(0, len(alone), some):
            groups.append((f"{category.name}-{1 + at // some}", tuple(alone[at : at + some])))
    return groups


@pytest.fixture(scope="module")
def world(tmp_path_factory) -> Iterator[Any]:
    # pytest makes its folder at its first use, in the temp folder of that moment. That one ends here.
    tmp_path_factory.getbasetemp()
    with _modules["world"].World() as world:
        yield world


@pytest.mark.parametrize(("level", "way"), WAYS, ids=[f"{level}-{way}" for level, way in WAYS])
@pytest.mark.parametrize(("name", "attacks"), _groups(), ids=[name for name, _ in _groups()])
async def test_attacks_are_stopped(world, name, attacks, level, way) -> None:
    """The same suite runs against each level, and at level 2 against each way to launch a kernel."""
    try:
        runner = _modules["runner"].Runner(world, level, way)
        if not attacks[0].alone:
            outcomes = await runner.run(attacks)
        elif ROOT or level >= 2:
            outcomes = await runner.run_side_by_side(attacks)
        else:
            # Here all processes of a user count together: kernels side by side would starve each other.
            outcomes = [outcome for attack in attacks for outcome in await runner.run_side_by_side([attack])]
    except SandboxRefused as error:
        pytest.skip(f"level {level} by {way} can't be had on this machine: {error}")
    for outcome in outcomes:
        print(outcome.line)
    through = [outcome.line for outcome in outcomes if outcome.broken(root=ROOT)]
    assert not through, "\n".join(through)
    skipped = [f"{outcome.attack.name} ({outcome.skipped})" for outcome in outcomes if outcome.skipped]
    if skipped:
        pytest.skip(f"all others of {name} were stopped; not tried at level {level}: {', '.join(skipped)}")


def test_the_suite_is_large_and_its_names_are_unique() -> None:
    """The suite has at least 40 attacks. The page on security states their number."""
    names = [attack.name for category in catalogue for attack in category.attacks]
    assert len(names) == len(set(names)) >= 150
    page = Path(__file__).parents[2] / "docs" / "security.md"
    assert f"The test suite runs {len(names)} attacks in" in page.read_text(encoding="utf-8")
    for category in catalogue:
        for attack in category.attacks:
            assert attack.through <= {0, 1} or attack.why, f"{attack.name}: say why level 2 does not stop it"
