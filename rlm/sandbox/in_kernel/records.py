"""Defines the results of the handle: dicts with attribute access, and texts with their span."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, MutableMapping
from typing import Any, Self, SupportsIndex, overload

from ..text.body import Span

__all__ = [
    "SHOWN_TEXT",
    "DocumentRecord",
    "Hit",
    "Hits",
    "LazyRecord",
    "Line",
    "Passages",
    "Record",
    "Records",
    "Text",
    "Values",
    "shown",
]

SHOWN_TEXT = 200
_SHOWN_RECORDS = 5


class Text(str):
    """A str from the body with its `span`. Strings derived from it are ordinary ones."""

    __slots__ = ("span",)
    span: Span | None

    def __new__(cls, text: str, span: Span | None = None) -> Self:
        made = super().__new__(cls, text)
        made.span = span
        return made

    @property
    def start(self) -> int:
        """Return where it begins in the body."""
        return self._place().start

    @property
    def end(self) -> int:
        """Return where it ends in the body."""
        return self._place().end

    def _place(self) -> Span:
        if self.span is None:
            raise AttributeError("this text has no place: it is not from the input")
        return self.span


class Values(tuple[Any, ...]):
    """A tuple that is no place of the body, even if it holds two numbers."""


class Line(str):
    """A line without its line end: a str with `number` and `start`.

    It can also be used as a record: `line.start` and `line["start"]` are the same.
    """

    FIELDS = ("number", "start", "end", "text")
    __slots__ = ("number", "start")
    number: int
    start: int

    def __new__(cls, text: str, number: int = 0, start: int = 0) -> Self:
        made = super().__new__(cls, text)
        made.number = number
        made.start = start
        return made

    @property
    def end(self) -> int:
        """Return the end of the line's text."""
        return self.start + len(self)

    @property
    def text(self) -> Text:
        """Return the line as `peek` would."""
        return Text(str(self), self.span)

    @property
    def span(self) -> Span:
        """Return the span of the line's text."""
        return Span(self.start, self.end)

    def __getitem__(self, at: Any) -> Any:
        if isinstance(at, str):
            if at not in self.FIELDS:
                raise KeyError(f"there is no field {at!r}. A line is a str with {', '.join(self.FIELDS)}.")
            return getattr(self, at)
        return super().__getitem__(at)

    def __repr__(self) -> str:
        return shown(str(self))


def shown(value: object, length: int | None = None) -> str:
    """Return `value` for printing. A long text is cut; its length (or `length`) is added."""
    if isinstance(value, str):
        whole = len(value) if length is None else length
        if whole > SHOWN_TEXT:
            return f"{str(value[:SHOWN_TEXT])!r}… ({whole:,} characters)"
        return repr(str(value))
    printed = repr(value)
    if len(printed) <= 3 * SHOWN_TEXT:
        return printed
    return f"{printed[: 2 * SHOWN_TEXT]}… ({type(value).__name__})"


class Record(dict[str, Any]):
    """A dict whose keys can be read as attributes: `h["start"]` and `h.start` are the same."""

    __slots__ = ()

    def __getattr__(self, name: str) -> Any:
        try:
            return self[name]
        except KeyError:
            raise AttributeError(self._lacks(name)) from None

    def __missing__(self, key: Any) -> Any:
        raise KeyError(self._lacks(key))

    def _lacks(self, key: Any) -> str:
        return f"there is no field {key!r}. The fields are {', '.join(self)}."

    def __repr__(self) -> str:
        return "{" + ", ".join(f"{key!r}: {self._shown(key)}" for key in self) + "}"

    def _shown(self, key: str) -> str:
        return shown(self[key])


class DocumentRecord(Record):
    """A record of documents(). `text` is its text, and `page(n)` a page of it, counted from 1."""

    __slots__ = ("_handle",)

    def __init__(self, fields: Mapping[str, Any], handle: Any) -> None:
        super().__init__(fields)
        self._handle = handle

    @property
    def text(self) -> Text:
        """The whole text. Raises ValueError for more than 20,000,000 characters."""
        text: Text = self._handle.whole_text(self["start"], self["end"])
        return text

    def page(self, number: int) -> Record:
        """Return document, page, start and end of a page. Raises ValueError if there is no such page."""
        page: Record = self._handle.page(self, number)
        return page

    def __reduce__(self) -> tuple[Any, ...]:
        return Record, (dict(self),)


class _Later:
    """Placeholder in a lazy record for a field that is computed on access."""

    __slots__ = ()


_LATER = _Later()


