"""The helpers as the root's prompt names them, in either wording."""

from __future__ import annotations

from collections.abc import Collection

from rlm.prompts.recipes.root import HelperDoc, Wording
from rlm.sandbox.in_kernel.helper_api.registry import HELPERS, NOTES

__all__ = ["root_helpers", "root_notes"]

_CHOICE = ", model=None"


def root_helpers(
    wording: Wording, *, several: bool, looks: bool = False, taken: Collection[str] = ()
) -> tuple[HelperDoc, ...]:
    """Return the helpers of a prompt. `several`: there are sub-models to choose from. `looks`: children can
    look at pages. `taken` are names that tools have."""
    named = [one for one in HELPERS if (looks or not one.needs_pages) and one.name not in taken]
    if wording == "short":
        return tuple(
            HelperDoc(one.name) if one.by_name else HelperDoc(one.short_call, one.brief)
            for one in named
            # The template itself says what it is for.
            if one.name != "help"
        )
    return tuple(
        # With a single model there is nothing to choose.
        HelperDoc(one.call if several else one.call.replace(_CHOICE, ""), one.summary, one.fields)
        for one in named
        if not one.on_demand
    )


def root_notes() -> tuple[tuple[str, str], ...]:
    """Return the part of the full wording and the text of every note on the helpers."""
    return tuple((note.part, note.text) for note in NOTES)
