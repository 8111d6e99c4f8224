"""`rlm trust`: let `rlm.toml` of a folder set everything."""

from __future__ import annotations

import os
from dataclasses import replace
from pathlib import Path
from shlex import quote
from typing import TYPE_CHECKING, Annotated

import typer

from rlm.cli.config import describe_refused, split_by_right
from rlm.cli.console.exits import say
from rlm.errors import UsageError
from rlm.escaping import terminal_text

if TYPE_CHECKING:
    from rlm.config_file.trusted_folders import TrustedFolders

__all__ = ["trust"]


def trust(
    ctx: typer.Context,
    folder: Annotated[
        Path, typer.Argument(metavar="FOLDER", help="The folder.", show_default="the current one")
    ] = Path(),
    remove: Annotated[bool, typer.Option("--remove", help="Stop trusting the folder.")] = False,
    show_list: Annotated[bool, typer.Option("--list", help="List the trusted folders.")] = False,
) -> None:
    """Trust a folder: let its rlm.toml set everything, or [tool.rlm] in its pyproject.toml.

    Without it, these may only lower limits, and set the strategy, the contract, windows and sizes of
    prompts. Read the file first: it can name the model that gets your texts, and turn the isolation off. The
    trust ends when the file changes. Folders and files that others can change are refused.

    \b
    Examples:
      rlm trust
      rlm trust projects/offers --remove
      rlm trust --list
    """
    from rlm.config_file.settings_file import FILE_NAME, PROJECT_NAME
    from rlm.config_file.trusted_folders import TrustedFolders
    from rlm.config_file.user_folder import user_config_folder

    trusted = TrustedFolders(user_config_folder(os.environ))
    if show_list:
        _print_list(trusted)
    elif remove:
        # Both: the user names the folder, not the file.
        if not sum(trusted.remove(folder / name) for name in (FILE_NAME, PROJECT_NAME)):
            raise UsageError(f"{folder.resolve()} is not trusted: see rlm trust --list")
        say(f"{folder.resolve()} is no longer trusted")
    else:
        _add(ctx, trusted, folder)


def _add(ctx: typer.Context, trusted: TrustedFolders, folder: Path) -> None:
    from rlm.config_file.loading import load_settings
    from rlm.config_file.settings_file import FILE_NAME, read_folder_file

    if not folder.is_dir():
        raise UsageError(f"{folder} is not a folder: name the folder of an {FILE_NAME}")
    found = read_folder_file(folder.resolve())
    if found is None:
        raise UsageError(
            f"{folder.resolve()} has no {FILE_NAME}, and no [tool.rlm] in a pyproject.toml: there is nothing "
            f"to trust{_hint_above(folder)}"
        )
    settings = load_settings([replace(found, is_trusted=False)])
    _, refused = split_by_right(ctx, settings)
    assert settings.folder is not None
    trusted.add(found.path, found.data)
    asked = [f"{name} = {settings.folder.options[name].value!r}" for name in refused]
    asked += describe_refused(settings.folder, {})
    for line in asked:
        typer.echo(terminal_text(line))
    say(
        f"trusted {found.path} as it is now"
        + (": it sets the above" if asked else "; it sets nothing that needs it")
    )


def _hint_above(folder: Path) -> str:
    """Return the command for the file that is in force in `folder`, if it lies above."""
    from rlm.config_file.settings_file import settings_files

    files = [one for one in settings_files(None, os.environ, folder.resolve()) if not one.is_trusted]
    return f". To trust the one above: rlm trust {quote(str(files[-1].path.parent))}" if files else ""


def _print_list(trusted: TrustedFolders) -> None:
    from rlm.config_file.settings_file import FILE_NAME, PROJECT_NAME, read_folder_file
    from rlm.errors import ConfigurationError

    for folder in trusted.list():
        is_project = folder.path.name == PROJECT_NAME
        try:
            found = read_folder_file(folder.path.parent if is_project else folder.path)
            holds = found is not None and trusted.trusts(found.path, found.data)
        except ConfigurationError:
            holds = False
        name = PROJECT_NAME if is_project else FILE_NAME
        typer.echo(terminal_text(f"{folder.path}{'' if holds else f'  ({name} has changed: not in force)'}"))
