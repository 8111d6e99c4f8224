"""The zip archives and the XML of office documents. Names are compared without their namespaces.

Sizes are checked before anything is unpacked, and XML that declares entities is refused: they can expand
without limit.
"""

from __future__ import annotations

import io
import posixpath
import zipfile
from collections.abc import Iterable, Iterator, Mapping
from types import MappingProxyType
from typing import BinaryIO, NamedTuple
from urllib.parse import unquote
from xml.etree import ElementTree

from rlm.documents.formats.flow import link_target, rows
from rlm.documents.formats.piece import Fault, Problem

__all__ = [
    "KNOWN_TO_EXCEL",
    "Archive",
    "Element",
    "Link",
    "attribute",
    "chart_text",
    "chart_titles",
    "children",
    "diagram_text",
    "drawn_paragraphs",
    "find",
    "is_locked",
    "is_on",
    "local_name",
    "number",
    "parse",
    "refuse_compound",
    "refuse_entities",
    "unread_pictures",
]

_MAX_BYTES = 512 << 20
_MAX_MEMBERS = 20_000
_MAX_RATIO = 200
_SMALL = 32 << 20
"""Bytes that an archive may unpack to at any ratio: empty pages compress well."""
_ENCRYPTED = 0x1
_COMPOUND = b"\xd0\xcf\x11\xe0\xa1\xb1\x1a\xe1"
_ENCRYPTED_PACKAGE = "EncryptedPackage".encode("utf-16-le")
KNOWN_TO_EXCEL = "perhaps one that Excel knows, and does not ask for"
_MAX_POINTS = 10_000
"""Values of a chart's series that are read."""
_MAX_SERIES = 500

Element = ElementTree.Element


class Link(NamedTuple):
    """A relation of an Office Open XML part: the last word of its type, and the member it names, or for a
    link out of the archive its address."""

    kind: str
    target: str
    is_outside: bool = False


def refuse_compound(file: BinaryIO, *, may_be_old: bool = False) -> None:
    """Raise Fault if a file that should be a zip archive is an OLE file: one with a password, or, unless it
    `may_be_old`, an old document."""
    file.seek(0)
    if file.read(len(_COMPOUND)) == _COMPOUND and (not may_be_old or _ENCRYPTED_PACKAGE in file.read()):
        old = KNOWN_TO_EXCEL if may_be_old else "or an old document"
        raise Fault("locked", old, "" if may_be_old else "save it in its current format without a password")
    file.seek(0)


def is_locked(member: zipfile.ZipInfo) -> bool:
    """Return whether a member is protected by a password."""
    return bool(member.flag_bits & _ENCRYPTED)


class Archive:
    """The members of a zip archive, read one at a time. Nested archives are never opened.

    Raises Fault for an archive that is encrypted, unpacks to more than 512 MB, or to more than 32 MB and 200
    times its size. What it raises for a damaged part is the library's.
    """

    def __init__(self, file: BinaryIO, size: int) -> None:
        self._zip = zipfile.ZipFile(file)
        members = self._zip.infolist()
        total = sum(member.file_size for member in members)
        if (
            len(members) > _MAX_MEMBERS
            or total > _MAX_BYTES
            or (total > _SMALL and total > _MAX_RATIO * size)
        ):
            raise Fault("large", f"{total / 2**20:,.0f} MB in {len(members):,} parts, a zip bomb?")
        if any(map(is_locked, members)):
            raise Fault("locked")

    def __contains__(self, name: str) -> bool:
        return name in self._zip.NameToInfo

    def names(self) -> list[str]:
        """Return the names of all members."""
        return self._zip.namelist()

    def size(self, name: str) -> int:
        """Return the bytes of a member, as the archive states them."""
        return self._zip.getinfo(name).file_size

    def read(self, name: str) -> bytes:
        """Return one member."""
        return self._zip.read(name)

    def changed(self, name: str, data: bytes) -> BinaryIO:
        """Return the archive with one member changed."""
        made = io.BytesIO()
        with zipfile.ZipFile(made, "w") as copy:
            for one in self.names():
                copy.writestr(one, data if one == name else self.read(one))
        made.seek(0)
        return made

    def xml(self, name: str) -> Element:
        """Return the root of an XML member. Raises Fault if it declares entities."""
        return parse(self.read(name))

    def main(self, default: str) -> str:
        """Return the name of the main part of an Office Open XML file. Raises Fault without one."""
        links = self.links("").values()
        name = next((link.target for link in links if link.kind == "officeDocument"), default)
        if name not in self:
            raise Fault("foreign", "a zip archive", "unpack the archive and name its text files")
        return name

    def links(self, name: str) -> Mapping[str, Link]:
        """Return the relations of a member by their ids."""
        folder, base = posixpath.split(name)
        path = posixpath.join(folder, "_rels", f"{base}.rels")
        if path not in self:
            return {}
        found = {}
        for one in self.xml(path):
            kind, target = one.get("Type", "").rpartition("/")[2], one.get("Target", "")
            if one.get("TargetMode") == "External":
                found[one.get("Id", "")] = Link(f"outside {kind}", target, is_outside=True)
            elif target:
                inside = posixpath.normpath(posixpath.join("/", folder, unquote(target))).lstrip("/")
                found[one.get("Id", "")] = Link(kind, inside)
        return found


