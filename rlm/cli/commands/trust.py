"""`rlm trust`: let `rlm.toml` of a folder set everything."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from rlm.cli.config import describe_refused, split_by_right
from rlm.cli.console.exits import say
from rlm.cli.console.render_result import printable
from rlm.errors import UsageError

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
    """Trust a folder: let its rlm.toml set everything.

    Without it, rlm.toml may only lower limits, and set the strategy, the contract, windows and sizes of
    prompts. Read the file first: it can name the model that gets your texts, and turn the isolation off. The
    trust ends when the file changes. Folders and files that others can change are refused.

    \b
    Examples:
      rlm trust
      rlm trust projects/offers --remove
      rlm trust --list
    """
    from rlm.config_file.settings_file import FILE_NAME
    from rlm.config_file.trusted_folders import TrustedFolders
    from rlm.config_file.user_folder import user_config_folder

    trusted = TrustedFolders(user_config_folder(os.environ))
    if show_list:
        _print_list(trusted)
    elif remove:
        if not trusted.remove(folder / FILE_NAME):
            raise UsageError(f"{folder.resolve()} is not trusted: see rlm trust --list")
        say(f"{folder.resolve()} is no longer trusted")
    else:
        _add(ctx, trusted, folder)


def _add(ctx: typer.Context, trusted: TrustedFolders, folder: Path) -> None:
    from rlm.config_file.loading import load_settings
    from rlm.config_file.settings_file import FILE_NAME, SettingsFile, read_folder_file

    if not folder.is_dir():
        raise UsageError(f"{folder} is not a folder: name the folder of an {FILE_NAME}")
    data = read_folder_file(folder)
    if data is None:
        raise UsageError(f"{folder.resolve()} has no {FILE_NAME}: there is nothing to trust")
    file = folder.resolve() / FILE_NAME
    settings = load_settings([SettingsFile(file, data, is_trusted=False)])
    _, refused = split_by_right(ctx, settings)
    assert settings.folder is not None
    trusted.add(file, data)
    asked = [f"{name} = {settings.folder.options[name].value!r}" for name in refused]
    asked += describe_refused(settings.folder, {})
    for line in asked:
        typer.echo(printable(line))
    say(
        f"trusted {file} as it is now"
        + (": it sets the above" if asked else "; it sets nothing that needs it")
    )


def _print_list(trusted: TrustedFolders) -> None:
    from rlm.config_file.settings_file import FILE_NAME, read_folder_file
    from rlm.errors import ConfigurationError

    for folder in trusted.list():
        try:
            data = read_folder_file(folder.path)
            holds = data is not None and trusted.trusts(folder.path / FILE_NAME, data)
        except ConfigurationError:
            holds = False
        typer.echo(printable(f"{folder.path}{'' if holds else f'  ({FILE_NAME} has changed: not in force)'}"))
