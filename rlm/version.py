"""The version of the distribution, and the command that installs an extra of it."""

__all__ = ["__version__", "install_command"]

__version__ = "0.2.0"


def install_command(extra: str) -> str:
    """Return the command for a clone: the distribution is on no index."""
    return f"pip install -e '.[{extra}]'"
