"""Test that the root's prompt and the kernel show previews of the same size."""

from __future__ import annotations

from rlm.prompts.recipes import root
from rlm.sandbox.in_kernel.context_handle import handle


def test_the_kernel_cuts_its_preview_as_the_prompt_does() -> None:
    """The kernel's side imports nothing of the prompts, so it has its own constant."""
    assert handle.PREVIEW_CHARS == root.PREVIEW_CHARS
