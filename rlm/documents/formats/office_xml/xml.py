"""Parsing of the XML in office documents. Names are compared without their namespaces."""

from __future__ import annotations

import posixpath
from collections.abc import Iterator, Mapping
from typing import NamedTuple
from urllib.parse import unquote
from xml.etree import ElementTree

from rlm.documents.formats.archive import Archive
from rlm.documents.formats.piece import Unreadable

__all__ = [
    "Element",
    "Link",
    "attribute",
    "children",
    "find",
    "is_on",
    "links_of",
    "local_name",
    "number",
    "parse",
    "parse_member",
    "rows",
]

Element = ElementTree.Element


class Link(NamedTuple):
    """A relation of an Office Open XML part: the last word of its type, and the member it names."""

    kind: str
    target: str


def parse(data: bytes, what: str) -> Element:
    """Return the root of an XML text that declares no entities. Raises Unreadable, which names `what`."""
    try:
        # Archive.xml refuses documents that declare entities.
        return ElementTree.fromstring(data)  # noqa: S314
    except (ElementTree.ParseError, RecursionError, ValueError, LookupError) as error:
        raise Unreadable(
            f"{what} that is not valid XML", "open it in its program and save it again"
        ) from error


def parse_member(archive: Archive, name: str, what: str) -> Element:
    """Return the root of an XML member. Raises Unreadable."""
    return parse(archive.xml(name), f"{what} whose part {name[:80]!r} is damaged,")


def links_of(archive: Archive, name: str, what: str) -> Mapping[str, Link]:
    """Return the relations of a member by their ids. Links out of the archive are left out."""
    folder, base = posixpath.split(name)
    path = posixpath.join(folder, "_rels", f"{base}.rels")
    if path not in archive:
        return {}
    found = {}
    for one in parse_member(archive, path, what):
        target = one.get("Target", "")
        if one.get("TargetMode") != "External" and target:
            inside = posixpath.normpath(posixpath.join("/", folder, unquote(target))).lstrip("/")
            found[one.get("Id", "")] = Link(one.get("Type", "").rpartition("/")[2], inside)
    return found


def local_name(element: Element) -> str:
    """Return the name of an element without its namespace."""
    tag = element.tag
    return tag.rpartition("}")[2] if isinstance(tag, str) else ""


def attribute(element: Element, name: str) -> str:
    """Return an attribute by its name without a namespace; "" without one."""
    found = element.get(name)
    if found is not None:
        return found
    end = "}" + name
    return next((value for key, value in element.items() if key.endswith(end)), "")


def children(element: Element | None, name: str) -> Iterator[Element]:
    """Yield the children of this name."""
    for child in element if element is not None else ():
        if local_name(child) == name:
            yield child


def find(element: Element | None, *path: str) -> Element | None:
    """Return the first descendant along a path of names, or None."""
    for name in path:
        element = next(children(element, name), None)
    return element


def number(element: Element | None) -> int | None:
    """Return the value (`val`) of an element as a number, None without one."""
    value = attribute(element, "val")[:9] if element is not None else ""
    return int(value) if value.isdecimal() else None


def is_on(element: Element | None) -> bool:
    """Return whether a property is set: it is there, and its value does not say otherwise."""
    return element is not None and attribute(element, "val") not in ("0", "false", "off")


def rows(table: list[list[str]]) -> str:
    """Return a table as lines, its cells between ` | `. Rows without text are left out."""
    lines = (
        " | ".join(" ".join(cell.split()) for cell in row).rstrip(" |")
        for row in table
        if any(map(str.strip, row))
    )
    return "".join(f"{line}\n" for line in lines)
