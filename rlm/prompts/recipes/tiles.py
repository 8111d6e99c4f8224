"""Build a prompt from scored question-and-answer tiles, with a warning for each uncovered critical domain."""

from __future__ import annotations

import json
import math
from collections import Counter as Tally
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from typing import Annotated, Any, Literal, NamedTuple

from rlm.prompts.errors import BudgetExceeded
from rlm.prompts.json_input import Bounds, read
from rlm.prompts.prompt import JOINER, AssembledPrompt, Decision, PromptSection, Totals, included, make_report
from rlm.prompts.templates import table
from rlm.prompts.tokens.counters import get_counter

__all__ = [
    "AssembledTiles",
    "Tile",
    "TileConfig",
    "TileFormat",
    "TileInput",
    "TilePriority",
    "TilePrompt",
    "TileStats",
    "tile_prompt",
]

TilePriority = Literal["P0", "P1", "P2"]
TileFormat = Literal["structured", "markdown", "json", "compact"]

_THIN_SHARE = 0.25  # a domain that lacks P0 tiles is nearly uncovered with less of its tiles than this
_COUNTER = get_counter("bytes4_floor")
_size = _COUNTER.size  # bytes: the sizes of parts add up to the size of the prompt


class Tile(NamedTuple):
    """A piece of knowledge, scored for a query. A tuple, because there may be tens of thousands."""

    id: str
    question: str
    answer: str
    domain: str = ""
    score: float = 0.0
    priority: TilePriority = "P2"


@dataclass(frozen=True, slots=True)
class TileConfig:
    """`max_tokens` limits the whole prompt. A token is a quarter of the UTF-8 bytes.

    With `inject_deadband`, a domain with a P0 tile gets a warning if none of its tiles is included, and
    another if P0 tiles of it are missing and less than a quarter of its tiles is included.
    """

    max_tokens: Annotated[int, Bounds(0)] = 4096
    inject_deadband: bool = True
    format: TileFormat = "structured"
    system_prefix: str = ""
    include_domain: bool = True


@dataclass(frozen=True, slots=True)
class TileInput:
    """A query and the tiles scored for it. Its fields are the keys of its JSON."""

    query: str
    tiles: tuple[Tile, ...] = ()
    config: TileConfig = field(default_factory=TileConfig)
    warnings: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class TileStats:
    """Counts of included tiles, and tokens by part.

    A part's tokens are the growth of the prompt by that part and its separator. So the four parts add up to
    `total_tokens`, the prompt measured as a whole.
    """

    tiles_included: int
    excluded: int
    p0_count: int
    p1_count: int
    p2_count: int
    system_tokens: int
    tile_tokens: int
    deadband_tokens: int
    query_tokens: int
    total_tokens: int


@dataclass(frozen=True, slots=True)
class AssembledTiles(AssembledPrompt):
    """A tile prompt and its ten figures."""

    stats: TileStats

    def to_json(self) -> dict[str, Any]:
        """Return prompt, sections, stats and report."""
        # Slots make a new class, which super() without arguments does not know.
        return {**AssembledPrompt.to_json(self), "stats": asdict(self.stats)}


class TilePrompt:
    """Builds a prompt of the most important tiles: P0 first, then by score."""

    def assemble(self, given: TileInput | Mapping[str, Any]) -> AssembledTiles:
        """Return `tile_prompt` of an input, or of plain data. Raises InputError and BudgetExceeded."""
        return tile_prompt(read(TileInput, given))


def tile_prompt(given: TileInput) -> AssembledTiles:
    """Return sections system, tiles, deadband and query.

    A tile that does not fit, with the warnings that would follow it, is skipped and the next is tried. Raises
    BudgetExceeded if the prefix and the query alone exceed `max_tokens`.
    """
    config, words = given.config, table("tiles.toml")
    ranked = sorted(given.tiles, key=lambda tile: (tile.priority, math.isnan(tile.score), -tile.score))
    texts = [_text(tile, config) for tile in ranked]
    sizes = _COUNTER.sizes(texts)
    domains = {tile.domain for tile in ranked if tile.priority == "P0"} if config.inject_deadband else set()
    lines = {domain: _line("gap", domain) for domain in sorted(domains)}
    parts = {"system": config.system_prefix, "tiles": "", "deadband": ""}
    parts["query"] = words["query"].format(query=given.query)
    room = _COUNTER.room(config.max_tokens) - _size(_joined(parts))
    if room < 0:
        names = sorted((name for name in parts if parts[name]), key=lambda name: -_size(parts[name]))
        needed = _COUNTER.count(_joined(parts))
        raise BudgetExceeded(needed, config.max_tokens, tuple(names), "shorten them or raise max_tokens")
    warned = _size(JOINER + words["deadband"] + "".join(lines.values())) if lines else 0
    most = room // 2 if warned > room else warned  # bytes of the warnings
    reasons = _left_out(ranked, sizes, lines, room, most, config)
    chosen = [number for number in range(len(ranked)) if number not in reasons]
    opening, between, closing = _frame(config)
    if chosen:
        parts["tiles"] = opening + between.join([texts[number] for number in chosen]) + closing
    covered = Tally(ranked[number].domain for number in chosen)
    bare = {domain: line for domain, line in lines.items() if domain not in covered}
    parts["deadband"] = _deadband(bare, most)
    warnings = [*given.warnings]
    if most < warned:
        warnings.append(
            f"{len(lines):,} domains have P0 tiles, more than max_tokens has room to warn of one by one: "
            "raise it"
        )
    of_domain = Tally(tile.domain for tile in ranked)
    for domain in sorted({ranked[number].domain for number in reasons if ranked[number].priority == "P0"}):
        if domain in lines and 0 < covered[domain] < _THIN_SHARE * of_domain[domain]:
            bare[domain] = _line("thin", domain)
            warnings.append(
                f"domain {domain!r} is nearly uncovered: {covered[domain]:,} of its {of_domain[domain]:,} "
                "tiles are included"
            )
    # The lines about nearly uncovered domains use room that is left. They never displace a tile.
    fuller = {**parts, "deadband": _deadband(dict(sorted(bare.items())), room)}
    if most == warned and _COUNTER.count(_joined(fuller)) <= config.max_tokens:
        parts = fuller
    sections = tuple(
        PromptSection(name, "user", text, _COUNTER.count(text), stable=name == "system")
        for name, text in parts.items()
    )
    of_tiles = _decisions(ranked, sizes, reasons)
    decisions = [
        one for section in sections for one in (of_tiles if section.name == "tiles" else included(section))
    ]
    steps = [_COUNTER.count(_joined(dict(list(parts.items())[:end]))) for end in range(1, 5)]
    tally = Tally(ranked[number].priority for number in chosen)
    return AssembledTiles(
        sections,
        make_report(sections, decisions, _COUNTER, Totals(config.max_tokens, steps[3]), warnings=warnings),
        TileStats(
            tiles_included=len(chosen),
            excluded=len(reasons),
            p0_count=tally["P0"],
            p1_count=tally["P1"],
            p2_count=tally["P2"],
            system_tokens=steps[0],
            tile_tokens=steps[1] - steps[0],
            deadband_tokens=steps[2] - steps[1],
            query_tokens=steps[3] - steps[2],
            total_tokens=steps[3],
        ),
    )


