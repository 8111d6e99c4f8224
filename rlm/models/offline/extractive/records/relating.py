"""Verbs that say no more than a field's name: `live in Basel` of a city, `work for Acme` of a company."""

from __future__ import annotations

from collections.abc import Iterable

__all__ = ["is_told_by"]

_PLACES = frozenset(
    {"city", "town", "village", "place", "location", "residence", "home", "address", "district", "canton"}
    | {"region", "state", "province", "county", "country", "area"}
)
_EMPLOYERS = frozenset(
    {"company", "employer", "organization", "organisation", "firm", "department", "team", "office"}
)
_FIELDS_OF = {
    ("live", "lives", "living", "lived", "reside", "resides", "residing"): _PLACES,
    ("based", "located", "situated", "come", "comes", "lie", "lies"): _PLACES,
    ("work", "works", "working", "employed"): _EMPLOYERS,
    ("speak", "speaks", "speaking"): frozenset({"language"}),
    ("cost", "costs"): frozenset({"price", "cost"}),
}
_VERBS = {verb: fields for verbs, fields in _FIELDS_OF.items() for verb in verbs}
_ANY = frozenset({"belong", "belongs", "belonging"})


def is_told_by(verb: str, fields: Iterable[tuple[str, ...]]) -> bool:
    """Return whether one of the fields, given by the words of their names, tells what a verb says. A name of
    more words (`birth_city`) may tell something else."""
    return verb in _ANY or any(len(name) == 1 and name[0] in _VERBS.get(verb, ()) for name in fields)
