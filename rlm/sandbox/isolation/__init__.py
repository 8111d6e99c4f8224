"""Confines processes: `layers` and `filters` hold the mechanisms, `policy` the layers of each level.

Standard library only: the launcher imports this package before the kernel's interpreter starts.
"""
