"""What stands in a root's messages for rounds that were folded."""

from __future__ import annotations

from collections.abc import Sequence

from rlm.prompts.templates import words

__all__ = ["folded_rounds"]

_VARIABLES = 60


def folded_rounds(last: int, notes: str, variables: Sequence[str]) -> str:
    """The message for rounds 1 to `last`: what the kernel holds (`name: type, size`, one line each), and the
    notes made of the rounds; without any it says that there are none."""
    listed = list(variables[:_VARIABLES])
    if len(variables) > _VARIABLES:
        listed.append(f"… and {len(variables) - _VARIABLES} more (SHOW_VARS() lists all)")
    return words("folded.md").format(
        last=last,
        variables="\n".join(["Variables:", *(listed or ["none"])]),
        notes=notes or "No notes could be made of them.",
    )
