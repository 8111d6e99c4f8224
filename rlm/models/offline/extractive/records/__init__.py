"""Questions over records: rows of CSV, JSON and JSON Lines, cards of a board, lines of a log.

The modules import each other and the standard library only. Their source is sent to the kernel as a part of
the cell that computes the answer (`cell.py`), so a name must mean the same in all of them.
"""
