"""Starts kernels and confined programs: forkserver, watcher and Jupyter's messages.

These words go from a driver to its forkserver. Any other word ends it.
"""

WARM = b"i"
"""Import all that kernels need."""
WATCH = b"w"
"""Fork a watcher. With three descriptors: its channel, the channel of what it watches, the file of stderr."""
