"""Turn the layers of a scoped prompt into sections, and shrink them step by step.

Most steps follow from priorities alone, because the pipeline fills less important layers later: input is
trimmed first, then rng dropped, player trimmed, game_state compressed and npc reduced. This module adds two
steps: characters become single lines, and static layers other than core and ruleset are dropped.
"""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from dataclasses import replace
from typing import cast

from rlm.prompts.assembly.assembler import assemble
from rlm.prompts.assembly.budget import Budget
from rlm.prompts.assembly.policy import NEVER, Compress, Drop, Policy, StopFirst, TierDown, Trim
from rlm.prompts.assembly.section import Item, Section, Stability
from rlm.prompts.assembly.trim import trim_text
from rlm.prompts.errors import ScopedInputError
from rlm.prompts.prompt import JOINER, AssembledPrompt, Decision
from rlm.prompts.recipes.scoped.input import Npc, ScopedInput
from rlm.prompts.recipes.scoped.layers import StaticLayers
from rlm.prompts.recipes.scoped.report import AssembledScoped, NpcTierDrop, ScopedMeta, Truncation
from rlm.prompts.segments.scopes import LAYERS, SCOPES
from rlm.prompts.segments.segment import Segment
from rlm.prompts.tokens.counters import Counter

__all__ = ["assemble_layers", "layer_order"]

_SEVERE = 1.5  # times the budget, above which static layers are dropped
_DROP_ORDER = ("entry_start", "world", "entry")  # in this order
_FLOOR = 32  # tokens kept free for a layer while more important ones are filled
_PRIORITIES = {"npc": 50, "game_state": 40, "player": 30, "rng": 20, "input": 10}
_POLICIES: dict[str, tuple[Policy, ...]] = {
    "npc": (TierDown(), StopFirst()),
    "game_state": (Compress(), Trim("middle")),
    "player": (Trim("head"),),
    "input": (Trim("sentence"),),
}
_STABILITIES: dict[str, Stability] = {
    "core": "static",
    "ruleset": "static",
    "game_state": "turn",
    "player": "turn",
    "rng": "volatile",
    "input": "volatile",
}
_BLANKS = re.compile(r"(?<=\S)[ \t]{2,}")
_JSON_SPACE = re.compile(r'("(?:[^"\\]|\\.)*")|\s+')


def layer_order(kind: str, order: Sequence[str]) -> tuple[str, ...]:
    """Return all layers in the order given, with those it does not name after it. Raises ScopedInputError."""
    if not isinstance(cast(object, order), list | tuple):
        raise ScopedInputError((f"the order of {kind!r} is {order!r}: give a list of layers",))
    faults = [
        f"the order of {kind!r} names the layer {layer!r}: use each of {', '.join(LAYERS)} once at most"
        for place, layer in enumerate(order)
        if layer not in LAYERS or layer in order[:place]
    ]
    if faults:
        raise ScopedInputError(tuple(faults))
    named = (*order, *(layer for layer in LAYERS if layer not in order))
    return tuple(sorted(named, key=lambda layer: layer not in SCOPES))


def assemble_layers(
    given: ScopedInput, layers: StaticLayers, counter: Counter, order: Sequence[str] = LAYERS
) -> AssembledScoped:
    """Return the prompt of these layers in that order. Pure."""
    ladder = _Ladder(given, layers, counter, order)
    prompt = ladder.attempt()
    total = given.token_budget
    if prompt.report.over_budget and prompt.report.totals.prompt > total * _SEVERE:
        for scope in _DROP_ORDER:
            if ladder.has(scope) and prompt.report.over_budget:
                ladder.dropped.add(scope)
                prompt = ladder.attempt()
    if prompt.report.over_budget and ladder.has("input"):
        prompt = ladder.keep_some_input(prompt)
    return ladder.finish(prompt)


