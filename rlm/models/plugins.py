"""Providers that other packages register, by entry points of the group `rlm.models`.

An entry point's name is the prefix of its models' names. Its object is a ProviderSpec, or a function without
parameters that returns one. Reading the list of entry points takes a tenth of a second, and loading one runs
code of its package. So neither happens before a name needs it.
"""

from __future__ import annotations

import re
from functools import lru_cache
from importlib.metadata import EntryPoint, entry_points

from rlm.errors import ConfigurationError
from rlm.models.registry import OFFLINE, PROVIDERS, ProviderSpec

__all__ = ["GROUP", "load_plugin", "load_plugins", "plugin_package", "plugin_prefixes"]

GROUP = "rlm.models"
_PREFIX = re.compile(r"[a-z][a-z0-9_-]*")


def plugin_prefixes() -> tuple[str, ...]:
    """Return the prefixes that other packages register. Loads none of them."""
    return tuple(_find_entries())


def plugin_package(prefix: str) -> str | None:
    """Return the package that registers `prefix`; None for a provider of our own."""
    entry = _find_entries().get(prefix)
    if entry is None:
        return None
    return entry.dist.name if entry.dist is not None else entry.module.partition(".")[0]


def load_plugin(prefix: str) -> None:
    """Add the provider that another package registers as `prefix` to PROVIDERS. Raises ConfigurationError, in
    one line, if the package is broken."""
    if prefix in PROVIDERS:
        return
    try:
        made = _find_entries()[prefix].load()
        spec = made() if callable(made) else made
        if not isinstance(spec, ProviderSpec):
            raise TypeError(f"it is a {type(spec).__name__}, not a ProviderSpec")
    except (Exception, SystemExit) as error:  # the boundary to the package: it may do anything
        first = (str(error).strip().splitlines() or [""])[0]
        raise ConfigurationError(
            f"the provider {prefix} of the package {plugin_package(prefix)} can't be loaded "
            f"({type(error).__name__}: {first[:200]}): update the package, or uninstall it"
        ) from None
    PROVIDERS[prefix] = spec


def load_plugins() -> list[str]:
    """Add every provider of other packages to PROVIDERS. Return one line for each that is broken."""
    faults = []
    for prefix in plugin_prefixes():
        try:
            load_plugin(prefix)
        except ConfigurationError as error:
            faults.append(str(error))
    return faults


@lru_cache(maxsize=1)
def _find_entries() -> dict[str, EntryPoint]:
    """Return the entry points by prefix, sorted. One that takes the prefix of a provider of our own, or of
    a package before it, is ignored: a name must not change its meaning."""
    try:
        found = sorted(entry_points(group=GROUP), key=lambda entry: (entry.name, entry.value))
    except Exception:  # the metadata of any installed package may be damaged
        return {}
    entries: dict[str, EntryPoint] = {}
    for entry in found:
        taken = entry.name in PROVIDERS or entry.name in OFFLINE
        if _PREFIX.fullmatch(entry.name) and not taken:
            entries.setdefault(entry.name, entry)
    return entries
