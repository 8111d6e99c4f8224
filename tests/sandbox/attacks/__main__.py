"""`python -m attacks [LEVEL…] [--only WORD]` tries attacks; `--table` prints what each level should stop."""

from __future__ import annotations

import argparse
import asyncio
import os
import sys

from rlm.sandbox.errors import SandboxRefused
from rlm.sandbox.isolation.policy import LEVELS

from .catalogue import Attack, catalogue, markdown
from .runner import WAYS, Runner, Way
from .world import World


def main() -> int:
    parser = argparse.ArgumentParser(prog="attacks", description=__doc__)
    parser.add_argument("levels", nargs="*", type=int)
    parser.add_argument("--only", default="", help="attacks whose category or name holds this")
    parser.add_argument("--table", action="store_true", help="print what each level should stop")
    chosen = parser.parse_args()
    if chosen.table:
        print(markdown())
        return 0
    broken = 0
    for level, way in WAYS:
        if level in (chosen.levels or LEVELS):
            broken += asyncio.run(_level(level, way, chosen.only))
    return 1 if broken else 0


async def _level(level: int, way: Way, only: str) -> int:
    broken = 0
    with World() as world:
        runner = Runner(world, level, way)
        for category in catalogue():
            selected = [one for one in category.attacks if only in f"{one.category}/{one.name}"]
            together = [one for one in selected if not one.alone]
            groups: list[list[Attack]] = [[one] for one in selected if one.alone]
            for group in [together, *groups] if together else groups:
                try:
                    outcomes = await runner.run(group)
                except SandboxRefused as error:
                    print(f"level {level} by {way} can't be had here: {error}")
                    return 0
                for outcome in outcomes:
                    unexpected = outcome.broken(root=os.getuid() == 0)
                    print("***" if unexpected else "   ", outcome.line, flush=True)
                    broken += unexpected
    return broken


if __name__ == "__main__":
    sys.exit(main())
