"""`python -m rlm` runs the command line."""

import sys

# `python -m` looks for modules in the working folder first, where anybody may have put some. `rlm` and
# `python -P -m rlm` never do.
if not sys.flags.safe_path:
    del sys.path[0]

from rlm.cli import main

main()
