"""`python -s -P -m rlm.sandbox.forkserver SOCKET_FD TEMP…`: forks supervisors.

SOCKET_FD leads to the driver. Its private folders are in the TEMP folders.
"""

from __future__ import annotations

import socket
import sys
from pathlib import Path

from rlm.sandbox.forkserver.server import serve

if __name__ == "__main__":
    serve(socket.socket(fileno=int(sys.argv[1])), [Path(top) for top in sys.argv[2:]])
