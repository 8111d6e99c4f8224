"""`python -I -m rlm.sandbox.supervisor CHANNEL_FD HELPER_FD`: supervises one kernel.

CHANNEL_FD leads to the driver. HELPER_FD is passed on to the kernel.
"""

from __future__ import annotations

import socket
import sys

from rlm.sandbox.launch.provisioner import run_kernel
from rlm.sandbox.supervisor import service

if __name__ == "__main__":
    service.run(socket.socket(fileno=int(sys.argv[1])), int(sys.argv[2]), run_kernel)
