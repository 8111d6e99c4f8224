"""`python -s -P -m sandbox.forkserver SOCKET_FD`: forks brokers for the driver at SOCKET_FD's other end."""

from __future__ import annotations

import socket
import sys

from sandbox.forkserver.server import serve

if __name__ == "__main__":
    serve(socket.socket(fileno=int(sys.argv[1])))
