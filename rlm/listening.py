"""Listens for HTTP: the socket and uvicorn's server, for `rlm serve` and `rlm mcp --http`."""

from __future__ import annotations

import socket
from collections.abc import Iterator
from contextlib import contextmanager

import uvicorn

from rlm.errors import ConfigurationError

__all__ = ["HttpServer", "listen"]


class HttpServer(uvicorn.Server):
    """A uvicorn server that takes no signals: the commands handle them."""

    @contextmanager
    def capture_signals(self) -> Iterator[None]:
        """Take no signal."""
        yield


def listen(host: str, port: int) -> socket.socket:
    """Return a socket that listens; port 0 takes any free one. Raises ConfigurationError."""
    bare = host.strip("[]")
    listener = socket.socket(socket.AF_INET6 if ":" in bare else socket.AF_INET, socket.SOCK_STREAM)
    try:
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listener.bind((bare, port))
        listener.listen(1_024)
    except (OSError, OverflowError) as error:
        listener.close()
        reason = getattr(error, "strerror", None) or str(error)
        raise ConfigurationError(f"cannot listen at {host}:{port}: {reason}; choose another port") from None
    return listener
