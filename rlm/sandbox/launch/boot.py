"""Runs `main` of a module of the sandbox: `python boot.py PATH MODULE ARGUMENT…`.

This package is imported by its folder, and PATH is added to the import path: what lies beside that folder is
neither listed nor imported.
"""

import importlib.util
import sys
from pathlib import Path

folder = Path(__file__).resolve().parents[2]
path, module, *arguments = sys.argv[1:]
spec = importlib.util.spec_from_file_location(
    "rlm", folder / "__init__.py", submodule_search_locations=[str(folder)]
)
assert spec is not None
assert spec.loader is not None
sys.modules["rlm"] = importlib.util.module_from_spec(spec)
spec.loader.exec_module(sys.modules["rlm"])
sys.path += [place for place in path.split(":") if place not in sys.path]
importlib.import_module(f"rlm.sandbox.{module}").main(arguments)
