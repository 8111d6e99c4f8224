"""Read the prompt texts, once, from the package's `text` folder."""

from __future__ import annotations

import tomllib
from functools import cache
from importlib.resources import files
from typing import Any

__all__ = ["fill", "table", "texts", "words"]


@cache
def texts() -> dict[str, str]:
    """Return every file of `text/` by its name."""
    folder = files("rlm.prompts").joinpath("text")
    return {
        one.name: one.read_text(encoding="utf-8")
        for one in sorted(folder.iterdir(), key=lambda one: one.name)
        if one.name.endswith((".md", ".toml"))
    }


@cache
def words(name: str) -> str:
    """Return the text of `text/NAME` without surrounding white space."""
    return files("rlm.prompts").joinpath("text", name).read_text(encoding="utf-8").strip()


@cache
def table(name: str) -> dict[str, Any]:
    """Return the parsed TOML of `text/NAME`. Shared between callers: do not change it."""
    return tomllib.loads(words(name))


def fill(template: str, values: dict[str, str]) -> str:
    """Replace every line `{{name}}` of `template` by its value.

    Values are not searched for names. If a value is empty, its line is removed.
    """
    lines = []
    for line in template.splitlines():
        name = line.removeprefix("{{").removesuffix("}}")
        if line != f"{{{{{name}}}}}":
            lines.append(line)
        elif values[name]:
            lines.append(values[name])
    return "\n".join(lines)
