"""Replace old rounds in a root's messages by a summary."""

from __future__ import annotations

from collections.abc import Sequence

from rlm.prompts.boundary import ForeignText, bounded
from rlm.prompts.templates import words

__all__ = ["folded_rounds"]

_MAX_VARIABLES = 60


def folded_rounds(last: int, notes: str, variables: Sequence[str]) -> str:
    """Return the message that replaces rounds 1 to `last`.

    `variables` lists what the kernel holds (`name: type, size`). `notes` is the summary of the rounds, or ""
    if there is none.
    """
    shown = "\n".join(variables[:_MAX_VARIABLES]) or "none"
    more = ""
    if len(variables) > _MAX_VARIABLES:
        more = f"and {len(variables) - _MAX_VARIABLES} more: SHOW_VARS() lists all"
    texts = (
        ForeignText("variables", shown, more),
        ForeignText("notes", notes or "No notes could be made of them."),
    )
    return words("folded.md").format(last=last, notes=bounded(texts, "end of the notes"))
