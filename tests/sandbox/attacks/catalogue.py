"""Load the attacks from the TOML files of this folder."""

from __future__ import annotations

import platform
import tomllib
from dataclasses import dataclass
from pathlib import Path

__all__ = ["LEVELS", "Attack", "Category", "catalogue", "markdown", "prelude"]

LEVELS = (0, 1, 2, 3)
_FOLDER = Path(__file__).parent


@dataclass(frozen=True, slots=True)
class Attack:
    """One hostile cell. It succeeded if it says so (by `through()`, for effects that only it can see), or if
    the world around it was read, reached, changed, or left with remains.

    through: the levels that do not stop it. through_as_root: those that do not if root starts the kernel.
    harmful: it would harm the machine where it is not stopped, so it is not tried there. alone: it needs
    its own kernel. idle: the kernel must not compute once the cell has ended. seconds: the cell's deadline.
    machine: the only architecture it is written for.
    """

    category: str
    name: str
    code: str
    through: frozenset[int] = frozenset()
    through_as_root: frozenset[int] = frozenset()
    harmful: bool = False
    alone: bool = False
    idle: bool = False
    seconds: float = 2.0
    machine: str = ""
    why: str = ""

    def stopped_at(self, level: int, *, root: bool) -> bool:
        """Return whether `level` should stop it."""
        return level not in self.through and not (root and level in self.through_as_root)

    def skipped_at(self, level: int, *, root: bool) -> str:
        """Return why it is not tried, or an empty text."""
        if self.machine and self.machine != platform.machine():
            return f"written for {self.machine}"
        if self.harmful and not self.stopped_at(level, root=root):
            return "it would harm this machine"
        return ""


@dataclass(frozen=True, slots=True)
class Category:
    """The attacks of one file."""

    name: str
    title: str
    attacks: tuple[Attack, ...]


def catalogue() -> tuple[Category, ...]:
    """Return every attack, by category."""
    return tuple(_category(path) for path in sorted(_FOLDER.glob("*.toml")))


def prelude() -> str:
    """Return the code that goes before each attack: what every attacker is assumed to know."""
    return (_FOLDER / "prelude.py").read_text(encoding="utf-8")


def markdown() -> str:
    """Return the table for readers: what each level stops."""
    lines = []
    for category in catalogue():
        lines += [
            f"### {category.title}",
            "",
            f"| attack | {' | '.join(map(str, LEVELS))} |",
            "| --- | --- | --- | --- | --- |",
        ]
        for attack in category.attacks:
            cells = " | ".join(_verdict(attack, level) for level in LEVELS)
            lines.append(f"| {attack.name}{f' ({attack.why})' if attack.why else ''} | {cells} |")
        lines.append("")
    return "\n".join(lines)


def _verdict(attack: Attack, level: int) -> str:
    if not attack.stopped_at(level, root=False):
        return "no"
    return "stopped" if attack.stopped_at(level, root=True) else "not for root"


def _category(path: Path) -> Category:
    data = tomllib.loads(path.read_text(encoding="utf-8"))
    attacks = []
    for row in data["attack"]:
        sets = {key: frozenset(row.pop(key, ())) for key in ("through", "through_as_root")}
        attacks.append(Attack(category=path.stem, **row, **sets))
    return Category(path.stem, data["title"], tuple(attacks))
