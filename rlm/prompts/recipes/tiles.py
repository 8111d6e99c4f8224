"""Build a prompt from scored question-and-answer tiles, with a warning for each uncovered critical domain."""

from __future__ import annotations

import math
from collections import Counter as Tally
from collections.abc import Mapping, Sequence
from dataclasses import asdict, field
from itertools import islice
from json.encoder import encode_basestring
from operator import attrgetter
from typing import Any, Literal, NamedTuple

from rlm.lazy_dataclass import dataclass
from rlm.prompts.assembly.assembler import AssembledPrompt, assemble
from rlm.prompts.assembly.budget import Budget
from rlm.prompts.assembly.measure import Measure
from rlm.prompts.assembly.policy import Skip
from rlm.prompts.assembly.render import JOINER
from rlm.prompts.assembly.section import Derived, Item, Section
from rlm.prompts.errors import InputError
from rlm.prompts.json_input import Record
from rlm.prompts.templates import table
from rlm.prompts.tokens.counters import Counter, get_counter

__all__ = [
    "AssembledTiles",
    "Tile",
    "TileConfig",
    "TileFormat",
    "TileInput",
    "TilePriority",
    "TilePrompt",
    "TileStats",
]

TilePriority = Literal["P0", "P1", "P2"]
TileFormat = Literal["structured", "markdown", "json", "compact"]

_RANKS: Mapping[str, int] = {"P0": 2, "P1": 1, "P2": 0}
_FORMATS: tuple[TileFormat, ...] = ("structured", "markdown", "json", "compact")


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
    """`max_tokens` limits the whole prompt, in `counter`'s tokens (a quarter of the UTF-8 bytes).

    With `inject_deadband`, a domain with a P0 tile gets a warning if none of its tiles is included, and
    another if P0 tiles of it are missing and less than `thin_share` of its tiles is included.
    """

    max_tokens: int = 4096
    inject_deadband: bool = True
    format: TileFormat = "structured"
    system_prefix: str = ""
    include_domain: bool = True
    thin_share: float = 0.25
    counter: Counter = field(default_factory=lambda: get_counter("bytes4_floor"))

    def __post_init__(self) -> None:
        if self.format not in _FORMATS:
            raise InputError("$.config.format", f"is {self.format!r}", f"give one of {', '.join(_FORMATS)}")
        if not isinstance(self.system_prefix, str):
            raise InputError("$.config.system_prefix", f"is {self.system_prefix!r}", "give a text")
        if not 0 <= self.thin_share <= 1:
            raise InputError("$.config.thin_share", f"is {self.thin_share!r}", "give a number from 0 to 1")


@dataclass(frozen=True, slots=True)
class TileInput:
    """A query and the tiles scored for it."""

    query: str
    tiles: tuple[Tile, ...] = ()
    config: TileConfig = field(default_factory=TileConfig)
    warnings: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        if not isinstance(self.query, str):
            raise InputError("$.query", f"is {self.query!r}", "give a text")
        for place, tile in enumerate(self.tiles):
            if not (type(tile.question) is type(tile.answer) is type(tile.domain) is str):
                raise InputError(
                    f"$.tiles[{place}]", "has a question, answer or domain that is no text", "give texts"
                )
            if tile.priority not in _RANKS:
                raise InputError(
                    f"$.tiles[{place}].priority", f"is {tile.priority!r}", "give one of P0, P1, P2"
                )
            if not isinstance(tile.score, float | int):
                raise InputError(f"$.tiles[{place}].score", f"is {tile.score!r}", "give a number")

    @classmethod
    def from_json(cls, value: object) -> TileInput:
        """Read `{query, tiles: [{id, question, answer, domain, score, priority}], config: {…}}`. Raises
        InputError."""
        given = Record(value)
        config = given.under("config")
        return cls(
            query=given.text("query"),
            tiles=given.each("tiles", _tile),
            config=TileConfig(
                max_tokens=config.whole("max_tokens", 4096, minimum=0),
                inject_deadband=config.flag("inject_deadband", True),
                format=config.choice("format", _FORMATS, "structured"),  # type: ignore[arg-type]
                system_prefix=config.text("system_prefix", ""),
                include_domain=config.flag("include_domain", True),
                thin_share=config.number("thin_share", 0.25),
                counter=get_counter(config.text("counter", "bytes4_floor")),
            ),
            warnings=(
                *given.unknown_keys(("query", "tiles", "config")),
                *config.unknown_keys(tuple(TileConfig.__slots__)),
            ),
        )


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
        return {
            "prompt": self.text,
            "sections": [section.to_json() for section in self.sections],
            "stats": asdict(self.stats),
            "report": self.report.to_json(),
        }


