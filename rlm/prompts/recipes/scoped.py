"""Build a prompt of ten layers: six of stored segments, four of this turn, reduced step by step to a budget.

The layers are filled by importance, so the budget takes from the least important first: input is trimmed,
rng dropped, player trimmed, game_state compressed and trimmed, and the characters are shown in less detail.
Static layers get their short forms. Only far above the budget are entry_start, world and entry dropped.
"""

from __future__ import annotations

import json
import re
from collections import Counter as Tally
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Annotated, Any, NamedTuple, cast

from rlm.prompts.errors import ScopedInputError
from rlm.prompts.fitting import Keep, trim_text
from rlm.prompts.json_input import Bounds, NotBlank, read_all
from rlm.prompts.prompt import (
    JOINER,
    AssembledPrompt,
    Decision,
    DecisionStatus,
    PromptSection,
    Totals,
    joined,
    make_report,
)
from rlm.prompts.recipes.scoped_layers import LayerSource, StaticLayers
from rlm.prompts.segments.segment import DEPRECATED, LAYERS, SCOPES, DbAdapter, Segment
from rlm.prompts.tokens.counters import Counter, get_counter

__all__ = [
    "AssembledScoped",
    "Npc",
    "NpcTierDrop",
    "ScopedInput",
    "ScopedMeta",
    "ScopedPrompt",
    "Truncation",
    "scoped_prompt",
]

_SEVERE = 1.5  # times the budget, above which static layers are dropped
_DROP_ORDER = ("entry_start", "world", "entry")  # in this order
_STATIC = tuple(scope for scope in SCOPES if scope != "npc")
_REDUCED = ("npc", "game_state", "player", "rng", "input")  # the most important first
_CUT: Mapping[str, Keep] = {"game_state": "middle", "player": "head", "input": "sentence"}
_FLOOR = 32  # tokens kept free for a layer that can be cut, while more important ones are filled
_BLANKS = re.compile(r"(?<=\S)[ \t]{2,}")
_JSON_SPACE = re.compile(r'("(?:[^"\\]|\\.)*")|\s+')


class Npc(NamedTuple):
    """A character that is present, most important first. Its segments up to `tier` are used."""

    id: Annotated[str, NotBlank()]
    name: str | None = None
    tier: Annotated[int, Bounds(0)] = 0


@dataclass(frozen=True, slots=True)
class ScopedInput:
    """One turn. `token_budget` limits the prompt, `npc_budget` its block of characters, both in tokens.

    `entry_type` chooses one of the prompt's orders of layers. The dynamic layers are texts; in JSON they may
    be any value, which is rendered as JSON. Blank ones are left out.
    """

    entry_point_id: Annotated[str, NotBlank()]
    world_id: Annotated[str, NotBlank()]
    is_first_turn: bool = False
    token_budget: Annotated[int, Bounds(100)] = 8000
    npc_budget: Annotated[int, Bounds(50)] = 600
    npcs: tuple[Npc, ...] = ()
    game_state: str = ""
    player: str = ""
    rng: str = ""
    input: str = ""
    entry_type: str = ""
    warnings: tuple[str, ...] = ()


def _read(value: ScopedInput | Mapping[str, Any]) -> ScopedInput:
    """Return the turn that is given. Raises ScopedInputError with every fault."""
    faults: list[str] = []
    data: Any = value
    if isinstance(value, Mapping):
        data = {**value, **{layer: _text(value.get(layer), layer, faults) for layer in DEPRECATED}}
    given, found = read_all(ScopedInput, data)
    faults += map(str, found)
    if given is not None:
        counts = Tally(npc.id for npc in given.npcs)
        twice = [name for name, count in counts.items() if count > 1]
        faults += [f"$.npcs holds {name!r} more than once: name every character once" for name in twice]
    if faults or given is None:
        raise ScopedInputError(tuple(faults))
    return given


def _text(value: Any, layer: str, faults: list[str]) -> str:
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


@dataclass(frozen=True, slots=True)
class NpcTierDrop:
    """A character shown in less detail. `to_tier` None: none of its segments is included."""

    npc_id: str
    from_tier: int
    to_tier: int | None


