"""`python -I -m sandbox.broker CHANNEL_FD HELPER_FD`: serves one kernel to the driver at CHANNEL_FD's other
end; HELPER_FD is the kernel's."""

from __future__ import annotations

import socket
import sys

from sandbox.broker import service
from sandbox.provisioner import run_kernel

if __name__ == "__main__":
    service.run(socket.socket(fileno=int(sys.argv[1])), int(sys.argv[2]), run_kernel)
