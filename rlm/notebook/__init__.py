"""Questions in a notebook: the magics `%rlm` and `%%rlm`, and progress that a cell shows while it waits.

`%load_ext rlm` loads the magics. IPython is imported then, not before.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from rlm.notebook.progress import NotebookProgress

if TYPE_CHECKING:
    from IPython.core.interactiveshell import InteractiveShell

__all__ = ["NotebookProgress", "load_ipython_extension"]


def load_ipython_extension(shell: InteractiveShell) -> None:
    """Register the magics in a shell, for `%load_ext rlm`."""
    from rlm.notebook.magics import RLMMagics

    register: Any = shell.register_magics
    register(RLMMagics)
