"""`python -m rlm.cli` is `rlm`."""

from rlm.cli.app import main

main()
