"""The fixtures of runs."""

from tests.rlm.conftest import _block, sandbox_level  # noqa: F401
