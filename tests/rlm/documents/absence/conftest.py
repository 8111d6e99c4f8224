"""Make the samples of every kind of document importable: tests are no packages."""

from __future__ import annotations

import importlib.util
import sys
from pathlib import Path

_SPEC = importlib.util.spec_from_file_location("document_samples", Path(__file__).with_name("samples.py"))
assert _SPEC is not None
assert _SPEC.loader is not None
sys.modules["document_samples"] = importlib.util.module_from_spec(_SPEC)
_SPEC.loader.exec_module(sys.modules["document_samples"])
