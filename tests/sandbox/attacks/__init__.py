"""Run the attack suite: hostile cells (the TOML files), a world to attack, and the results.

`PYTHONPATH=tests/sandbox python -m attacks` runs it all and prints the table.
"""
