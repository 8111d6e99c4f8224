"""Names of earlier releases for flags, variables and settings. Scripts and files of users hold them: they
keep working, with a note that gives the present name."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, MutableMapping
from types import MappingProxyType
from typing import TYPE_CHECKING

from rlm.cli.console.exits import say
from rlm.config_file.setting_names import EARLIER_NAMES
from rlm.errors import UsageError

if TYPE_CHECKING:
    from rlm.config_file.loading import FileSettings

__all__ = ["FLAGS", "VARIABLES", "adopt_earlier_variables", "check_earlier_flags", "note_earlier_settings"]

FLAGS: Mapping[str, str] = MappingProxyType(
    {"--cache": "--reuse-answers", "--no-cache": "--no-document-cache"}
)
VARIABLES: Mapping[str, str] = MappingProxyType(
    {f"RLM_{earlier.upper()}": f"RLM_{present.upper()}" for earlier, present in EARLIER_NAMES.items()}
)


def adopt_earlier_variables(env: MutableMapping[str, str]) -> None:
    """Rename the variables in `env`. Raises UsageError if one is set under both names with other values."""
    for earlier, present in VARIABLES.items():
        value = env.pop(earlier, None)
        if value is None:
            continue
        if env.setdefault(present, value) != value:
            raise UsageError(f"{earlier} and {present} contradict each other: unset {earlier}")
        say(f"{earlier} is called {present} now")


def check_earlier_flags(arguments: Iterable[str]) -> None:
    """Note each flag with an earlier name. Raises UsageError if two look like opposites."""
    given = [one for one in dict.fromkeys(arguments) if one in FLAGS]
    if len(given) == len(FLAGS):
        raise UsageError(
            "--cache and --no-cache are no opposites: write --reuse-answers (of children) or "
            "--no-document-cache (no copy of the input)"
        )
    for flag in given:
        say(f"{flag} is called {FLAGS[flag]} now")


def note_earlier_settings(settings: FileSettings) -> None:
    """Note each setting of a file that has an earlier name there."""
    folder = settings.folder
    for name, setting in [*settings.options.items(), *(folder.options.items() if folder else ())]:
        if setting.written.replace("-", "_") != name:
            say(f"{setting.file}: {setting.written} is called {name} now")
