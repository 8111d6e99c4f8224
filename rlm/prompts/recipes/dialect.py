"""Build the words for a root that was trained for another RLM system: its instructions and corrections."""

from __future__ import annotations

from typing import Literal

from rlm.prompts.recipes.corrections import excerpt
from rlm.prompts.templates import table

__all__ = ["Dialect", "dialect_correction", "dialect_instructions"]

Dialect = Literal["own", "rlms", "paper", "prime", "dspy"]
"""The names and the format that a root knows. "own" are those of this package."""


def dialect_instructions(dialect: Dialect) -> str:
    """Return the system text of a dialect other than "own"."""
    data = table("dialects.toml")
    tie = data["tie"]["words"].format(final=data["tie"][dialect])
    return f"{data['system'][dialect].strip()}\n{tie}"


def dialect_correction(dialect: Dialect, violation: str, received: str) -> str:
    """Return the message after a reply that is not run, in the words of the dialect. The excerpt of the reply
    has at most 200 characters."""
    data = table("dialects.toml")["correction"]
    if violation == "repeated_block":
        what = str(table("corrections.toml")["violations"][violation])
    else:
        what = data["truncated" if violation == "truncated_reply" else "empty"]
    frame: str = data["frame"]
    return frame.format(violation=violation, what=what, received=excerpt(received), shape=data[dialect])
