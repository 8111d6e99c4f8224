"""The life of a broker: a job of a confined worker (`rlm.sandbox.worker`)."""

from __future__ import annotations

import asyncio
import os
import socket

from jupyter_client.session import Session

from rlm.sandbox.broker.server import BrokerServer

__all__ = ["prepare", "serve"]


def prepare(argument: str) -> None:
    """Import what a message needs, by writing and reading one: later nothing can be opened."""
    session = Session(key=b"rehearsal")
    _, parts = session.feed_identities(session.serialize(session.msg("rehearsal", {})))
    session.deserialize(parts)


def serve(argument: str, channel: socket.socket, files: list[int]) -> None:
    """Serve one kernel until the driver closes its end of `channel`. The file is the folder of its sockets.

    Socket names are relative to that folder: its path does not exist in the worker's root.
    """
    (folder,) = files
    os.fchdir(folder)
    os.close(folder)
    asyncio.run(BrokerServer(channel).serve())
