"""Confines kernel processes: one file for each mechanism, and `policy` for the layers of each level.

Standard library only: the launcher imports this package before the kernel's interpreter starts.
"""
