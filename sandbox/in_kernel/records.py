"""What the handle gives back: dicts whose keys are attributes too, text that knows its span."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any, Protocol, Self, SupportsIndex, overload

from .body import Span

__all__ = ["SHOWN_TEXT", "Fields", "Hits", "LazyRecord", "Record", "Records", "Text", "shown"]

SHOWN_TEXT = 200
_SHOWN_RECORDS = 5


class Text(str):
    """A str cut from the body. `span` is where it stands; whatever is made from it is an ordinary str."""

    __slots__ = ("span",)
    span: Span | None

    def __new__(cls, text: str, span: Span | None = None) -> Self:
        made = super().__new__(cls, text)
        made.span = span
        return made


def shown(value: object, length: int | None = None) -> str:
    """`value` for printing; a long text is cut and its length said (`length`, when `value` is a part)."""
    if isinstance(value, str):
        whole = len(value) if length is None else length
        if whole > SHOWN_TEXT:
            return f"{str(value[:SHOWN_TEXT])!r}… ({whole:,} characters)"
        return repr(str(value))
    said = repr(value)
    return said if len(said) <= 3 * SHOWN_TEXT else f"{said[: 2 * SHOWN_TEXT]}… ({type(value).__name__})"


class Record(dict[str, Any]):
    """A dict whose keys can be read as attributes: `h["start"]` and `h.start` are the same."""

    __slots__ = ()

    def __getattr__(self, name: str) -> Any:
        try:
            return self[name]
        except KeyError:
            raise AttributeError(f"no field {name!r} here; there are {', '.join(self)}") from None

    def __repr__(self) -> str:
        return "{" + ", ".join(f"{key!r}: {self._shown(key)}" for key in self) + "}"

    def _shown(self, key: str) -> str:
        return shown(self[key])


class Fields(Protocol):
    """Works out the fields that a lazy record does not hold."""

    def value(self, record: LazyRecord, key: str) -> Any:
        """The field `key` of `record`."""

    def shown(self, record: LazyRecord, key: str) -> str:
        """The same, short, for printing."""


class _Later:
    """Stands in a lazy record for a field that is worked out when it is asked for."""

    __slots__ = ()


_LATER = _Later()


class LazyRecord(Record):
    """A record that reads its texts from the body each time they are asked for, and keeps none of them."""

    __slots__ = ("_source",)
    __hash__ = None  # type: ignore[assignment]

    def __init__(self, held: dict[str, Any], later: tuple[str, ...], source: Fields) -> None:
        super().__init__(held)
        dict.update(self, dict.fromkeys(later, _LATER))
        self._source = source

    def __getitem__(self, key: str) -> Any:
        value = dict.__getitem__(self, key)
        return self._source.value(self, key) if value is _LATER else value

    def __iter__(self) -> Iterator[str]:
        # Not inherited: ** and dict() would go round __getitem__ if it were.
        return dict.__iter__(self)

    def get(self, key: str, default: Any = None) -> Any:
        try:
            return self[key]
        except KeyError:
            return default

    def items(self) -> Any:
        return [(key, self[key]) for key in self]

    def values(self) -> Any:
        return [self[key] for key in self]

    def copy(self) -> Record:
        return Record(self.items())

    def pop(self, key: str, *default: Any) -> Any:
        value = self.get(key)
        super().pop(key, *default)
        return value if value is not None or not default else default[0]

    def __or__(self, other: Any) -> Any:
        return self.copy() | other

    def __ror__(self, other: Any) -> Any:
        return other | self.copy()

    def __eq__(self, other: object) -> bool:
        return dict(self.items()) == (dict(other.items()) if isinstance(other, LazyRecord) else other)

    def __ne__(self, other: object) -> bool:
        return not self == other

    def __reduce__(self) -> tuple[Any, ...]:
        return Record, (self.items(),)

    def _shown(self, key: str) -> str:
        value = dict.__getitem__(self, key)
        return self._source.shown(self, key) if value is _LATER else shown(value)


class Records(list[Any]):
    """A list of records that prints its first few and says how many there are."""

    __slots__ = ()

    @overload
    def __getitem__(self, at: SupportsIndex) -> Any: ...
    @overload
    def __getitem__(self, at: slice) -> Records: ...
    def __getitem__(self, at: SupportsIndex | slice) -> Any:
        found = super().__getitem__(at)
        return Records(found) if isinstance(at, slice) else found

    def __repr__(self) -> str:
        lines = [self._heading(), *(f"  {record!r}" for record in self[:_SHOWN_RECORDS])]
        if len(self) > _SHOWN_RECORDS:
            lines.append(f"  … and {len(self) - _SHOWN_RECORDS:,} more in this list")
        return "\n".join(lines)

    def _heading(self) -> str:
        return f"{len(self):,} record{'' if len(self) == 1 else 's'}"


class Hits(Records):
    """Hits of a search, in order. When `truncated`, `len()` is not how many there are: `total` is."""

    __slots__ = ("_count", "_total", "truncated")

    def __init__(self, hits: list[Any], *, truncated: bool, count: Callable[[], int]) -> None:
        super().__init__(hits)
        self.truncated = truncated
        self._count = count
        self._total = None if truncated else len(hits)

    @property
    def total(self) -> int:
        """How many matches the body holds: exact, counted the first time it is asked for."""
        if self._total is None:
            self._total = self._count()
        return self._total

    def _heading(self) -> str:
        if not self.truncated:
            return f"{len(self):,} hit{'' if len(self) == 1 else 's'}"
        known = f"at least {len(self) + 1:,}" if self._total is None else f"{self._total:,}"
        return f"{len(self):,} of {known} hits (cut by max_hits; .total counts them all)"

    def __reduce__(self) -> tuple[Any, ...]:
        return Records, (list(self),)
