"""`python -I -m rlm.sandbox.broker CHANNEL_FD HELPER_FD`: serves one kernel to the
driver at the other end of CHANNEL_FD; HELPER_FD is the kernel's."""

from __future__ import annotations

import socket
import sys

from rlm.sandbox.broker import service
from rlm.sandbox.launch.provisioner import run_kernel

if __name__ == "__main__":
    service.run(socket.socket(fileno=int(sys.argv[1])), int(sys.argv[2]), run_kernel)