class _Ladder:
    """One prompt while its layers are reduced."""

    def __init__(
        self, given: ScopedInput, layers: StaticLayers, counter: Counter, order: Sequence[str]
    ) -> None:
        self._given = given
        self._layers = layers
        self._counter = counter
        self._order = order
        self._lacking: dict[str, str] = {}
        self._items: dict[str, tuple[Item, ...]] = {}
        self._npc_segments: list[tuple[Npc, tuple[Segment, ...]]] = []
        self._skipped: dict[str, str] = {}
        for npc, segments in zip(given.npcs, layers.by_npc, strict=True):
            used = tuple(segment for segment in segments if (segment.tier or 0) <= npc.tier)
            if used:
                self._npc_segments.append((npc, used))
            else:
                lack = f"no segment of tier {npc.tier} or below" if segments else "no segment"
                self._skipped[npc.id] = f"npc {npc.id!r} was skipped: it has {lack}"
        self._cues = False
        self.dropped: set[str] = set()
        self._dynamic_items: dict[str, tuple[Item, ...]] = {
            "game_state": _dynamic("game_state", given.game_state, _compact(given.game_state)),
            "player": _dynamic("player", given.player),
            "rng": _dynamic("rng", given.rng),
            "input": _dynamic("input", given.input),
        }
        self._drop_dependents({segment.id for scope in SCOPES for segment in self._segments(scope)})
        self._estimated = counter.count(
            JOINER.join(
                section.prefix + section.separator.join(item.text for item in section.items) + section.suffix
                for section in self._sections(None)
                if section.items
            )
        )

    def has(self, layer: str) -> bool:
        """Return whether the layer has any content."""
        return bool(self._items_of(layer))

    def attempt(self, some_input: str | None = None) -> AssembledPrompt:
        """Assemble the layers as they are now, without segments whose requirements are left out.

        If there is no room for even the first character, each character becomes one line.
        """
        budget = Budget(self._given.token_budget, counter=self._counter)
        while True:
            self._cues = False
            prompt = assemble(self._sections(some_input), budget, may_exceed=True)
            if self.has("npc") and not _section_text(prompt, "npc"):
                self._cues = True
                prompt = assemble(self._sections(some_input), budget, may_exceed=True)
            if not self._drop_dependents(_included_ids(prompt)):
                return prompt

    def keep_some_input(self, over: AssembledPrompt) -> AssembledPrompt:
        """Keep the beginning of the request, even in a prompt that exceeds its budget."""
        text = self._items_of("input")[0].text
        some = trim_text(text, _FLOOR, "sentence", self._counter.count)
        if some is None:
            return over
        prompt = self.attempt(some)
        decisions = tuple(
            Decision(
                "input",
                "input",
                "trimmed",
                "only its beginning: the prompt exceeds its budget",
                self._counter.count(text),
                decision.tokens_after,
            )
            if decision.section == "input" and some != text
            else decision
            for decision in prompt.report.decisions
        )
        return replace(prompt, report=replace(prompt.report, decisions=decisions))

    def finish(self, prompt: AssembledPrompt) -> AssembledScoped:
        """Return the prompt with its meta, and warnings in its report."""
        warnings = [*self._given.warnings, *self._skipped.values(), *self._lacking.values()]
        if self._cues and _section_text(prompt, "npc"):
            warnings.append(
                "there was no room for the characters' segments: each character is one line at most"
            )
        if prompt.report.over_budget:
            warnings.append(
                f"the prompt exceeds its budget of {self._given.token_budget:,} tokens: "
                "shorten its static layers, or raise token_budget"
            )
        report = replace(prompt.report, warnings=(*warnings, *prompt.report.warnings))
        included = _included_ids(prompt)
        ids = {
            scope: tuple(segment.id for segment in self._segments(scope) if segment.id in included)
            for scope in SCOPES
        }
        return AssembledScoped(
            sections=prompt.sections,
            report=report,
            meta=ScopedMeta(
                segment_ids_by_scope=ids,
                order=report.order,
                tokens_estimated=self._estimated,
                tokens_after=report.totals.prompt,
                truncated=self._truncation(prompt, report.decisions, set(ids["npc"])),
                over_budget=report.over_budget,
                skipped_npcs=tuple(self._skipped),
            ),
        )

    def _truncation(
        self, prompt: AssembledPrompt, decisions: Sequence[Decision], npc_ids: set[str]
    ) -> Truncation | None:
        if not self._cues and all(row.status == "included" for row in decisions):
            return None
        fates = {row.id: row.status for row in decisions if row.section == row.id}
        lower = []
        for npc, used in self._npc_segments:
            before = max(segment.tier or 0 for segment in used)
            kept = [segment.tier or 0 for segment in used if segment.id in npc_ids]
            if len(kept) < len(used):
                lower.append(NpcTierDrop(npc.id, before, max(kept, default=None)))
        return Truncation(
            dropped_scopes=tuple(
                section.name for section in prompt.sections if self.has(section.name) and not section.content
            ),
            compressed_scopes=tuple(
                scope
                for scope in SCOPES
                if any(row.section == scope and row.status == "compressed" for row in decisions)
            ),
            npc_dropped_tiers=tuple(lower),
            input_trimmed=fates.get("input", "included") != "included",
            game_state_compressed=fates.get("game_state") in ("compressed", "trimmed"),
        )

    def _segments(self, scope: str) -> list[Segment]:
        """Return the segments of a scope that may be included, each after those that it requires."""
        if scope == "npc":
            used: Sequence[Segment] = [segment for _, used in self._npc_segments for segment in used]
        else:
            used = dict(self._layers.by_scope)[scope]
        return _required_first([segment for segment in used if segment.id not in self._lacking])

    def _drop_dependents(self, available: set[str]) -> bool:
        """Mark the segments that require one that is not available. Return whether there was any."""
        before = len(self._lacking)
        segments = [segment for scope in SCOPES for segment in self._segments(scope)]
        again = True
        while again:
            again = False
            for segment in segments:
                lacks = next((name for name in segment.requires if name not in available), None)
                if lacks is not None and segment.id in available:
                    available.discard(segment.id)
                    self._lacking[segment.id] = (
                        f"segment {segment.id} was left out: it requires {lacks}, which is not in the prompt"
                    )
                    again = True
        if len(self._lacking) == before:
            return False
        self._items.clear()
        return True

    def _items_of(self, layer: str) -> tuple[Item, ...]:
        if layer in self._dynamic_items:
            return self._dynamic_items[layer]
        if layer not in self._items:
            self._items[layer] = (
                self._npc_items()
                if layer == "npc"
                else _items(self._segments(layer), shorter=layer in _DROP_ORDER)
            )
        return self._items[layer]

    def _sections(self, some_input: str | None) -> list[Section]:
        return [self._section(place, layer, some_input) for place, layer in enumerate(self._order)]

    def _section(self, place: int, layer: str, some_input: str | None) -> Section:
        items, required = self._items_of(layer), layer in SCOPES and layer != "npc"
        policy: Policy | tuple[Policy, ...] = _POLICIES.get(layer, (NEVER,))
        bound = self._given.npc_budget if layer == "npc" else None
        kept_free = _FLOOR if layer in ("game_state", "player", "input") else 0
        separator = JOINER
        if layer in self.dropped:
            required, policy, bound = False, Drop(), 0
        elif required and any(item.variants for item in items):
            policy, kept_free = (Compress(),), self._shortest(items)
        elif layer == "npc" and self._cues:
            items, policy, separator = self._cue_items(), StopFirst(), "\n"
        elif layer == "input" and some_input is not None:
            items, required, policy = _dynamic("input", some_input), True, NEVER
        return Section(
            layer,
            role="system" if layer in SCOPES else "user",
            order=place,
            priority=_PRIORITIES.get(layer, 100 - LAYERS.index(layer)),
            required=required,
            min_tokens=kept_free,
            max_tokens=bound,
            policy=policy,
            stability=_STABILITIES.get(layer, "session"),
            items=items,
            prefix=f"<{layer}>\n",
            suffix=f"\n</{layer}>",
            separator=separator,
        )

    def _shortest(self, items: Sequence[Item]) -> int:
        """Return the tokens of a layer whose items are all in their shortest form."""
        texts = [min((item.text, *item.variants), key=self._counter.count) for item in items]
        return self._counter.count(f"<{'x' * 11}>\n{JOINER.join(texts)}\n</{'x' * 11}>")

    def _npc_items(self) -> tuple[Item, ...]:
        """Return a heading and the segments of each character, in one group per character."""
        items: list[Item] = []
        taken = {segment.id for _, used in self._npc_segments for segment in used}
        for place, (npc, segments) in enumerate(self._npc_segments):
            used = _required_first([segment for segment in segments if segment.id not in self._lacking])
            if not used:
                continue
            heading = f"npc {npc.id}"
            while heading in taken:
                heading += "'"
            texts = [(heading, f"## {_label(npc)}", None), *((s.id, s.content, s.tier) for s in used)]
            items += [
                Item(name, text, priority=-place, order=len(items) + step, tier=tier, group=npc.id)
                for step, (name, text, tier) in enumerate(texts)
            ]
        return tuple(items)

    def _cue_items(self) -> tuple[Item, ...]:
        items = []
        for place, (npc, segments) in enumerate(self._npc_segments):
            used = [segment for segment in segments if segment.id not in self._lacking]
            if not used:
                continue
            cue = next((segment.cue for segment in used if segment.cue), "")
            line = f"- {_label(npc)}" + (f": {cue}" if cue else "")
            items.append(Item(f"npc {npc.id}", line, priority=-place, order=place))
        return tuple(items)


