"""Confines a process that parses untrusted documents: it can read its own code and libraries, no more."""

from __future__ import annotations

import sys
from contextlib import suppress

from rlm.sandbox.isolation import capabilities, landlock
from rlm.sandbox.isolation.filters import allowlist
from rlm.sandbox.isolation.filters.kernel import kernel_program
from rlm.sandbox.isolation.interpreter import interpreter_paths

__all__ = ["confine_parser"]

_LIBRARIES = ("/usr/lib", "/usr/lib64", "/usr/local/lib", "/lib", "/lib64", "/etc/ld.so.cache", "/dev/null")


def confine_parser() -> None:
    """Restrict this process for the rest of its life: no other files, no writes, no network sockets.

    Best effort: a kernel without Landlock or seccomp leaves out that layer. Files that are already open,
    such as the document, stay readable.
    """
    code = [path for path in sys.path if path]
    with suppress(OSError):
        capabilities.no_new_privileges()
        landlock.restrict(read=[*interpreter_paths(), *code, *_LIBRARIES], write=(), sockets=())
    with suppress(OSError, KeyError):
        allowlist.install(kernel_program())
