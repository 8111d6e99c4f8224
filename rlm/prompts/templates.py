"""The words of the prompts, read once from the package's `text` folder."""

from __future__ import annotations

import tomllib
from functools import cache
from importlib.resources import files
from typing import Any

__all__ = ["fill", "table", "words"]


@cache
def words(name: str) -> str:
    """The text of `text/NAME`, without surrounding white space."""
    return files("rlm.prompts").joinpath("text", name).read_text(encoding="utf-8").strip()


@cache
def table(name: str) -> dict[str, Any]:
    """The parsed TOML of `text/NAME`. Shared: read it, don't change it."""
    return tomllib.loads(words(name))


def fill(template: str, values: dict[str, str]) -> str:
    """`template` with every `{{name}}` replaced. A value is never looked through for names again; a line
    that holds nothing but a name leaves with it when the value is empty."""
    lines = []
    for line in template.splitlines():
        name = line.removeprefix("{{").removesuffix("}}")
        if line != f"{{{{{name}}}}}":
            lines.append(line)
        elif values[name]:
            lines.append(values[name])
    return "\n".join(lines)