def parse(data: bytes) -> Element:
    """Return the root of an XML text. Raises Fault if it declares entities."""
    refuse_entities(data)
    return ElementTree.fromstring(data)  # noqa: S314


def refuse_entities(data: bytes) -> None:
    """Raise Fault for an XML text that declares entities."""
    if b"<!ENTITY" in data.replace(b"\0", b""):
        raise Fault("large", "it declares entities, an XML bomb?")


def local_name(element: Element) -> str:
    """Return the name of an element without its namespace."""
    tag = element.tag
    return tag.rpartition("}")[2] if isinstance(tag, str) else ""


def attribute(element: Element | None, name: str) -> str:
    """Return an attribute by its name without a namespace; "" without one."""
    if element is None:
        return ""
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


def number(element: Element | None, name: str = "val") -> int | None:
    """Return an attribute as a number, None without one."""
    value = attribute(element, name)[:9]
    return int(value) if value.isdecimal() else None


def is_on(element: Element | None) -> bool:
    """Return whether a property is set: it is there, and its value does not say otherwise."""
    return element is not None and attribute(element, "val") not in ("0", "false", "off")


def drawn_paragraphs(body: Element | None, links: Mapping[str, Link] = MappingProxyType({})) -> str:
    """Return the paragraphs of a text body, one a line, as deep as they are in a list."""
    lines = []
    for paragraph in children(body, "p"):
        words: list[str] = []
        target = ""
        for part in paragraph.iter():
            match local_name(part):
                case "hlinkClick":  # stands before the text of its run
                    link = links.get(attribute(part, "id"))
                    target = link.target if link and link.is_outside else ""
                case "t":
                    words += [part.text or "", link_target(target, part.text or "")]
                    target = ""
                case "br":
                    words.append("\n")
                case "tab":
                    words.append("\t")
        depth = min(number(paragraph[0], "lvl") or 0, 8) if len(paragraph) else 0
        if text := "".join(words).replace("\v", "\n").rstrip():
            lines.append(f"{'  ' * depth}{text}\n")
    return "".join(lines)


def unread_pictures(files: Iterable[str]) -> Iterator[Problem]:
    """Yield the problem of pictures and embedded objects, of which the files are given. One that is shown
    again counts once, and those without a file ("") all count."""
    files = list(files)
    if count := files.count("") + len(set(files) - {""}):
        what = f"the words in pictures and embedded objects were not read ({count:,})"
        yield Problem(what, "export it as PDF if they matter")


def chart_text(root: Element) -> str:
    """Return the titles of a chart, then its values as a table: a row for each category, a column for each
    series."""
    names: list[str] = []
    table: dict[str, list[str]] = {}
    for series in root.iter():
        if local_name(series) != "ser" or len(names) == _MAX_SERIES:
            continue
        names.append(" ".join(_points(find(series, "tx")).values()))
        categories = _points(find(series, "cat")) or _points(find(series, "xVal"))
        values = _points(find(series, "val")) or _points(find(series, "yVal"))
        for index, value in values.items():
            row = table.setdefault(categories.get(index, str(index + 1)), [])
            row += [""] * (len(names) - 1 - len(row))
            row.append(value)
    named = [["", *names]] if any(names) else []
    text = rows([*named, *([key, *values] for key, values in table.items())])
    return "".join(f"{title}\n" for title in chart_titles(root)) + text


def diagram_text(root: Element) -> str:
    """Return the texts of a SmartArt drawing, one a line."""
    return "".join(drawn_paragraphs(part) for part in root.iter() if local_name(part) == "t" and len(part))


def chart_titles(root: Element) -> Iterator[str]:
    """Yield the title of a chart, and those of its axes, each on a line."""
    for title in root.iter():
        if local_name(title) == "title":
            paragraphs = (part for part in title.iter() if local_name(part) == "p")
            words = ("".join(t.text or "" for t in one.iter() if local_name(t) == "t") for one in paragraphs)
            if text := " ".join(" ".join(words).split()):
                yield text


def _points(element: Element | None) -> dict[int, str]:
    """Return the stored values of a series by their index."""
    found: dict[int, str] = {}
    for point in element.iter() if element is not None else ():
        if local_name(point) == "pt" and len(found) < _MAX_POINTS:
            value = "".join(one.text or "" for one in children(point, "v"))
            index = number(point, "idx")
            found[len(found) if index is None else index] = value
    return found