@dataclass(frozen=True, slots=True)
class Truncation:
    """What was reduced to fit the budgets. `dropped_scopes` had content and are not included.
    `compressed_scopes` have segments in a shorter form."""

    dropped_scopes: tuple[str, ...] = ()
    npc_dropped_tiers: tuple[NpcTierDrop, ...] = ()
    input_trimmed: bool = False
    game_state_compressed: bool = False
    compressed_scopes: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class ScopedMeta:
    """Facts about a scoped prompt.

    `segment_ids_by_scope` has every static scope as a key. `order` lists all ten layers. `tokens_estimated`
    counts the layers before any reduction, `tokens_after` the prompt. `truncated` is None if nothing was
    reduced. `skipped_npcs` are characters without a segment.
    """

    segment_ids_by_scope: Mapping[str, tuple[str, ...]]
    order: tuple[str, ...]
    tokens_estimated: int
    tokens_after: int
    truncated: Truncation | None
    over_budget: bool = False
    skipped_npcs: tuple[str, ...] = ()

    def to_json(self) -> dict[str, Any]:
        """Return the same as a JSON-safe mapping."""
        return cast("dict[str, Any]", json.loads(json.dumps(asdict(self))))


@dataclass(frozen=True, slots=True)
class AssembledScoped(AssembledPrompt):
    """A scoped prompt and its meta."""

    meta: ScopedMeta

    def to_json(self) -> dict[str, Any]:
        """Return prompt, sections, meta and report."""
        # Slots make a new class, which super() without arguments does not know.
        return {**AssembledPrompt.to_json(self), "prompt": self.text, "meta": self.meta.to_json()}


class ScopedPrompt:
    """Builds prompts from an adapter's segments. Thread-safe.

    Static layers are kept while the adapter's revision stays the same. Tokens are `counter`'s, by default a
    quarter of the characters, rounded up. `orders` are the orders of layers by the type of an entry
    (`ScopedInput.entry_type`). Layers that an order does not name follow in the usual order. Stored layers
    always come before dynamic ones. Raises ScopedInputError for an unknown layer.
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
        self._orders = {kind: _layer_order(kind, order) for kind, order in (orders or {}).items()}
        self._source = LayerSource(adapter)
        self._counter = counter or get_counter("chars4_ceil")

    def assemble(self, given: ScopedInput | Mapping[str, Any]) -> AssembledScoped:
        """Return layers core, ruleset, world, entry, entry_start, npc, game_state, player, rng and input.

        core and ruleset are never cut. If they alone exceed the budget, `report.over_budget` is set. Raises
        ScopedInputError with every fault, and AdapterFailed naming the scope.
        """
        given = _read(given)
        layers = self._source.fetch(
            given.entry_point_id, given.world_id, given.is_first_turn, [npc.id for npc in given.npcs]
        )
        return scoped_prompt(given, layers, self._counter, self._orders.get(given.entry_type, LAYERS))

    def stream(self, given: ScopedInput | Mapping[str, Any]) -> Iterator[str]:
        """Yield the prompt layer by layer. The parts joined are the text of `assemble`."""
        joiner = ""
        for section in self.assemble(given).sections:
            if section.content:
                yield joiner + section.content
                joiner = JOINER

    def forget(self) -> None:
        """Forget the static layers. Call it after writing to a store's tables without the store."""
        self._source.forget()


def _layer_order(kind: str, order: Sequence[str]) -> tuple[str, ...]:
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


def scoped_prompt(
    given: ScopedInput, layers: StaticLayers, counter: Counter, order: Sequence[str] = LAYERS
) -> AssembledScoped:
    """Return the prompt of these layers in that order. Pure."""
    ladder = _Ladder(given, layers, counter, order)
    filled = ladder.fit()
    total = given.token_budget
    if filled.tokens > total * _SEVERE:
        for scope in _DROP_ORDER:
            if filled.tokens > total and ladder.has(scope):
                ladder.dropped.add(scope)
                filled = ladder.fit()
    if filled.tokens > total and ladder.has("input"):
        # Keep the beginning of the request, even in a prompt that exceeds its budget.
        ladder.some_input = trim_text(given.input, _FLOOR, "sentence", counter.count)
        filled = ladder.fit()
    return ladder.finish(filled)


class _Layer(NamedTuple):
    """A layer as filled: its text without the frame, and what happened to each of its parts."""

    text: str
    decisions: list[Decision]
    included: tuple[str, ...] = ()  # ids of segments


