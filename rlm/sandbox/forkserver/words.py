"""The driver's messages to its forkserver, one byte each."""

from __future__ import annotations

__all__ = ["BROKER", "END"]

BROKER = b"b"
"""Fork a broker. Three descriptors come with it: the broker's channel, the kernel's helper channel, and the
file for the broker's stderr."""
END = b"e"
"""Exit. This is a normal shutdown, nothing has to be cleaned up."""
