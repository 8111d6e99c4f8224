"""The words in drawings of Office Open XML files: charts and SmartArt."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from rlm.documents.formats.office_xml.xml import Element, attribute, children, find, local_name, rows

__all__ = ["chart_text", "chart_titles", "count_pictures", "diagram_text", "drawn_paragraphs"]

_MAX_POINTS = 10_000
"""Values of a chart's series that are read."""
_MAX_SERIES = 500


def drawn_paragraphs(body: Element | None) -> str:
    """Return the paragraphs of a text body, one a line, as deep as they are in a list."""
    lines = []
    for paragraph in children(body, "p"):
        words: list[str] = []
        for part in paragraph.iter():
            match local_name(part):
                case "t":
                    words.append(part.text or "")
                case "br":
                    words.append("\n")
                case "tab":
                    words.append("\t")
        level = attribute(paragraph[0], "lvl") if len(paragraph) else ""
        depth = min(int(level), 8) if level.isdecimal() else 0
        if text := "".join(words).replace("\v", "\n").rstrip():
            lines.append(f"{'  ' * depth}{text}\n")
    return "".join(lines)


def count_pictures(files: Iterable[str]) -> int:
    """Return how many pictures and objects there are. One that is shown again counts once, and those without
    a file ("") all count."""
    files = list(files)
    return files.count("") + len(set(files) - {""})


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
    """Yield the title of a chart, and those of its axes."""
    for title in root.iter():
        if local_name(title) == "title":
            words = "".join(part.text or "" for part in title.iter() if local_name(part) == "t")
            if words.strip():
                yield words.strip()


def _points(element: Element | None) -> dict[int, str]:
    """Return the stored values of a series by their index."""
    found: dict[int, str] = {}
    for point in element.iter() if element is not None else ():
        if local_name(point) == "pt" and len(found) < _MAX_POINTS:
            index = point.get("idx", "")
            value = "".join(one.text or "" for one in children(point, "v"))
            found[int(index) if index.isdecimal() else len(found)] = value
    return found
