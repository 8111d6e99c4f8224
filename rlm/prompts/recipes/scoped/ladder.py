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

from rlm.prompts.assembly.assembler import AssembledPrompt, assemble
from rlm.prompts.assembly.budget import Budget
from rlm.prompts.assembly.policy import NEVER, Compress, Drop, Policy, StopFirst, TierDown, Trim
from rlm.prompts.assembly.render import JOINER
from rlm.prompts.assembly.report import Decision
from rlm.prompts.assembly.section import Item, Section, Stability
from rlm.prompts.assembly.trim import trim_text
from rlm.prompts.recipes.scoped.input import Npc, ScopedInput
from rlm.prompts.recipes.scoped.layers import StaticLayers
from rlm.prompts.recipes.scoped.report import AssembledScoped, NpcTierDrop, ScopedMeta, Truncation
from rlm.prompts.segments.scopes import LAYERS, SCOPES
from rlm.prompts.segments.segment import Segment
from rlm.prompts.tokens.counters import Counter

__all__ = ["assemble_layers"]

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


def assemble_layers(given: ScopedInput, layers: StaticLayers, counter: Counter) -> AssembledScoped:
    """Return the prompt of these layers. Pure."""
    ladder = _Ladder(given, layers, counter)
    prompt = ladder.attempt()
    total = given.token_budget
    if prompt.report.over_budget and prompt.report.totals.prompt > total * _SEVERE:
        for scope in _DROP_ORDER:
            if ladder.items[scope] and prompt.report.over_budget:
                ladder.dropped.add(scope)
                prompt = ladder.attempt()
    if prompt.report.over_budget and ladder.items["input"]:
        prompt = ladder.keep_some_input(prompt)
    return ladder.finish(prompt)


class _Ladder:
    """One prompt while its layers are reduced."""

    def __init__(self, given: ScopedInput, layers: StaticLayers, counter: Counter) -> None:
        self._given = given
        self._layers = layers
        self._counter = counter
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
        self.items: dict[str, tuple[Item, ...]] = {
            **{scope: _items(segments) for scope, segments in layers.by_scope},
            "npc": self._npc_items(),
            "game_state": _dynamic("game_state", given.game_state, _compact(given.game_state)),
            "player": _dynamic("player", given.player),
            "rng": _dynamic("rng", given.rng),
            "input": _dynamic("input", given.input),
        }
        self._estimated = counter.count(
            JOINER.join(
                section.prefix + section.separator.join(item.text for item in section.items) + section.suffix
                for section in self._sections(None)
                if section.items
            )
        )

    def attempt(self, some_input: str | None = None) -> AssembledPrompt:
        """Assemble the layers as they are now.

        If there is no room for even the first character, each character becomes one line.
        """
        budget = Budget(self._given.token_budget, counter=self._counter)
        self._cues = False
        prompt = assemble(self._sections(some_input), budget, may_exceed=True)
        if self.items["npc"] and not prompt.sections[LAYERS.index("npc")].text:
            self._cues = True
            prompt = assemble(self._sections(some_input), budget, may_exceed=True)
        return prompt

    def keep_some_input(self, over: AssembledPrompt) -> AssembledPrompt:
        """Keep the beginning of the request, even in a prompt that exceeds its budget."""
        text = self.items["input"][0].text
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
        warnings = [*self._given.warnings, *self._skipped.values()]
        if self._cues and prompt.sections[LAYERS.index("npc")].text:
            warnings.append(
                "there was no room for the characters' segments: each character is one line at most"
            )
        if prompt.report.over_budget:
            warnings.append(
                f"the prompt exceeds its budget of {self._given.token_budget:,} tokens: "
                "shorten its static layers, or raise token_budget"
            )
        report = replace(prompt.report, warnings=(*warnings, *prompt.report.warnings))
        decisions = {(row.section, row.id): row for row in report.decisions}
        ids = {
            scope: tuple(
                segment.id
                for segment in self._segments(scope)
                if (scope, segment.id) in decisions and decisions[scope, segment.id].status == "included"
            )
            for scope in SCOPES
        }
        return AssembledScoped(
            text=prompt.text,
            messages=prompt.messages,
            sections=prompt.sections,
            citations=prompt.citations,
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
                section.id for section in prompt.sections if self.items[section.id] and not section.text
            ),
            npc_dropped_tiers=tuple(lower),
            input_trimmed=fates.get("input", "included") != "included",
            game_state_compressed=fates.get("game_state") in ("compressed", "trimmed"),
        )

    def _segments(self, scope: str) -> Sequence[Segment]:
        if scope == "npc":
            return [segment for _, used in self._npc_segments for segment in used]
        return dict(self._layers.by_scope)[scope]

    def _sections(self, some_input: str | None) -> list[Section]:
        return [self._section(place, layer, some_input) for place, layer in enumerate(LAYERS)]

    def _section(self, place: int, layer: str, some_input: str | None) -> Section:
        items, required = self.items[layer], layer in SCOPES and layer != "npc"
        policy: Policy | tuple[Policy, ...] = _POLICIES.get(layer, (NEVER,))
        bound = self._given.npc_budget if layer == "npc" else None
        separator = JOINER
        if layer in self.dropped:
            required, policy, bound = False, Drop(), 0
        elif layer == "npc" and self._cues:
            items, policy, separator = self._cue_items(), StopFirst(), "\n"
        elif layer == "input" and some_input is not None:
            items, required, policy = _dynamic("input", some_input), True, NEVER
        return Section(
            layer,
            role="system" if layer in SCOPES else "user",
            order=place,
            priority=_PRIORITIES.get(layer, 100 - place),
            required=required,
            min_tokens=_FLOOR if layer in ("game_state", "player", "input") else 0,
            max_tokens=bound,
            policy=policy,
            stability=_STABILITIES.get(layer, "session"),
            items=items,
            prefix=f"<{layer}>\n",
            suffix=f"\n</{layer}>",
            separator=separator,
        )

    def _npc_items(self) -> tuple[Item, ...]:
        """Return a heading and the segments of each character, in one group per character."""
        items: list[Item] = []
        taken = {segment.id for _, used in self._npc_segments for segment in used}
        for place, (npc, used) in enumerate(self._npc_segments):
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
        for place, (npc, used) in enumerate(self._npc_segments):
            cue = next((segment.cue for segment in used if segment.cue), "")
            line = f"- {_label(npc)}" + (f": {cue}" if cue else "")
            items.append(Item(f"npc {npc.id}", line, priority=-place, order=place))
        return tuple(items)


def _items(segments: Sequence[Segment]) -> tuple[Item, ...]:
    return tuple(Item(segment.id, segment.content, order=place) for place, segment in enumerate(segments))


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
