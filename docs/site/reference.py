"""Write the pages of docs/reference/ that follow from the code: settings and helpers.

`make docs` runs this. A test holds the pages equal to what it would write. With the name of a file it writes
the page of commands there, which is only on the site: `make site`.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

from typer.core import TyperGroup, TyperOption
from typer.main import get_command

from rlm.cli.app import app
from rlm.sandbox.in_kernel.handle import Handle
from rlm.sandbox.in_kernel.helpers import Helpers
from rlm.sandbox.in_kernel.registry import HELPERS, bare_signature
from rlm.settings_table import SETTINGS

__all__ = ["PAGES", "main"]

FOLDER = Path(__file__).parents[1] / "reference"
_FOLDER_MAY = {"any": "yes", "lower": "a lower value", "never": "no"}
_MADE = "<!-- made by `make docs`: do not edit -->\n"


def commands_page() -> str:
    """Return every command with its usage, its help and a table of its options."""
    root = get_command(app)
    assert isinstance(root, TyperGroup)
    shared = _options(root.commands["ask"])
    parts = [
        "# Commands and options\n",
        _MADE,
        "`rlm COMMAND --help` prints the same. `rlm QUESTION PATH…` is short for `rlm ask QUESTION PATH…`.\n",
    ]
    for name, command in _commands(root, "rlm"):
        parts += [f"## {name}\n", *_help(command)]
        own = _options(command)
        common = {flags for flags, row in own.items() if shared.get(flags) == row}
        if name != "rlm ask" and len(common) > 10:
            names = ", ".join(f"`{flags.split('`')[1]}`" for flags in own if flags in common)
            parts.append(f"It also has these options of [rlm ask](#rlm-ask): {names}.\n")
            own = {flags: row for flags, row in own.items() if flags not in common}
        if own:
            parts += [
                "| option | meaning | default | variable |",
                "| --- | --- | --- | --- |",
                *own.values(),
                "",
            ]
    return "\n".join(parts)


def _commands(group: TyperGroup, path: str) -> Iterator[tuple[str, Any]]:
    for name, command in group.commands.items():
        if command.hidden:
            continue
        if isinstance(command, TyperGroup):
            if command.invoke_without_command:
                yield f"{path} {name}", command
            yield from _commands(command, f"{path} {name}")
        else:
            yield f"{path} {name}", command


def _help(command: Any) -> Iterator[str]:
    text, _, examples = (command.help or "").replace("\b", "").partition("Examples:")
    yield " ".join(text.split()) + "\n"
    lines = [line.strip() for line in examples.strip().splitlines() if line.strip()]
    if lines:
        yield "\n".join(["<!-- not run: examples of the help text -->", "```sh", *lines, "```", ""])


def _options(command: Any) -> dict[str, str]:
    """Return one row of a table for each option, by its flags."""
    rows = {}
    for option in command.params:
        if not isinstance(option, TyperOption) or option.hidden or option.name == "help":
            continue
        flags = ", ".join(f"`{flag}`" for flag in (*option.opts, *option.secondary_opts))
        default = option.default
        shown = "" if default in (None, False, (), []) or callable(default) else f"`{default}`"
        variable = option.envvar if isinstance(option.envvar, str) else ", ".join(option.envvar or ())
        meaning = _cell(" ".join((option.help or "").replace("\b", "").split()))
        rows[flags] = f"| {flags} | {meaning} | {shown} | {f'`{variable}`' if variable else ''} |"
    return rows


def _cell(text: str) -> str:
    return text.replace("|", "\\|").replace("<", "&lt;").replace("*", "\\*")


def settings_page() -> str:
    """Return every setting with its option, its variable, its default and who may set it."""
    rows = []
    for row in SETTINGS.values():
        option = f"`{row.flag}`" if row.has_flag else ""
        default = "" if row.default is None else f"`{row.default}`"
        cells = (f"`{row.name}`", option, default, _FOLDER_MAY[row.folder], _cell(row.help))
        rows.append(f"| {' | '.join(cells)} |")
    return "\n".join(
        [
            "# Settings\n",
            _MADE,
            "A setting is an option (`--max-rounds 5`), a variable (`RLM_MAX_ROUNDS=5`), a key of a settings",
            "file (`max_rounds = 5`) and, if it is a limit, a field of `Limits` in Python. `--set KEY=VALUE`",
            "sets those without an option. Options override variables. Variables override `./rlm.toml` (or",
            "`--config FILE`). That file overrides `~/.config/rlm/config.toml`. `rlm init` writes a file",
            "with all of them. Keys of providers come from the environment only.\n",
            "| setting | option | default | may a folder set it? | meaning |",
            "| --- | --- | --- | --- | --- |",
            *rows,
            "",
        ]
    )


def helpers_page() -> str:
    """Return the helpers of a block with their signatures, one line each."""
    rows = []
    for helper in HELPERS:
        owner = Helpers if hasattr(Helpers, helper.name) else Handle
        call = f"{helper.name}{bare_signature(getattr(owner, helper.name))}"
        rows.append(f"| `{helper.name}` | `{call}`: {_cell(helper.summary)} |")
    return "\n".join(
        [
            "# Helpers of a block\n",
            _MADE,
            "These names are there in each block that the root model writes, and in `rlm sandbox exec`.",
            "[Tables and files](../helpers.md) has the details of some.\n",
            "| helper | what it does |",
            "| --- | --- |",
            *rows,
            "",
        ]
    )


PAGES: Mapping[str, Callable[[], str]] = {
    "settings.md": settings_page,
    "helpers.md": helpers_page,
}


def main() -> None:
    """Write the pages."""
    if sys.argv[1:]:
        Path(sys.argv[1]).write_text(commands_page(), encoding="utf-8")
        return
    FOLDER.mkdir(exist_ok=True)
    for name, page in PAGES.items():
        (FOLDER / name).write_text(page(), encoding="utf-8")


if __name__ == "__main__":
    main()
