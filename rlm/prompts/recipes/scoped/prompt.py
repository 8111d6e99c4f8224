"""Build a scoped prompt: six layers of stored segments and four dynamic layers, within a budget."""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, cast

from rlm.prompts.errors import ScopedInputError
from rlm.prompts.prompt import JOINER
from rlm.prompts.recipes.scoped.input import Npc, ScopedInput
from rlm.prompts.recipes.scoped.ladder import assemble_layers, layer_order
from rlm.prompts.recipes.scoped.layers import LayerSource, StaticLayers
from rlm.prompts.recipes.scoped.report import AssembledScoped, NpcTierDrop, ScopedMeta, Truncation
from rlm.prompts.segments.adapter import DbAdapter
from rlm.prompts.segments.scopes import LAYERS
from rlm.prompts.tokens.counters import Counter, get_counter

__all__ = [
    "AssembledScoped",
    "Npc",
    "NpcTierDrop",
    "ScopedInput",
    "ScopedMeta",
    "ScopedPrompt",
    "Truncation",
]

_MAX_RESULTS = 32


class ScopedPrompt:
    """Builds prompts from an adapter's segments. Thread-safe.

    Static layers are fetched in parallel and cached while the adapter's revision stays the same. Results for
    equal content are cached too. Tokens are `counter`'s, by default a quarter of the characters, rounded up.

    `orders` are the orders of layers by the type of an entry (`ScopedInput.entry_type`). Layers that an order
    does not name follow in the usual order. Stored layers always come before dynamic ones. Raises
    ScopedInputError for an unknown layer.
    """

    def __init__(
        self,
        adapter: DbAdapter,
        *,
        counter: Counter | None = None,
        orders: Mapping[str, Sequence[str]] | None = None,
    ) -> None:
        if not isinstance(cast(object, orders), Mapping | None):
            raise ScopedInputError((f"orders is {orders!r}: give the layers by the type of an entry",))
        self._orders = {kind: layer_order(kind, order) for kind, order in (orders or {}).items()}
        self._source = LayerSource(adapter)
        self._counter = counter or get_counter("chars4_ceil")
        self._results: OrderedDict[object, AssembledScoped] = OrderedDict()
        self._lock = threading.Lock()

    def assemble(self, given: ScopedInput | Mapping[str, Any]) -> AssembledScoped:
        """Return layers core, ruleset, world, entry, entry_start, npc, game_state, player, rng and input.

        core and ruleset are never cut. If they alone exceed the budget, `report.over_budget` is set. Raises
        ScopedInputError with every fault, and AdapterFailed naming the scope.
        """
        if not isinstance(given, ScopedInput):
            given = ScopedInput.from_json(given)
        faults = given.faults()
        if faults:
            raise ScopedInputError(tuple(faults))
        layers = self._source.fetch(
            given.entry_point_id, given.world_id, given.is_first_turn, [npc.id for npc in given.npcs]
        )
        key = (given, _content(layers))
        with self._lock:
            if key in self._results:
                self._results.move_to_end(key)
                return self._results[key]
        made = assemble_layers(given, layers, self._counter, self._orders.get(given.entry_type, LAYERS))
        with self._lock:
            self._results[key] = made
            while len(self._results) > _MAX_RESULTS:
                self._results.popitem(last=False)
        return made

    def stream(self, given: ScopedInput | Mapping[str, Any]) -> Iterator[str]:
        """Yield the prompt layer by layer. The parts joined are the text of `assemble`."""
        joiner = ""
        for section in self.assemble(given).sections:
            if section.content:
                yield joiner + section.content
                joiner = JOINER

    def forget(self) -> None:
        """Clear the cache. Call it after writing to a store's tables without the store."""
        self._source.forget()


def _content(layers: StaticLayers) -> object:
    """Return everything in the layers that a prompt depends on, as a hashable value."""
    stretches = [*(segments for _, segments in layers.by_scope), *layers.by_npc]
    return tuple(
        tuple(
            (segment.id, segment.tier, segment.content, segment.cue, segment.short, segment.requires)
            for segment in stretch
        )
        for stretch in stretches
    )
