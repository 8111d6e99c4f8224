"""Commands and groups of commands, as the help shows them."""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Any

import typer
from typer.core import TyperCommand, TyperGroup

__all__ = ["Command", "Group", "format_sections", "use_for_all"]

_MANY = 16
"""A command with this many options shows them in sections."""
_OTHER = "Options"
_KIND = re.compile(r"<(?:list\[)?(int|float|str|path|file|directory)(?: range)?\]?>")
"""A Python type in the place of a value."""
_RANGE = re.compile(r"(?:; |(?<=\[))[\d.]*(?:<=?)?x[<>]=?[\d.]+|\s*\[[\d.]*(?:<=?)?x[<>]=?[\d.]+\]")


class Command(TyperCommand):
    """Shows many options in sections."""

    def format_options(self, ctx: Any, formatter: Any) -> None:
        _format_options(self, ctx, formatter)


class Group(TyperGroup):
    """The same for a command that has commands."""

    def format_options(self, ctx: Any, formatter: Any) -> None:
        _format_options(self, ctx, formatter)
        self.format_commands(ctx, formatter)


def use_for_all(app: typer.Typer) -> None:
    """Make each command below `app` a Command, and each group a Group."""
    for command in app.registered_commands:
        command.cls = Command
    for group in app.registered_groups:
        group.cls = Group
        if group.typer_instance is not None:
            use_for_all(group.typer_instance)


def _format_options(command: Command | Group, ctx: Any, formatter: Any) -> None:
    shown: list[Any] = command.get_params(ctx)
    in_sections = sum(not param.hidden for param in shown) >= _MANY
    rows = []
    for param in shown:
        record = param.get_help_record(ctx)
        if record is not None:
            name, text = record
            text = _RANGE.sub("", text)
            if param.param_type_name == "argument":
                rows.append(("Arguments", (_KIND.sub("", name).rstrip(), text)))
                continue
            panel = param.rich_help_panel if in_sections else None
            rows.append((panel or _OTHER, (_KIND.sub(_describe_kind, name), text)))
    format_sections(formatter, rows)


def format_sections(formatter: Any, rows: Iterable[tuple[str, tuple[str, str]]]) -> None:
    """Write rows of a help under their titles, in the order in which the titles come first."""
    sections: dict[str, list[tuple[str, str]]] = {}
    for title, record in rows:
        sections.setdefault(title, []).append(record)
    for title, records in sections.items():
        with formatter.section(title):
            formatter.write_dl(records)


def _describe_kind(kind: re.Match[str]) -> str:
    return "N" if kind[1] in ("int", "float") else "TEXT" if kind[1] == "str" else "PATH"
