"""The attack suite: what hostile cells try (the TOML files), a world to try it on, and what came of it.

`PYTHONPATH=tests/sandbox python -m attacks` runs it all and prints the table.
"""