class LazyRecord(Record):
    """A record that reads its texts from the body on each access and keeps none of them.

    Its `source` computes a field (`value(record, key)`) and its short form for printing (`shown`).
    """

    __slots__ = ("_source",)
    __hash__ = None  # type: ignore[assignment]

    def __init__(self, held: dict[str, Any], later: tuple[str, ...], source: Any) -> None:
        super().__init__(held)
        dict.update(self, dict.fromkeys(later, _LATER))
        self._source = source

    def __getitem__(self, key: str) -> Any:
        value = dict.__getitem__(self, key)
        return self._source.value(self, key) if value is _LATER else value

    def __iter__(self) -> Iterator[str]:
        # Defined here, because ** and dict() bypass __getitem__ for an inherited __iter__.
        return dict.__iter__(self)

    # A dict reads its values itself. These ask for each.
    get: Any = MutableMapping.get
    items: Any = MutableMapping.items
    values: Any = MutableMapping.values
    setdefault: Any = MutableMapping.setdefault
    __eq__: Any = MutableMapping.__eq__

    def pop(self, key: str, *default: Any) -> Any:
        value = self.get(key)
        super().pop(key, *default)
        return value if value is not None or not default else default[0]

    def popitem(self) -> tuple[str, Any]:
        key = next(reversed(list(self)))
        return key, self.pop(key)

    def copy(self) -> Record:
        return Record(self.items())

    def __or__(self, other: Any) -> Any:
        return self.copy() | other

    def __ror__(self, other: Any) -> Any:
        return other | self.copy()

    def __ne__(self, other: object) -> bool:
        return not self == other

    def __reduce__(self) -> tuple[Any, ...]:
        return Record, (dict(self.items()),)

    def _shown(self, key: str) -> str:
        value = dict.__getitem__(self, key)
        return self._source.shown(self, key) if value is _LATER else shown(value)


class Hit(LazyRecord):
    """A match. As a slice or as evidence, it includes the text around it."""

    __slots__ = ()
    __hash__ = None

    def passage(self) -> Span:
        """Return the span that a child reads."""
        return Span(*self._source.passage(self))

    def proof(self) -> Span:
        """Return the span that is quoted as evidence."""
        return Span(*self._source.proof(self))


class Records(list[Any]):
    """A list of records that prints its length and its first few."""

    __slots__ = ()

    @overload
    def __getitem__(self, at: SupportsIndex) -> Any: ...
    @overload
    def __getitem__(self, at: slice) -> Records: ...
    def __getitem__(self, at: SupportsIndex | slice) -> Any:
        found = super().__getitem__(at)
        return Records(found) if isinstance(at, slice) else found

    def __repr__(self) -> str:
        if not self:
            return "[]"
        first = list.__getitem__(self, slice(_SHOWN_RECORDS))
        shown_lines, printed = self._shown_lines(first)
        lines = [self._heading(), *shown_lines]
        if len(self) > printed:
            lines.append(f"  … and {len(self) - printed:,} more in this list")
        return "\n".join(lines)

    def _shown_lines(self, first: list[Any]) -> tuple[list[str], int]:
        """Return the lines of the first items, and how many items they show."""
        if isinstance(first[0], Hit):
            lines: tuple[list[str], int] = first[0]._source.lines(self)
            return lines
        return [f"  {record!r}" for record in first], len(first)

    def _heading(self) -> str:
        return f"{len(self):,} record{'' if len(self) == 1 else 's'}"


class Passages(list[Text]):
    """Texts of the body in order, none of which touches the next, with the number of places in each.

    It prints each text under its place.
    """

    __slots__ = ("_heads",)

    def __init__(self, texts: Iterable[Text], heads: Iterable[str]) -> None:
        super().__init__(texts)
        self._heads = list(heads)

    def __repr__(self) -> str:
        if len(self._heads) != len(self):  # a cell has changed the list
            return super().__repr__()
        return "\n".join(f"{head}\n{text}" for head, text in zip(self._heads, self, strict=True)) or "[]"

    def __reduce__(self) -> tuple[Any, ...]:
        return list, (list(self),)


class Hits(Records):
    """Hits of a search, in order. If `truncated`, `total` is the number of all matches, not `len()`."""

    __slots__ = ("_count", "_total", "truncated")

    def __init__(self, hits: list[Any], *, truncated: bool, count: Callable[[], int]) -> None:
        super().__init__(hits)
        self.truncated = truncated
        self._count = count
        self._total = None if truncated else len(hits)

    @property
    def total(self) -> int:
        """Return the exact number of matches in the body. Counted on first access."""
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
