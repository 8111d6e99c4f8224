"""How a kernel process is confined: one file per mechanism, `policy` for which of them a level needs.

Standard library only: the launcher imports this before the kernel's interpreter starts.
"""