class TilePrompt:
    """Builds a prompt of the most important tiles: P0 first, then by score.

    A tile that does not fit is skipped and the next is tried. A domain with a P0 tile gets a warning if none
    of its tiles is included, or nearly none.
    """

    def assemble(self, given: TileInput | Mapping[str, Any]) -> AssembledTiles:
        """Return sections system, tiles, deadband and query.

        Raises InputError, and BudgetExceeded if the prefix and the query alone exceed `max_tokens`.
        """
        if not isinstance(given, TileInput):
            given = TileInput.from_json(given)
        config = given.config
        gaps = _Gaps(given) if config.inject_deadband else None
        tiles = _by_rank(given.tiles)
        prompt = self._assemble_sections(given, tiles, gaps)
        if gaps is not None and gaps.find_thin(tiles, prompt):
            # The lines about thin domains use room that is left. They never displace a tile.
            warned = self._assemble_sections(given, tiles, gaps)
            if _included(tiles, warned) == _included(tiles, prompt):
                prompt = warned
        warnings = (*given.warnings, *(gaps.warnings if gaps else ()))
        fields = {name: getattr(prompt, name) for name in AssembledPrompt.__slots__}
        return AssembledTiles(
            **{**fields, "report": prompt.report.with_warnings(warnings)}, stats=_stats(tiles, config, prompt)
        )

    @staticmethod
    def _assemble_sections(given: TileInput, tiles: Sequence[Tile], gaps: _Gaps | None) -> AssembledPrompt:
        return assemble(
            _sections(given, tiles, gaps),
            Budget(given.config.max_tokens, counter=given.config.counter),
            remedy="shorten them or raise max_tokens",
        )


def _tile(value: Any, path: str) -> Tile:
    if type(value) is dict:
        made = Tile(
            value.get("id", 0),
            value.get("question", 0),
            value.get("answer", 0),
            value.get("domain", ""),
            value.get("score", 0.0),
            value.get("priority", "P2"),
        )
        # Fast path, for ten thousand tiles. Anything else is validated below.
        if (
            type(made.id) is type(made.question) is type(made.answer) is type(made.domain) is str
            and type(made.score) is float
            and made.priority in _RANKS
        ):
            return made
    tile = Record(value, path, what="an object with id, question, answer, domain, score, priority")
    return Tile(
        tile.text("id"),
        tile.text("question"),
        tile.text("answer"),
        tile.text("domain", ""),
        tile.number("score", 0.0),
        tile.choice("priority", tuple(_RANKS), "P2"),  # type: ignore[arg-type]
    )


def _sections(given: TileInput, tiles: Sequence[Tile], gaps: _Gaps | None) -> list[Section]:
    config = given.config
    as_json = config.format == "json"
    sections = [
        Section(
            "system",
            "user",
            order=0,
            priority=100,
            required=True,
            stability="static",
            items=(Item("prefix", config.system_prefix),),
        ),
        Section(
            "tiles",
            "user",
            order=1,
            priority=50,
            policy=Skip(),
            stability="turn",
            items=_items(tiles, config),
            prefix="[" if as_json else "",
            suffix="]" if as_json else "",
            separator="," if as_json else JOINER,
        ),
        Section(
            "query",
            "user",
            order=3,
            priority=90,
            required=True,
            stability="volatile",
            items=(Item("query", table("tiles.toml")["query"].format(query=given.query)),),
        ),
    ]
    if gaps is not None:
        sections.insert(
            2,
            Section(
                "deadband",
                "user",
                order=2,
                priority=40,
                stability="turn",
                derived=Derived("tiles", gaps.key, gaps.text),
            ),
        )
    return sections


def _by_rank(tiles: Sequence[Tile]) -> list[Tile]:
    """Return P0 tiles first, then by score, NaN last. Equal ones keep their order."""
    without_score = [tile for tile in tiles if math.isnan(tile.score)]
    scored = [tile for tile in tiles if not math.isnan(tile.score)] if without_score else list(tiles)
    scored.sort(key=attrgetter("score"), reverse=True)
    ranked = scored + without_score
    ranked.sort(key=attrgetter("priority"))
    return ranked


def _items(tiles: Sequence[Tile], config: TileConfig) -> tuple[Item, ...]:
    names = [tile.id for tile in tiles]
    if len(set(names)) < len(names):
        names = [f"{name}#{place}" for place, name in enumerate(names)]
    return tuple(
        Item(name, text, (), tile.score, _RANKS[tile.priority], place, None, tile.domain)
        for place, (name, tile, text) in enumerate(zip(names, tiles, _texts(tiles, config), strict=True))
    )


def _texts(tiles: Sequence[Tile], config: TileConfig) -> list[str]:
    match config.format:
        case "structured" if config.include_domain:
            return [f"[{tile.domain}]Q: {tile.question}\nA: {tile.answer}" for tile in tiles]
        case "structured":
            return [f"Q: {tile.question}\nA: {tile.answer}" for tile in tiles]
        case "markdown" if config.include_domain:
            return [f"## {tile.question} ({tile.domain})\n\n{tile.answer}" for tile in tiles]
        case "markdown":
            return [f"## {tile.question}\n\n{tile.answer}" for tile in tiles]
        case "json":
            return [_as_json(tile) for tile in tiles]
        case "compact":
            return [f"{tile.id}: {tile.score:.2f} | {tile.question} → {tile.answer}" for tile in tiles]


