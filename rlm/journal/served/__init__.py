"""What the HTTP server keeps in the store: keys, who asked what, files of users, and which process serves."""

from __future__ import annotations

from rlm.journal.served.files import FileStore, ServedFile
from rlm.journal.served.keys import LOCAL_USER, KeyStore, Role, ServedKey
from rlm.journal.served.lease import Lease
from rlm.journal.served.runs import RunStore, ServedRun, ServedState

__all__ = [
    "LOCAL_USER",
    "FileStore",
    "KeyStore",
    "Lease",
    "Role",
    "RunStore",
    "ServedFile",
    "ServedKey",
    "ServedRun",
    "ServedState",
]
