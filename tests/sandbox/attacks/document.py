"""Read and write the table of docs/security.md, which is made from the catalogue."""

from __future__ import annotations

from pathlib import Path

__all__ = ["DOCUMENT", "table_in", "with_table"]

DOCUMENT = Path(__file__).parents[3] / "docs" / "security.md"
_BEGIN = "<!-- attacks: made by `python -m attacks --docs`, do not edit -->\n"
_END = "<!-- end of attacks -->"


def table_in(text: str) -> str:
    """Return the table of the document."""
    return text.partition(_BEGIN)[2].partition(_END)[0]


def with_table(text: str, table: str) -> str:
    """Return the document with another table."""
    before, _, rest = text.partition(_BEGIN)
    return f"{before}{_BEGIN}{table}{_END}{rest.partition(_END)[2]}"
