"""Define the input of a scoped prompt."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import fields
from typing import Any

from rlm.lazy_dataclass import dataclass
from rlm.prompts.errors import InputError, ScopedInputError
from rlm.prompts.json_input import Record

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
        try:
            given = Record(value)
        except InputError as error:
            raise ScopedInputError((str(error),)) from None
        faults: list[str] = []
        asked = cls(
            entry_point_id=_read(given.text, "entry_point_id", faults, "?"),
            world_id=_read(given.text, "world_id", faults, "?"),
            is_first_turn=_read(given.flag, "is_first_turn", faults, False, False),
            token_budget=_read(given.whole, "token_budget", faults, 8000, 8000),
            npc_budget=_read(given.whole, "npc_budget", faults, 600, 600),
            npcs=_npcs(given, faults),
            **{layer: _layer(given.value.get(layer), layer, faults) for layer in _DYNAMIC},
            entry_type=_read(given.text, "entry_type", faults, "", ""),
            warnings=given.unknown_keys([field.name for field in fields(cls) if field.name != "warnings"]),
        )
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


def _read(read: Callable[..., Any], key: str, faults: list[str], harmless: Any, *default: Any) -> Any:
    """Return the value that `read` gives, or record its fault and return a harmless value."""
    try:
        return read(key, *default)
    except InputError as error:
        faults.append(str(error))
        return harmless


def _layer(value: Any, layer: str, faults: list[str]) -> str:
    """Return the text of a dynamic layer. Anything but a text is rendered as JSON."""
    if value is None or isinstance(value, str):
        return value or ""
    try:
        return json.dumps(value, ensure_ascii=False, indent=2)
    except RecursionError:
        faults.append(f"$.{layer} is nested too deeply: give fewer levels")
    except (TypeError, ValueError) as error:
        faults.append(f"$.{layer} is no JSON ({error}): give a text, or plain objects, lists and numbers")
    return ""


def _npcs(given: Record, faults: list[str]) -> tuple[Npc, ...]:
    made = []
    for number, value in enumerate(_read(given.each, "npcs", faults, (), lambda value, _: value)):
        path = f"$.npcs[{number}]"
        try:
            npc = Record(value, path, what="an object {id, name?, tier?}")
        except InputError as error:
            faults.append(str(error))
            continue
        name = _read(npc.text, "id", faults, f"?{number}")
        made.append(
            Npc(name, _read(npc.text_or_none, "name", faults, None), _read(npc.whole, "tier", faults, 0, 0))
        )
    return tuple(made)
