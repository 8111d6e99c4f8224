"""The helpers as the root's prompt names them."""

from __future__ import annotations

from collections.abc import Collection

from rlm.prompts.recipes.root import HelperDoc
from rlm.sandbox.in_kernel.helper_api.registry import HELPERS

__all__ = ["root_helpers"]


def root_helpers(*, looks: bool = False, taken: Collection[str] = ()) -> tuple[HelperDoc, ...]:
    """Return the helpers of a prompt. `looks`: children can look at pages. `taken` are names that tools
    have."""
    return tuple(
        HelperDoc(one.short_call, one.summary)
        for one in HELPERS
        if (looks or not one.needs_pages) and one.name not in taken
    )