def _as_json(tile: Tile) -> str:
    score = f"{tile.score:.3f}" if math.isfinite(tile.score) else "null"  # JSON has no NaN
    name, question, answer = map(encode_basestring, (tile.id, tile.question, tile.answer))
    return f'{{"id":{name},"q":{question},"a":{answer},"score":{score}}}'


class _Gaps:
    """The warnings for P0 domains with no tile in the prompt, or too few.

    If all warnings would leave no room for the query, only as many as fit half of the room are listed, and
    one more line counts the others.
    """

    def __init__(self, given: TileInput) -> None:
        self._words = table("tiles.toml")
        domains = sorted({tile.domain for tile in given.tiles if tile.priority == "P0"})
        self._lines = {domain: self._line(domain) for domain in domains}
        self._tiles_of = Tally(tile.domain for tile in given.tiles if tile.domain in self._lines)
        self._thin: set[str] = set()
        self._thin_share = given.config.thin_share
        self._max_lines = len(domains)
        self.warnings: tuple[str, ...] = ()
        measure = Measure(given.config.counter)
        query = self._words["query"].format(query=given.query)
        fixed = "".join(f"{part}{JOINER}" for part in (given.config.system_prefix, query) if part)
        room = measure.bound(given.config.max_tokens) - measure(fixed)
        if domains and measure(self.text({})) > room:
            self._limit_lines(measure, room // 2)

    def _limit_lines(self, measure: Measure, room: int) -> None:
        left = room - measure(self._words["deadband"]) - measure(self._more(len(self._lines)))
        self._max_lines = 0
        for size in measure.each(list(self._lines.values())):
            if size > left:
                break
            left -= size
            self._max_lines += 1
        self.warnings = (
            f"{len(self._lines):,} domains have P0 tiles, more than max_tokens has room to warn of one by "
            "one: raise it",
        )

    def find_thin(self, tiles: Sequence[Tile], prompt: AssembledPrompt) -> bool:
        """Find the domains that a prompt hardly covers, for the text and the warnings. Return whether there
        are any."""
        included = Tally(tile.domain for tile in _included(tiles, prompt))
        p0 = Tally(tile.domain for tile in tiles if tile.priority == "P0")
        p0.subtract(tile.domain for tile in _included(tiles, prompt) if tile.priority == "P0")
        self._thin = {
            domain
            for domain, lacking in p0.items()
            if lacking and 0 < included[domain] < self._thin_share * self._tiles_of[domain]
        }
        self.warnings += tuple(
            f"domain {domain!r} is nearly uncovered: {included[domain]:,} of its {self._tiles_of[domain]:,} "
            "tiles are included"
            for domain in sorted(self._thin)
        )
        return bool(self._thin)

    def key(self, item: Item) -> str | None:
        return item.domain if item.domain in self._lines else None

    def text(self, covered: dict[str, None]) -> str:
        bare = len(self._lines) - len(covered) + sum(domain in covered for domain in self._thin)
        if not bare:
            return ""
        bare_lines = (
            self._line(domain, "thin") if domain in covered else line
            for domain, line in self._lines.items()
            if domain not in covered or domain in self._thin
        )
        lines = list(islice(bare_lines, self._max_lines))
        if bare > len(lines):
            lines.append(self._more(bare - len(lines)))
        return str(self._words["deadband"]) + "".join(lines)

    def _line(self, domain: str, kind: str = "gap") -> str:
        return "\n" + str(self._words[kind]).format(domain=" ".join(domain.splitlines()))

    def _more(self, count: int) -> str:
        return "\n" + str(self._words["more_gaps"]).format(count=f"{count:,}")


def _stats(tiles: Sequence[Tile], config: TileConfig, prompt: AssembledPrompt) -> TileStats:
    growth: dict[str, int] = {}
    text, reached = "", 0
    for section in prompt.sections:
        if section.text:
            text = f"{text}{JOINER}{section.text}" if text else section.text
            tokens = config.counter.count(text)
            growth[section.id], reached = tokens - reached, tokens
    included = Tally(tile.priority for tile in _included(tiles, prompt))
    return TileStats(
        tiles_included=included.total(),
        excluded=len(tiles) - included.total(),
        p0_count=included["P0"],
        p1_count=included["P1"],
        p2_count=included["P2"],
        system_tokens=growth.get("system", 0),
        tile_tokens=growth.get("tiles", 0),
        deadband_tokens=growth.get("deadband", 0),
        query_tokens=growth.get("query", 0),
        total_tokens=reached,
    )


def _included(tiles: Sequence[Tile], prompt: AssembledPrompt) -> list[Tile]:
    fates = (decision.status for decision in prompt.report.decisions if decision.section == "tiles")
    return [tile for tile, fate in zip(tiles, fates, strict=True) if fate != "dropped"]
