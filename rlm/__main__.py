"""`python -m rlm.cli` is `rlm`."""

from rlm.cli import main

main()
