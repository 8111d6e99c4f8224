"""Defines what a cell gets of the body, and reads what it gives back to name a part of it.

A `Place` is the record of a span with what names it: a hit, chunk, pack, row, table, page or document. A
`Text` is a str with its span. `spans_of` reads both, and pairs of offsets, wherever a helper takes places.
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Iterable, Iterator, Mapping, MutableMapping, Sequence
from difflib import get_close_matches
from typing import Any, Literal, Self, SupportsIndex, overload

from ..text.body import Body, Document, Span

__all__ = [
    "SHOWN_TEXT",
    "Later",
    "Line",
    "Listed",
    "Passages",
    "Place",
    "Record",
    "Records",
    "Text",
    "Use",
    "is_offset",
    "is_pair",
    "part_of",
    "place_of",
    "resolve_range",
    "shown",
    "spans_of",
    "whole_number",
]

SHOWN_TEXT = 200
_SHOWN_RECORDS = 5
_SHOWN_NAMES = 3
_MOST_COMPARED = 2_000

Use = Literal["place", "part", "slice", "evidence"]
"""What a helper wants of a place. They differ for a hit (its match; its lines with their context, for a part
and a slice; the line that proves it), a child's answer and a row of a query."""


class Text(str):
    """A str from the body, which begins at `start`. Strings derived from it are ordinary ones."""

    __slots__ = ("start",)
    start: int

    def __new__(cls, text: str, start: int = 0) -> Self:
        made = super().__new__(cls, text)
        made.start = start
        return made

    @property
    def end(self) -> int:
        """Return where it ends in the body."""
        return self.start + len(self)

    @property
    def span(self) -> Span:
        """Return its place in the body."""
        return Span(self.start, self.end)

    def stands_for(self, use: Use) -> list[Span]:
        """Return what `spans_of` makes of it."""
        return [self.span]


class Line(Text):
    """A line without its line end: a str with `number` and `start`.

    It can also be used as a record: `line.start` and `line["start"]` are the same.
    """

    FIELDS = ("number", "start", "end", "text")
    __slots__ = ("number",)
    number: int

    def __new__(cls, text: str, start: int = 0, number: int = 0) -> Self:
        made = super().__new__(cls, text, start)
        made.number = number
        return made

    @property
    def text(self) -> Text:
        """Return the line as `peek` would."""
        return Text(str(self), self.start)

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


class Later:
    """A field of a place that is computed on each access. `short` gives its form for printing."""

    __slots__ = ("read", "short")

    def __init__(self, read: Callable[[Place], Any], short: Callable[[Place], str] | None = None) -> None:
        self.read = read
        self.short = short or (lambda place: shown(read(place)))


class Place(Record):
    """A span of the body, `start` to `end`, with what names it. It keeps no text: such fields are `Later`.

    `beside` are attributes that are no fields, for example the text of a document. `reach` returns what the
    place stands for in a use, if that is more than the span.

    A row has the data in `value`. Asking the row for a field of the data raises an error that points there.
    `get` does so too, because a None would go unnoticed.
    """

    __slots__ = ("_beside", "_reach")
    __hash__ = None  # type: ignore[assignment]

    def __init__(
        self,
        fields: Mapping[str, Any],
        *,
        beside: Mapping[str, Callable[[Place], Any]] | None = None,
        reach: Callable[[Place, Use], Span] | None = None,
    ) -> None:
        super().__init__(fields)
        self._beside = beside or {}
        self._reach = reach

    @property
    def span(self) -> Span:
        """Return its place in the body."""
        return Span(whole_number("start", self["start"]), whole_number("end", self["end"]))

    def stands_for(self, use: Use) -> list[Span]:
        """Return what `spans_of` makes of it."""
        return [self.span if self._reach is None else self._reach(self, use)]

    def __getattr__(self, name: str) -> Any:
        try:
            return self[name]
        except KeyError:
            if name not in self._beside:
                raise AttributeError(self._lacks(name)) from None
        return self._beside[name](self)

    def __getitem__(self, key: str) -> Any:
        value = dict.__getitem__(self, key)
        return value.read(self) if type(value) is Later else value

    def get(self, key: Any, default: Any = None) -> Any:
        if key in self:
            return self[key]
        if self._data_holds(key):
            raise KeyError(self._lacks(key))
        return default

    def _lacks(self, key: Any) -> str:
        if self._data_holds(key):
            return f"{key!r} is a field of this row's value: .value[{key!r}]"
        return super()._lacks(key)

    def _data_holds(self, key: Any) -> bool:
        value = dict.get(self, "value")
        return isinstance(value, dict) and key in value

    def __iter__(self) -> Iterator[str]:
        # Defined here, because ** and dict() bypass __getitem__ for an inherited __iter__.
        return dict.__iter__(self)

    # A dict reads its values itself. These ask for each.
    items: Any = MutableMapping.items
    values: Any = MutableMapping.values
    setdefault: Any = MutableMapping.setdefault
    __eq__: Any = MutableMapping.__eq__

    def __ne__(self, other: object) -> bool:
        return not self == other

    def pop(self, key: str, *default: Any) -> Any:
        if key not in self:
            return super().pop(key, *default)
        value = self[key]
        del self[key]
        return value

    def popitem(self) -> tuple[str, Any]:
        key = next(reversed(self))
        return key, self.pop(key)

    def copy(self) -> Record:
        return Record(self.items())

    def __or__(self, other: Any) -> Any:
        return self.copy() | other

    def __ror__(self, other: Any) -> Any:
        return other | self.copy()

    def __reduce__(self) -> tuple[Any, ...]:
        return Record, (dict(self.items()),)

    def _shown(self, key: str) -> str:
        value = dict.__getitem__(self, key)
        return value.short(self) if type(value) is Later else shown(value)


