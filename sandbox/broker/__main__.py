"""`python -I -m sandbox.broker CHANNEL_FD`: serves one kernel to the driver at CHANNEL_FD's other end."""

from __future__ import annotations

import asyncio
import resource
import signal
import socket
import sys

from sandbox.broker.server import BrokerServer

MEMORY = 512 * 2**20


def main() -> None:
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    _, hard = resource.getrlimit(resource.RLIMIT_DATA)
    resource.setrlimit(resource.RLIMIT_DATA, (MEMORY, hard))
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    asyncio.run(BrokerServer(socket.socket(fileno=int(sys.argv[1]))).serve())


if __name__ == "__main__":
    main()