def _text(tile: Tile, config: TileConfig) -> str:
    match config.format:
        case "structured":
            domain = f"[{tile.domain}]" if config.include_domain else ""
            return f"{domain}Q: {tile.question}\nA: {tile.answer}"
        case "markdown":
            domain = f" ({tile.domain})" if config.include_domain else ""
            return f"## {tile.question}{domain}\n\n{tile.answer}"
        case "json":
            score = f"{tile.score:.3f}" if math.isfinite(tile.score) else "null"  # JSON has no NaN
            name, question, answer = (json.dumps(text, ensure_ascii=False) for text in tile[:3])
            return f'{{"id":{name},"q":{question},"a":{answer},"score":{score}}}'
        case "compact":
            return f"{tile.id}: {tile.score:.2f} | {tile.question} → {tile.answer}"


def _frame(config: TileConfig) -> tuple[str, str, str]:
    """Return what stands before, between and after the tiles."""
    return ("[", ",", "]") if config.format == "json" else ("", JOINER, "")


def _left_out(
    ranked: Sequence[Tile],
    sizes: Sequence[int],
    lines: Mapping[str, str],
    room: int,
    most: int,
    config: TileConfig,
) -> dict[int, str]:
    """Return the numbers of the tiles that do not fit, and why. The warnings take at most `most` bytes."""
    opening, between, closing = _frame(config)
    separator, first = _size(between), _size(JOINER + opening + closing)
    if first + sum(sizes) + separator * (len(sizes) - 1) <= room:
        return {}
    bare = {domain: _size(line) for domain, line in lines.items()}
    head = _size(JOINER + table("tiles.toml")["deadband"])
    warned = head + sum(bare.values()) if bare else 0
    left, need_of_next, reasons, reason = room, first, dict[int, str](), ""
    for number, tile in enumerate(ranked):
        need = sizes[number] + need_of_next
        freed = bare.get(tile.domain, 0)
        if freed and len(bare) == 1:
            freed += head
        if need + min(warned - freed, most) <= left:
            left, warned, need_of_next, reason = left - need, warned - freed, separator, ""
            bare.pop(tile.domain, None)
        else:
            if not reason:
                tokens = _COUNTER.tokens(max(0, left - min(warned, most) - need_of_next))
                reason = f"only {tokens:,} tokens were left"
            reasons[number] = reason
    return reasons


def _line(kind: str, domain: str) -> str:
    return "\n" + str(table("tiles.toml")[kind]).format(domain=" ".join(domain.splitlines()))


def _deadband(lines: Mapping[str, str], most: int) -> str:
    """Return the warnings. Those that do not fit `most` bytes are counted in one last line."""
    words = table("tiles.toml")
    text = str(words["deadband"]) + "".join(lines.values())
    if not lines or _size(JOINER + text) <= most:
        return text if lines else ""
    more = "\n" + str(words["more_gaps"])
    shown = [str(words["deadband"])]
    left = most - _size(JOINER + shown[0] + more.format(count=f"{len(lines):,}"))
    for line in lines.values():
        left -= _size(line)
        if left < 0:
            break
        shown.append(line)
    text = "".join([*shown, more.format(count=f"{len(lines) - len(shown) + 1:,}")])
    return text if _size(JOINER + text) <= most else ""


def _joined(parts: Mapping[str, str]) -> str:
    return JOINER.join(filter(None, parts.values()))


def _decisions(ranked: Sequence[Tile], sizes: Sequence[int], reasons: Mapping[int, str]) -> list[Decision]:
    """Return what happened to each tile."""
    names = [tile.id for tile in ranked]
    if len(set(names)) < len(names):
        names = [f"{name}#{number}" for number, name in enumerate(names)]
    return [
        Decision("tiles", name, "dropped", reasons[number], tokens, 0)
        if number in reasons
        else Decision("tiles", name, "included", "fits", tokens, tokens)
        for number, (name, tokens) in enumerate(zip(names, map(_COUNTER.tokens, sizes), strict=True))
    ]