class _Filled(NamedTuple):
    layers: dict[str, _Layer]
    sections: tuple[PromptSection, ...]
    tokens: int


class _Ladder:
    """One prompt while its layers are reduced. Sizes are those of the counter."""

    def __init__(
        self, given: ScopedInput, layers: StaticLayers, counter: Counter, order: Sequence[str]
    ) -> None:
        self._given = given
        self._counter = counter
        self._order = order
        self._joiner = counter.size(JOINER)
        self._statics = dict(layers.by_scope)
        self._npcs: list[tuple[Npc, tuple[Segment, ...]]] = []
        self._skipped: dict[str, str] = {}
        self._lacking: dict[str, str] = {}
        self._shown_as_lines = False
        self.dropped: set[str] = set()
        self.some_input: str | None = None
        for npc, segments in zip(given.npcs, layers.by_npc, strict=True):
            used = tuple(segment for segment in segments if (segment.tier or 0) <= npc.tier)
            if used:
                self._npcs.append((npc, used))
            else:
                lack = f"no segment of tier {npc.tier} or below" if segments else "no segment"
                self._skipped[npc.id] = f"npc {npc.id!r} was skipped: it has {lack}"
        self._drop_dependents({segment.id for scope in SCOPES for segment in self._segments(scope)})
        whole = (_framed(layer, text) for layer in order if (text := self._whole(layer)))
        self._estimated = counter.count(JOINER.join(whole))

    def has(self, layer: str) -> bool:
        """Return whether the layer has any content."""
        return bool(self._whole(layer))

    def fit(self) -> _Filled:
        """Fill the layers within the budget, without segments whose requirements are left out."""
        budget = self._given.token_budget
        while True:
            room, step = self._counter.room(budget), 0
            while True:
                filled, exceeded = self._fill(room)
                if filled.tokens <= budget or exceeded:
                    break
                # The layers, measured alone, can add up to less than the whole. Then leave more room.
                step = max(1, min(max(room - room * budget // filled.tokens, 2 * step), room // 2))
                room -= step
            if not self._drop_dependents({name for one in filled.layers.values() for name in one.included}):
                return filled

    def _fill(self, room: int) -> tuple[_Filled, bool]:
        """Fill the layers within `room`. Return them, and whether the required ones exceed it."""
        left = room + self._joiner  # the first layer has no joiner
        exceeded = False
        filled = {layer: _Layer("", []) for layer in LAYERS}
        statics = [scope for scope in _STATIC if self.has(scope)]
        for scope in self.dropped:
            filled[scope] = _Layer("", self._drop(scope, "its layer was dropped to make room"))
            statics = [one for one in statics if one != scope]
        if self.some_input is not None:
            before, after = self._counter.count(self._given.input), self._counter.count(self.some_input)
            fate = Decision("input", "input", "included", "fits", before, after)
            if self.some_input != self._given.input:
                why = "only its beginning: the prompt exceeds its budget"
                fate = fate._replace(status="trimmed", reason=why)
            filled["input"] = _Layer(self.some_input, [fate])
            left -= self._size("input", self.some_input)
        for number, scope in enumerate(statics):
            later = sum(self._size(one, self._shortest(one)) for one in statics[number + 1 :])
            filled[scope] = self._static(scope, left - later)
            size = self._size(scope, filled[scope].text)
            exceeded |= size > left - later
            left -= size
        for number, layer in enumerate(_REDUCED):
            if self.has(layer) and not filled[layer].text:
                bound = left - sum(self._floor(one) for one in _REDUCED[number + 1 :] if not filled[one].text)
                filled[layer] = self._npc_block(bound) if layer == "npc" else self._dynamic(layer, bound)
                left -= self._size(layer, filled[layer].text)
        sections = tuple(self._render(layer, filled[layer].text) for layer in self._order)
        return _Filled(filled, sections, self._counter.count(joined(sections))), exceeded

    def _size(self, layer: str, text: str) -> int:
        """Return the size of a layer with its frame and joiner. 0 if it is empty."""
        return self._counter.size(_framed(layer, "")) + self._counter.size(text) + self._joiner if text else 0

    def _floor(self, layer: str) -> int:
        """Return the size kept free for a layer that can be cut."""
        whole = self._size(layer, self._whole(layer)) if layer in _CUT else 0
        return min(whole, self._counter.room(_FLOOR) + self._joiner)

    def _whole(self, layer: str) -> str:
        """Return the text of a layer before any reduction."""
        if layer == "npc":
            return JOINER.join(text for _, parts in self._npc_parts() for _, text, _ in parts)
        if layer in SCOPES:
            return JOINER.join(segment.content for segment in self._segments(layer))
        text = str(getattr(self._given, layer))
        return text if text.strip() else ""

    def _shortest(self, scope: str) -> str:
        """Return the text of a static layer whose segments are all in their shortest form."""
        return JOINER.join(
            min(segment.content, self._short(scope, segment), key=self._counter.size)
            for segment in self._segments(scope)
        )

    def _short(self, scope: str, segment: Segment) -> str:
        return (segment.short if scope in _DROP_ORDER else "") or segment.content

    def _drop(self, layer: str, reason: str) -> list[Decision]:
        parts = (
            [(name, text) for _, own in self._npc_parts() for name, text, _ in own]
            if layer == "npc"
            else [(segment.id, segment.content) for segment in self._segments(layer)]
            if layer in SCOPES
            else [(layer, self._whole(layer))]
        )
        return [
            Decision(layer, name, "dropped", reason, self._counter.count(text), 0) for name, text in parts
        ]

    def _static(self, scope: str, bound: int) -> _Layer:
        """Return a static layer, its last segments in their short form as far as needed."""
        segments = self._segments(scope)
        texts = [segment.content for segment in segments]
        for number in reversed(range(len(segments))):
            if self._size(scope, JOINER.join(texts)) <= bound:
                break
            short = self._short(scope, segments[number])
            if self._counter.size(short) < self._counter.size(texts[number]):
                texts[number] = short
        decisions = []
        for segment, text in zip(segments, texts, strict=True):
            before, after = self._counter.count_each([segment.content, text])
            fate = Decision(scope, segment.id, "included", "fits", before, after)
            if text is not segment.content:
                fate = fate._replace(status="compressed", reason="its short form, to save tokens")
            decisions.append(fate)
        return _Layer(JOINER.join(texts), decisions, tuple(segment.id for segment in segments))

    def _dynamic(self, layer: str, bound: int) -> _Layer:
        """Return a layer of this turn: whole, in fewer characters, cut, or dropped."""
        text = whole = self._whole(layer)
        status: DecisionStatus = "included"
        reason = "fits"
        if (
            layer == "game_state"
            and self._size(layer, text) > bound
            and (short := _compact(text)) is not None
        ):
            text, status, reason = short, "compressed", "written in fewer characters, without loss"
        if self._size(layer, text) > bound:
            room = bound - self._size(layer, "x") + self._counter.size("x")
            keep = _CUT.get(layer)
            cut = trim_text(text, room, keep, self._counter.size) if keep and room > 0 else None
            if cut is None:
                tokens = max(self._counter.tokens(room), 0)
                return _Layer("", self._drop(layer, f"only {tokens:,} tokens were left"))
            text, status, reason = cut, "trimmed", f"cut to {keep}"
        before, after = self._counter.count_each([whole, text])
        return _Layer(text, [Decision(layer, layer, status, reason, before, after)])

    def _npc_parts(self) -> list[tuple[Npc, list[tuple[str, str, int]]]]:
        """Return the parts of each character, by id, text and tier: a heading, then its segments."""
        parts = []
        for npc, segments in self._npcs:
            used = _required_first([segment for segment in segments if segment.id not in self._lacking])
            if used:
                heading = (f"npc {npc.id}", f"## {_label(npc)}", 0)
                parts.append((npc, [heading, *((one.id, one.content, one.tier or 0) for one in used)]))
        return parts

    def _npc_block(self, bound: int) -> _Layer:
        """Return the characters within `bound` and their own budget.

        First the highest tier of all is left out, then the next, then the last characters. If there is no
        room for the first one's segments, each character is one line.
        """
        bound = min(bound, self._counter.room(self._given.npc_budget) + self._joiner)
        characters = self._npc_parts()
        reasons: dict[str, str] = {}
        highest = max(tier for _, parts in characters for *_, tier in parts)
        for tier in range(highest, 0, -1):
            kept = [text for _, parts in characters for name, text, _ in parts if name not in reasons]
            if self._size("npc", JOINER.join(kept)) <= bound:
                break
            for _, parts in characters:
                for name, _, own in parts:
                    if own == tier:
                        reasons[name] = f"tier {tier} was dropped to make room"
        texts: list[str] = []
        included: list[str] = []
        is_full = False
        for _, parts in characters:
            own_texts = [text for name, text, _ in parts if name not in reasons]
            is_full = is_full or self._size("npc", JOINER.join([*texts, *own_texts])) > bound
            if is_full:
                reasons |= {name: "there was no room for it" for name, *_ in parts if name not in reasons}
                continue
            texts += own_texts
            included += [name for name, *_ in parts[1:] if name not in reasons]
        decisions = [
            Decision("npc", name, "dropped", reasons[name], size, 0)
            if name in reasons
            else Decision("npc", name, "included", "fits", size, size)
            for _, parts in characters
            for name, text, _ in parts
            for size in [self._counter.count(text)]
        ]
        self._shown_as_lines = not texts
        if texts:
            return _Layer(JOINER.join(texts), decisions, tuple(included))
        for npc, segments in self._npcs:
            used = [segment for segment in segments if segment.id not in self._lacking]
            cue = next((segment.cue for segment in used if segment.cue), "")
            line = f"- {_label(npc)}" + (f": {cue}" if cue else "")
            if not used:
                continue
            if self._size("npc", "\n".join([*texts, line])) > bound:
                break
            texts.append(line)
        return _Layer("\n".join(texts), decisions)

    def _render(self, layer: str, text: str) -> PromptSection:
        content = _framed(layer, text) if text else ""
        stable = layer in SCOPES
        return PromptSection(
            layer, "system" if stable else "user", content, self._counter.count(content), stable
        )

    def finish(self, filled: _Filled) -> AssembledScoped:
        """Return the prompt with its meta, and warnings in its report."""
        total = self._given.token_budget
        warnings = [*self._given.warnings, *self._skipped.values(), *self._lacking.values()]
        if self._shown_as_lines and filled.layers["npc"].text:
            warnings.append(
                "there was no room for the characters' segments: each character is one line at most"
            )
        if filled.tokens > total:
            warnings.append(
                f"the prompt exceeds its budget of {total:,} tokens: shorten its static layers, or raise "
                "token_budget"
            )
        decisions = [decision for layer in self._order for decision in filled.layers[layer].decisions]
        totals = Totals(total, filled.tokens)
        report = make_report(filled.sections, decisions, self._counter, totals, warnings=warnings)
        return AssembledScoped(
            filled.sections,
            report,
            ScopedMeta(
                segment_ids_by_scope={scope: filled.layers[scope].included for scope in SCOPES},
                order=tuple(self._order),
                tokens_estimated=self._estimated,
                tokens_after=filled.tokens,
                truncated=self._truncation(filled, decisions),
                over_budget=report.over_budget,
                skipped_npcs=tuple(self._skipped),
            ),
        )

    def _truncation(self, filled: _Filled, decisions: Sequence[Decision]) -> Truncation | None:
        if all(decision.status == "included" for decision in decisions):
            return None
        lower = []
        for npc, used in self._npcs:
            kept = [segment.tier or 0 for segment in used if segment.id in filled.layers["npc"].included]
            if len(kept) < len(used):
                before = max(segment.tier or 0 for segment in used)
                lower.append(NpcTierDrop(npc.id, before, max(kept, default=None)))
        fates = {decision.section: decision.status for decision in decisions}
        return Truncation(
            dropped_scopes=tuple(
                layer for layer in self._order if self.has(layer) and not filled.layers[layer].text
            ),
            npc_dropped_tiers=tuple(lower),
            input_trimmed=fates.get("input", "included") != "included",
            game_state_compressed=fates.get("game_state") in ("compressed", "trimmed"),
            compressed_scopes=tuple(
                scope
                for scope in SCOPES
                if any(one.section == scope and one.status == "compressed" for one in decisions)
            ),
        )

    def _segments(self, scope: str) -> list[Segment]:
        """Return the segments of a scope that may be included, each after those that it requires."""
        used = (
            [segment for _, segments in self._npcs for segment in segments]
            if scope == "npc"
            else self._statics[scope]
        )
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
        return len(self._lacking) > before


def _framed(layer: str, text: str) -> str:
    return f"<{layer}>\n{text}\n</{layer}>"


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
