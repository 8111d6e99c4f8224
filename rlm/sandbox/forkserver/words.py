"""The driver's messages to its forkserver, one byte each."""

from __future__ import annotations

__all__ = ["END", "SUPERVISOR"]

SUPERVISOR = b"b"
"""Fork a supervisor. Its channel, the kernel's helper channel and its stderr come as descriptors."""
END = b"e"
"""Exit. This is a normal shutdown, nothing has to be cleaned up."""