class Records(list[Any]):
    """A list of records that prints its length, as a number of units, and its first few."""

    __slots__ = ("unit",)
    EMPTY: str | None = "[]"
    """What an empty list prints. None: the same as another."""

    def __init__(self, items: Iterable[Any] = (), unit: str = "record") -> None:
        super().__init__(items)
        self.unit = unit

    @overload
    def __getitem__(self, at: SupportsIndex) -> Any: ...
    @overload
    def __getitem__(self, at: slice) -> Records: ...
    def __getitem__(self, at: SupportsIndex | slice) -> Any:
        found = super().__getitem__(at)
        return self._part(found) if isinstance(at, slice) else found

    def _part(self, items: list[Any]) -> Records:
        return Records(items, self.unit)

    def __repr__(self) -> str:
        if not self and self.EMPTY is not None:
            return self.EMPTY
        lines, printed = self._lines()
        more = len(self) - printed
        return "\n".join(
            [self._heading(), *lines, *([f"  … and {more:,} more in this list"] if more > 0 else ())]
        )

    def _lines(self) -> tuple[list[str], int]:
        """Return the lines of the first items, and how many items they show."""
        first = list.__getitem__(self, slice(_SHOWN_RECORDS))
        return [f"  {record!r}" for record in first], len(first)

    def _heading(self) -> str:
        return f"{len(self):,} {self.unit}{'' if len(self) == 1 else 's'}"


class Passages(list[Text]):
    """Texts of the body in order, none of which touches the next. Each prints under its line in `heads`."""

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


class Listed(Sequence[Any]):
    """A list whose items are read when they are asked for. A slice of it is as lazy.

    `item` reads the item of a number. `each` yields those of a range, where that is faster. `about` describes
    the list for printing, without reading it all.
    """

    __slots__ = ("_about", "_each", "_item", "numbers", "unit")

    def __init__(
        self,
        unit: str,
        numbers: range,
        item: Callable[[int], Any],
        about: Callable[[Listed], str],
        each: Callable[[range], Iterable[Any]] | None = None,
    ) -> None:
        self.unit = unit
        self.numbers = numbers
        self._item = item
        self._about = about
        self._each = each

    def __len__(self) -> int:
        return len(self.numbers)

    def __iter__(self) -> Iterator[Any]:
        if self._each is not None and self.numbers.step == 1:
            return iter(self._each(self.numbers))
        return map(self._item, self.numbers)

    def __getitem__(self, at: Any) -> Any:
        if isinstance(at, slice):
            return Listed(self.unit, self.numbers[at], self._item, self._about, self._each)
        try:
            number = self.numbers[at]
        except IndexError:
            raise IndexError(f"there is no {self.unit} {at}: there are {len(self):,}") from None
        return self._item(number)

    def __repr__(self) -> str:
        return f"{len(self):,} {self.unit}s{self._about(self)}" if self else "[]"


def whole_number(name: str, value: Any) -> int:
    """Return `value` as an int. Raises TypeError with the remedy."""
    try:
        return operator.index(value)
    except TypeError:
        raise TypeError(
            f"{name} is a whole number, not {type(value).__name__}: use int(...) or // to make it one"
        ) from None


