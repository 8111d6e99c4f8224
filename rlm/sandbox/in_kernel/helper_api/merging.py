"""Merges the items that many children extracted: equal ones become one, which knows where it was found."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any

from ..body.body import Span
from ..context_handle.records import Record, Records
from .children import ChildResult

__all__ = ["MergedItem", "merge_answers"]

Key = str | list[str] | tuple[str, ...] | Callable[[Any], Any] | None
_OWN_VALUE = "value"
"""The field that holds an item which is no object."""


class MergedItem(Record):
    """One item: its fields, and as attributes where it comes from.

    spans: the slices in which it was found, in order. conflicts: {field: the other values}, where later
    answers differ. As evidence it is the place of its longest quote in these slices, otherwise the slices.
    """

    __slots__ = ("conflicts", "spans")
    spans: list[Span]
    conflicts: dict[str, list[Any]]

    def quotes(self) -> list[str]:
        """Return the texts in its fields, the longest first."""
        return sorted((value for value in self.values() if isinstance(value, str)), key=len, reverse=True)

    def __reduce__(self) -> tuple[Any, ...]:
        return Record, (dict(self),)


def merge_answers(answers: Any, key: Key) -> Records:
    """Return the items of all answers in order, each once. Raises TypeError for anything but answers."""
    merged: dict[Any, MergedItem] = {}
    for answer in _answers(answers):
        for item in _items(answer.value):
            fields = dict(item) if isinstance(item, Mapping) else {_OWN_VALUE: item}
            identity = _identity(item, fields, key)
            if identity not in merged:
                merged[identity] = made = MergedItem(fields)
                made.spans, made.conflicts = [], {}
            else:
                _add_fields(merged[identity], fields)
            spans = merged[identity].spans
            if answer.span is not None and answer.span not in spans:
                spans.append(answer.span)
    return Records(merged.values())


def _answers(given: Any) -> Iterator[ChildResult]:
    """Yield the answers that hold something."""
    if isinstance(given, ChildResult):
        given = [given]
    if isinstance(given, (str, Mapping)) or not isinstance(given, Iterable):
        raise TypeError(
            f"answers must be what sub_query_batch(..., schema=...) returned, not {type(given).__name__}"
        )
    for answer in given:
        if isinstance(answer, ChildResult):
            if answer.found and answer.value is None:
                raise TypeError("the answers have no .value: merge() takes those of a batch with schema=")
            if answer.found:
                yield answer
        else:
            yield from _answers(answer)


def _items(value: Any) -> list[Any]:
    """Return the items of one answer: those of its list, or of the only list among its fields, or itself."""
    if isinstance(value, Mapping):
        lists = [inner for inner in value.values() if isinstance(inner, list)]
        return lists[0] if len(value) == len(lists) == 1 else [value]
    return value if isinstance(value, list) else [value]


def _identity(item: Any, fields: Mapping[str, Any], key: Key) -> Any:
    if key is None:
        chosen: Any = item
    elif callable(key):
        chosen = key(item)
    else:
        names = [key] if isinstance(key, str) else list(key)
        for name in names:
            if name not in fields:
                raise ValueError(f"an item has no field {name!r}. Its fields are {', '.join(fields)}.")
        chosen = [fields[name] for name in names]
    return json.dumps(_folded(chosen), sort_keys=True, ensure_ascii=False, default=repr)


def _folded(value: Any) -> Any:
    """Return a value without what two children write differently: case and white space."""
    if isinstance(value, str):
        return " ".join(value.split()).casefold()
    if isinstance(value, Mapping):
        return {str(name): _folded(inner) for name, inner in value.items()}
    if isinstance(value, (list, tuple)):
        return [_folded(inner) for inner in value]
    return value


def _add_fields(item: MergedItem, fields: Mapping[str, Any]) -> None:
    """Fill what is empty in `item`, and note what differs."""
    for name, value in fields.items():
        if item.get(name) in (None, "", [], {}):
            item[name] = value
        elif value not in (None, "", [], {}) and _folded(value) != _folded(item[name]):
            others = item.conflicts.setdefault(name, [])
            if value not in others:
                others.append(value)