def _included_ids(prompt: AssembledPrompt) -> set[str]:
    return {
        row.id
        for row in prompt.report.decisions
        if row.section in SCOPES and row.status in ("included", "compressed")
    }


def _section_text(prompt: AssembledPrompt, layer: str) -> str:
    return next(section.content for section in prompt.sections if section.name == layer)


def _required_first(segments: Sequence[Segment]) -> list[Segment]:
    """Return the segments in order, but each after those of them that it requires."""
    by_id = {segment.id: segment for segment in segments}
    placed: dict[str, Segment] = {}
    for segment in segments:
        path = [segment.id]
        while path:
            wanted = by_id[path[-1]].requires
            # One that is in the path requires itself in a circle, which has no first.
            name = next((name for name in wanted if name in by_id and name not in {*placed, *path}), None)
            if name is not None:
                path.append(name)
            else:
                placed.setdefault(path[-1], by_id[path.pop()])
    return list(placed.values())


def _items(segments: Sequence[Segment], *, shorter: bool) -> tuple[Item, ...]:
    """Return an item for each segment, with its author's short form if it may be compressed."""
    return tuple(
        Item(
            segment.id,
            segment.content,
            (segment.short,) if shorter and segment.short else (),
            order=place,
        )
        for place, segment in enumerate(segments)
    )


def _dynamic(layer: str, text: str, shorter: str | None = None) -> tuple[Item, ...]:
    if not text.strip():
        return ()
    return (Item(layer, text, variants=() if shorter is None else (shorter,)),)


def _label(npc: Npc) -> str:
    name = " ".join((npc.name or "").split())
    return f"{name} ({npc.id})" if name else npc.id


def _compact(text: str) -> str | None:
    """Return the same state in fewer characters, or None if there is nothing to save.

    JSON loses its white space. Other text loses blank lines and runs of blanks, but keeps its indentation,
    which may carry meaning.
    """
    try:
        json.loads(text)
    except (ValueError, RecursionError):
        lines = (line.rstrip() for line in text.splitlines())
        shorter = "\n".join(_BLANKS.sub(" ", line) for line in lines if line)
    else:
        shorter = _JSON_SPACE.sub(lambda match: match[1] or "", text)
    return shorter if len(shorter) < len(text) else None