def resolve_range(start: int, end: int | None, size: int) -> Span:
    """Return the range within 0..`size`. Negative values count from the end; a reversed range is empty."""
    first = min(size, start if start >= 0 else max(0, size + start))
    last = size if end is None else min(size, end if end >= 0 else max(0, size + end))
    return Span(first, max(first, last))


def is_pair(given: Any) -> bool:
    """Return whether `given` is a pair of offsets: a tuple, or a list as JSON has it. A row of a query is
    none, even if it holds two numbers."""
    return (
        isinstance(given, (tuple, list))
        and len(given) == 2
        and not hasattr(type(given), "stands_for")
        and all(map(is_offset, given))
    )


def is_offset(given: Any) -> bool:
    """Return whether `given` is one number. numpy's integers are no int, but they are an index."""
    return hasattr(type(given), "__index__") and not isinstance(given, (bool, str))


def spans_of(
    given: Any, use: Use = "place", own: Callable[[Any], list[Any] | None] | None = None
) -> list[Any]:
    """Return what a cell gives as places, in order: spans, and texts that have no place as str.

    A place is a result (hit, chunk, pack, row, page, document, text, line, answer), a mapping with start and
    end, or a pair of offsets. Any iterable of these stands for all that it holds. `own` is asked first, and
    returns None for what it leaves to this function. Raises TypeError for anything else.
    """
    found = own(given) if own is not None else None
    if found is not None:
        return found
    stands_for = getattr(type(given), "stands_for", None)
    if stands_for is not None:
        return list(stands_for(given, use))
    if is_pair(given):
        return [Span(operator.index(given[0]), operator.index(given[1]))]
    if isinstance(given, str):
        return [given]
    if isinstance(given, Mapping):
        if "start" in given and "end" in given:
            return [Span(whole_number("start", given["start"]), whole_number("end", given["end"]))]
    elif hasattr(given, "__iter__"):
        return [span for one in given for span in spans_of(one, use, own)]
    raise TypeError(
        f"{type(given).__name__} names no part of the input: give a chunk, a hit, a pack, a row, a document, "
        "the text of a peek, (start, end), a str, or a list of these"
    )


def place_of(body: Body, where: Any) -> Span:
    """Return the span of one offset or place, clamped to the body. A negative start counts from the end."""
    if is_offset(where):
        start = end = whole_number("where", where)
    else:
        if isinstance(where, tuple) and len(where) == 2 and not hasattr(type(where), "stands_for"):
            where = (whole_number("start", where[0]), whole_number("end", where[1]))
        try:
            found = spans_of(where)
        except TypeError:
            found = []
        if len(found) != 1 or isinstance(found[0], str):
            raise TypeError(
                "where must be a hit, a chunk, (start, end) or an offset: search() or quote() finds the "
                "place of a text"
            )
        start, end = found[0]
    start, _ = resolve_range(start, None, body.chars)
    return Span(start, max(start, min(end, body.chars)))


def part_of(body: Body, within: Any, name: str = "within") -> Span:
    """Return the part of the body that `within` names: one place, or the name of a document.

    Raises TypeError for anything else, and ValueError for an empty part or an unknown name.
    """
    try:
        found = spans_of(within, "part")
    except TypeError:
        found = []
    if len(found) != 1:
        raise TypeError(
            f"{name} is one place: (start, end), a hit, a chunk, a section, a document or its name, not "
            f"{type(within).__name__}. For several places, call it for each"
        )
    if isinstance(found[0], str):
        document = _document_named(body, found[0])
        found = [Span(document.start, document.end)]
    start, end = resolve_range(found[0].start, found[0].end, body.chars)
    if end <= start:
        raise ValueError(f"{name} ({start}, {end}) holds no character of this input")
    return Span(start, end)


def _document_named(body: Body, name: str) -> Document:
    """Return the document of this name. The end of a path is enough if only one document has it."""
    documents = body.documents
    found = [one for one in documents if one.name == name] or [
        one for one in documents if one.name.endswith(f"/{name}") or one.name.casefold() == name.casefold()
    ]
    if len(found) == 1:
        return found[0]
    if found:
        raise ValueError(f"{len(found)} documents are named {name[:80]!r}: give one of documents() instead")
    names = [one.name for one in documents[:_MOST_COMPARED]]
    near = get_close_matches(name[:200], names, n=_SHOWN_NAMES, cutoff=0.4) or names[:_SHOWN_NAMES]
    raise ValueError(
        f"no document is named {name[:80]!r} (there is {', '.join(map(repr, near)) or 'none'}"
        f"{', …' if len(documents) > len(near) else ''}): documents() lists them"
    )
