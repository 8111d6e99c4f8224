"""Reading of Jupyter notebooks: the cells and the text of their outputs."""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Iterator
from typing import Any, BinaryIO

from rlm.documents.encoding import decode_whole
from rlm.documents.formats.html import pieces_of_markup
from rlm.documents.formats.piece import Ended, Fault, Heading, Piece, Problem, Text, text_of

__all__ = ["read_notebook"]

_TERMINAL_STYLE = re.compile(r"\x1b\[[0-9;]*[A-Za-z]")
_REMEDY = "open it in Jupyter and save it again"


def read_notebook(file: BinaryIO, size: int) -> Iterator[Piece]:
    """Yield each cell under a heading (`Cell 3 (code)`), its source first, then the text of its outputs.
    Raises Fault for JSON that is no notebook. A problem counts the outputs that hold no text."""
    text, replaced, guessed = decode_whole(file.read())
    cells = _cells(json.loads(text))
    if cells is None:
        raise Fault("foreign", "it has no cells", _REMEDY)
    without_text: Counter[str] = Counter()
    for number, cell in enumerate(cells, 1):
        if not isinstance(cell, dict):
            continue
        kind = str(cell.get("cell_type", "raw"))[:20]
        yield Heading(1, f"Cell {number} ({kind})")
        source = _text(cell.get("source", cell.get("input", "")))
        if source.strip():
            yield Text(source.rstrip("\n") + "\n\n")
        outputs = cell.get("outputs")
        for output in outputs if isinstance(outputs, list) else ():
            if isinstance(output, dict):
                text = _output(output, without_text)
                if text.strip():
                    yield Text(f"Output:\n{text.rstrip()}\n\n")
    if without_text:
        kinds = ", ".join(f"{count:,} {kind}" for kind, count in without_text.most_common(5))
        yield Problem(f"outputs without text were not read ({kinds})", "describe them in a cell")
    yield Ended(replaced, guessed)


def _cells(notebook: Any) -> list[Any] | None:
    """Return the cells of a notebook; None if it is none. Before version 4, they are in worksheets."""
    if not isinstance(notebook, dict):
        return None
    if isinstance(notebook.get("cells"), list):
        return list(notebook["cells"])
    sheets = notebook.get("worksheets")
    if not isinstance(sheets, list):
        return None
    found = [sheet.get("cells") for sheet in sheets if isinstance(sheet, dict)]
    return [cell for cells in found if isinstance(cells, list) for cell in cells]


def _output(output: dict[str, Any], without_text: Counter[str]) -> str:
    """Return the text of an output, and count one without text by its type."""
    if output.get("output_type") in ("error", "pyerr"):
        trace = _text(output.get("traceback"), between="\n")
        return _TERMINAL_STYLE.sub("", trace or f"{output.get('ename')}: {output.get('evalue')}")
    if "text" in output and "data" not in output:
        return _TERMINAL_STYLE.sub("", _text(output["text"]))
    data = output.get("data", output)
    if not isinstance(data, dict):
        return ""
    for kind in ("text/plain", "text/markdown", "text/latex", "text"):
        if text := _text(data.get(kind)):
            return _TERMINAL_STYLE.sub("", text)
    if markup := _text(data.get("text/html")):
        return text_of(pieces_of_markup(markup, titled=False))
    without_text.update(kind for kind in data if "/" in kind)
    return ""


def _text(value: Any, between: str = "") -> str:
    """Return a text, which a notebook may hold as a list of lines."""
    if isinstance(value, list):
        return between.join(line for line in value if isinstance(line, str))
    return value if isinstance(value, str) else ""
