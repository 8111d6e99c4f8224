"""What a driver says to its forkserver, a byte each."""

from __future__ import annotations

__all__ = ["BROKER", "END"]

BROKER = b"b"
"""Fork a broker. Three descriptors come with it: the broker's channel, the kernel's helper channel, and the
file for the broker's complaints."""
END = b"e"
"""All is in order: end."""
