"""The version of the distribution, and the extras of it."""

from importlib.util import find_spec

__all__ = ["__version__", "has_extra", "install_command"]

__version__ = "0.2.0"

_PACKAGES = {
    "7z": ("py7zr",),
    "ocr": ("rapidocr", "onnxruntime"),
    "parquet": ("pyarrow",),
    "vision": ("PIL",),
}
"""What the extras that read more of documents install."""


def install_command(extra: str) -> str:
    """Return the command for a clone: the distribution is on no index."""
    return f"pip install -e '.[{extra}]'"


def has_extra(extra: str) -> bool:
    """Return whether the packages of an extra for documents are installed, without importing them."""
    return all(find_spec(name) is not None for name in _PACKAGES[extra])
