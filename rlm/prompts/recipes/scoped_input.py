"""Define the input of a scoped prompt."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import fields
from typing import Any

from rlm.lazy_dataclass import dataclass
from rlm.prompts.errors import ScopedInputError

__all__ = ["Npc", "ScopedInput"]

_MIN_BUDGET = 100
_MIN_NPC_BUDGET = 50
_DYNAMIC = ("game_state", "player", "rng", "input")


@dataclass(frozen=True, slots=True)
class Npc:
    """A character that is present, most important first. Its segments up to `tier` are used."""

    id: str
    name: str | None = None
    tier: int = 0


@dataclass(frozen=True, slots=True)
class ScopedInput:
    """One turn. `token_budget` limits the prompt, `npc_budget` its block of characters, both in tokens.

    `entry_type` chooses one of the prompt's orders of layers.

    The last four texts are the dynamic layers; blank ones are left out. `warnings` are copied to the report.
    """

    entry_point_id: str
    world_id: str
    is_first_turn: bool = False
    token_budget: int = 8000
    npc_budget: int = 600
    npcs: tuple[Npc, ...] = ()
    game_state: str = ""
    player: str = ""
    rng: str = ""
    input: str = ""
    entry_type: str = ""
    warnings: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        object.__setattr__(self, "npcs", tuple(self.npcs))  # accept a list, and keep it immutable

    @classmethod
    def from_json(cls, value: object) -> ScopedInput:
        """Read `{entry_point_id, world_id, is_first_turn, token_budget, npc_budget?, npcs: [{id, name?,
        tier?}], game_state, player, rng, input, entry_type?}`.

        A dynamic layer may be any JSON; anything but a string is rendered as JSON. Raises ScopedInputError
        with every fault.
        """
        if not isinstance(value, Mapping):
            raise ScopedInputError(
                ("the input is not an object: give entry_point_id, world_id and the rest",)
            )
        faults: list[str] = []
        known = {field.name: field.default for field in fields(cls) if field.name != "warnings"}
        chosen: dict[str, Any] = {}
        for key, default in known.items():
            given = value.get(key)
            if given is None:
                if key.endswith("_id"):
                    faults.append(f"{key} is missing: give the id")
                    given = "?"
                else:
                    given = default
            elif key == "npcs":
                given = _npcs(given, faults)
            elif key in _DYNAMIC:
                given = given if isinstance(given, str) else _as_json(key, given, faults)
            else:
                given = _check_type(key, given, faults)
            chosen[key] = given
        unread = tuple(
            f"{key} is unknown and was ignored; known keys: {', '.join(known)}"
            for key in value
            if key not in known
        )
        asked = cls(**chosen, warnings=unread)
        faults += asked.faults()
        if faults:
            raise ScopedInputError(tuple(faults))
        return asked

    def faults(self) -> list[str]:
        """Return every fault of these values, one line each."""
        faults = [
            f"{name} is empty: give the id"
            for name, text in (("entry_point_id", self.entry_point_id), ("world_id", self.world_id))
            if not text.strip()
        ]
        if self.token_budget < _MIN_BUDGET:
            faults.append(f"token_budget is {self.token_budget}: use {_MIN_BUDGET} tokens or more")
        if self.npc_budget < _MIN_NPC_BUDGET:
            faults.append(f"npc_budget is {self.npc_budget}: use {_MIN_NPC_BUDGET} tokens or more")
        seen: set[str] = set()
        for place, npc in enumerate(self.npcs):
            if not npc.id.strip():
                faults.append(f"npcs[{place}].id is empty: give the id")
            elif npc.id in seen:
                faults.append(f"npcs[{place}].id is {npc.id!r} again: name every character once")
            if npc.tier < 0:
                faults.append(f"npcs[{place}].tier is {npc.tier}: use 0 or more")
            seen.add(npc.id)
        return faults


def _as_json(key: str, value: object, faults: list[str]) -> str:
    """Return the value as JSON, or record a fault and return ""."""
    try:
        return json.dumps(value, ensure_ascii=False, indent=2)
    except RecursionError:
        faults.append(f"{key} is nested too deeply: give fewer levels")
    except (TypeError, ValueError) as error:
        faults.append(f"{key} is no JSON ({error}): give a text, or plain objects, lists and numbers")
    return ""


_TYPES: dict[str, tuple[type, str, Any]] = {
    "entry_point_id": (str, "a text", "?"),
    "world_id": (str, "a text", "?"),
    "entry_type": (str, "a text", ""),
    "is_first_turn": (bool, "true or false", False),
    "token_budget": (int, "a whole number", 8000),
    "npc_budget": (int, "a whole number", 600),
}


def _check_type(key: str, value: Any, faults: list[str]) -> Any:
    """Return the value, or record a fault and return a harmless value."""
    kind, wanted, harmless = _TYPES[key]
    if isinstance(value, kind) and (kind is bool or not isinstance(value, bool)):
        return value
    faults.append(f"{key} is {str(value)[:40]!r}: give {wanted}")
    return harmless


def _npcs(value: Any, faults: list[str]) -> tuple[Npc, ...]:
    if not isinstance(value, list):
        faults.append("npcs is not a list: give [{id, name?, tier?}]")
        return ()
    made = []
    for place, entry in enumerate(value):
        where = f"npcs[{place}]"
        if not isinstance(entry, Mapping):
            faults.append(f"{where} is not an object: give {{id, name?, tier?}}")
            continue
        name, label, tier = entry.get("id"), entry.get("name"), entry.get("tier")
        if not isinstance(name, str):
            faults.append(f"{where}.id is missing or not a text: give the id")
            name = f"?{place}"
        if label is not None and not isinstance(label, str):
            faults.append(f"{where}.name is not a text: give a text, or leave it out")
            label = None
        if tier is not None and (not isinstance(tier, int) or isinstance(tier, bool)):
            faults.append(f"{where}.tier is {str(tier)[:40]!r}: give a whole number, or leave it out")
            tier = None
        made.append(Npc(name, label, tier or 0))
    return tuple(made)
