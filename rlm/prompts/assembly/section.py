"""Define the input of an assembly: sections, made of items."""

from __future__ import annotations

from collections import Counter as Tally
from collections.abc import Callable, Sequence
from typing import Literal, NamedTuple, cast

from rlm.lazy_dataclass import dataclass
from rlm.prompts.assembly.policy import NEVER, Drop, Gate, Policy, Skip, StopFirst
from rlm.prompts.prompt import Role as MessageRole

__all__ = [
    "Derived",
    "Item",
    "MessageRole",
    "Section",
    "Stability",
    "faults_of",
    "stability_rank",
]

Stability = Literal["static", "session", "turn", "volatile"]

_ROLES: tuple[MessageRole, ...] = ("system", "user")
_STABILITIES: dict[Stability, int] = {"static": 0, "session": 1, "turn": 2, "volatile": 3}


def stability_rank(stability: Stability) -> int:
    """Return 0 for text that never changes, up to 3 for text that changes with every call."""
    return _STABILITIES[stability]


class Item(NamedTuple):
    """A piece of text that is included, changed or dropped as one.

    A tuple, because there may be thousands. Items are chosen by `priority` (higher first), `score` (higher
    first, NaN last), then `order`. They are rendered by `order`, then by their index in `items`. `variants`
    are shorter texts, longest first. `tier` is the level of detail (0 or None: the base). Items of one
    `group` are included or dropped together.
    """

    id: str
    text: str
    variants: tuple[str, ...] = ()
    score: float = 0.0
    priority: int = 0
    order: int = 0
    tier: int | None = None
    domain: str | None = None
    group: str | None = None


@dataclass(frozen=True, slots=True)
class Derived:
    """A section text that is computed from the items included in the section `of`.

    `key` returns the part of an item that matters to the text, or None. `text` gets the keys of the included
    items in the order they entered, and must not change them. The section `of` has the policy Skip or
    StopFirst. With StopFirst, the text must never get shorter as items enter.
    """

    of: str
    key: Callable[[Item], str | None]
    text: Callable[[dict[str, None]], str]


@dataclass(frozen=True, slots=True)
class Section:
    """A part of the prompt. `order` sets its place, `priority` (higher first) its claim on tokens.

    A required section is always included, changed at most as its policy allows. `min_tokens` is kept free
    for a section, in the prompt and in its pool, while sections of higher priority are filled, unless it is
    optional and they are required; `max_tokens` limits it. `prefix` and `suffix`
    frame the items and `separator` joins them; a section without items has no frame. Sections of one `pool`
    share the limit that `Budget.per_section` sets under the pool's name. A `derived` section has no items of
    its own.
    """

    id: str
    role: MessageRole
    order: int
    priority: int
    required: bool = False
    min_tokens: int = 0
    max_tokens: int | None = None
    policy: Policy | tuple[Policy, ...] = NEVER
    stability: Stability = "session"
    items: tuple[Item, ...] = ()
    prefix: str = ""
    suffix: str = ""
    separator: str = "\n\n"
    pool: str | None = None
    derived: Derived | None = None

    @property
    def ladder(self) -> tuple[Policy, ...]:
        """Return the policies in the order they are tried."""
        return self.policy if isinstance(self.policy, tuple) else (self.policy,)


def faults_of(sections: Sequence[Section]) -> list[str]:
    """Return every fault of these sections, one line each."""
    faults = []
    if len({section.id for section in sections}) < len(sections):
        faults += [
            f"section {name!r} occurs {n} times: give every section its own id"
            for name, n in Tally(section.id for section in sections).items()
            if n > 1
        ]
    kinds = [fault for section in sections for fault in _faults_of_kinds(section)]
    if kinds:
        return faults + kinds  # the other checks need the right kinds
    for section in sections:
        if len({item.id for item in section.items}) < len(section.items):
            twice = [name for name, n in Tally(item.id for item in section.items).items() if n > 1]
            faults.append(f"section {section.id!r} holds {twice[0]!r} more than once: item ids must differ")
        if section.max_tokens is not None and section.max_tokens < section.min_tokens:
            faults.append(f"section {section.id!r} has max_tokens below min_tokens: raise the maximum")
        if section.min_tokens < 0 or (section.max_tokens is not None and section.max_tokens < 0):
            faults.append(f"section {section.id!r} has a negative token bound: use 0 or more")
        if not section.ladder:
            faults.append(f"section {section.id!r} has no policy: use Never() to allow no change")
        if section.required and any(isinstance(step, (Drop, Gate)) for step in section.ladder):
            faults.append(f"section {section.id!r} is required but has Drop or Gate: remove one of them")
    sources = {section.id: section for section in sections if section.derived is None}
    for section in sections:
        if section.derived is not None:
            source = sources.get(section.derived.of)
            if source is None or len(source.ladder) != 1 or not isinstance(source.policy, StopFirst | Skip):
                faults.append(
                    f"section {section.id!r} is derived from {section.derived.of!r}, which must be a section "
                    "with items of its own and the one policy StopFirst() or Skip()"
                )
            if section.items:
                faults.append(f"section {section.id!r} is derived and has items: remove one of them")
    last_system = max((section.order for section in sections if section.role == "system"), default=None)
    faults += [
        f"section {section.id!r} ({section.role}) comes before a system section: put system sections first"
        for section in sections
        if last_system is not None and section.role != "system" and section.order < last_system
    ]
    return faults


def _faults_of_kinds(section: Section) -> list[str]:
    """Return the faults of values that are no role, stability, policy, number or text."""
    name = section.id
    faults = []
    if section.role not in _ROLES:
        faults.append(f"section {name!r} has the role {section.role!r}: use one of {', '.join(_ROLES)}")
    if section.stability not in _STABILITIES:
        faults.append(
            f"section {name!r} has the stability {section.stability!r}: use one of {', '.join(_STABILITIES)}"
        )
    faults += [
        f"section {name!r} has the policy {step!r}: use one of rlm.prompts.assembly.policy, such as Skip()"
        for step in section.ladder
        if not isinstance(step, Policy)
    ]
    for part, value in (("order", section.order), ("priority", section.priority)):
        if not isinstance(cast(object, value), int):
            faults.append(f"section {name!r} has the {part} {value!r}: use a whole number")
    bad = next((item for item in section.items if not isinstance(cast(object, item.text), str)), None)
    if bad is not None:
        kind = type(bad.text).__name__
        faults.append(f"item {bad.id!r} of section {name!r} holds {kind} and no text: give a text")
    return faults
