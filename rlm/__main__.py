"""`python -m rlm` runs the command line."""

from rlm.cli import main

main()
