"""Replace old rounds in a root's messages by a summary."""

from __future__ import annotations

from collections.abc import Sequence

from rlm.prompts.templates import words

__all__ = ["folded_rounds"]

_MAX_VARIABLES = 60


def folded_rounds(last: int, notes: str, variables: Sequence[str]) -> str:
    """Return the message that replaces rounds 1 to `last`.

    `variables` lists what the kernel holds (`name: type, size`). `notes` is the summary of the rounds, or ""
    if there is none.
    """
    listed = list(variables[:_MAX_VARIABLES])
    if len(variables) > _MAX_VARIABLES:
        listed.append(f"… and {len(variables) - _MAX_VARIABLES} more (SHOW_VARS() lists all)")
    return words("folded.md").format(
        last=last,
        variables="\n".join(["Variables:", *(listed or ["none"])]),
        notes=notes or "No notes could be made of them.",
    )
