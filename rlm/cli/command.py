"""Commands and groups of commands, as the help shows them and as they read their arguments."""

from __future__ import annotations

import re
from collections.abc import Iterable
from copy import copy
from typing import Any

import typer
from typer.core import TyperCommand, TyperGroup

from rlm.cli.earlier_names import FLAGS, check_earlier_flags

__all__ = ["Command", "Group", "format_sections", "use_for_all"]

_MANY = 16
"""A command with this many options shows them in sections."""
_OTHER = "Options"
_KIND = re.compile(r"<(?:list\[)?(int|float|str|path|file|directory)(?: range)?\]?>")
"""A Python type in the place of a value."""
_RANGE = re.compile(r"(?:; |(?<=\[))[\d.]*(?:<=?)?x[<>]=?[\d.]+|\s*\[[\d.]*(?:<=?)?x[<>]=?[\d.]+\]")

_ELSEWHERE = {
    "--budget": "--max-cost",
    "--max-budget": "--max-cost",
    "--max-iterations": "--max-rounds",
    "--max-iters": "--max-rounds",
    "--max-steps": "--max-rounds",
    "--max-turns": "--max-rounds",
    "--max-llm-calls": "--max-calls",
    "--timeout": "--max-seconds",
    "--max-timeout": "--max-seconds",
    "--temperature": "--option temperature=N",
    "--seed": "--option seed=N",
    "--effort": "--option effort=LEVEL",
    "--reasoning-effort": "--option effort=LEVEL",
    "--format": "--json",
    "--output-format": "--json",
    "--debug": "--verbose",
    "--log-level": "--verbose",
    "--yes": "no such question: rlm asks only once, about the isolation",
    "--resume": "the command: rlm resume RUN",
    "--recursive": "nothing: folders are read with what is below them",
    "--file": "the PATH, after the question",
    "--input": "the PATH, after the question",
    "--output": "the shell's redirection: > FILE",
    "--out": "the shell's redirection: > FILE",
    "-o": "the shell's redirection: > FILE",
    "--api-key": "the variable of the provider, such as OPENAI_API_KEY",
    "--base-url": "the URL in the model's name: --model openai:NAME@http://HOST/v1",
}
"""What options of other tools are called here."""


class Command(TyperCommand):
    """Shows many options in sections, and no earlier names. Knows the names of options in other tools."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        _check_names(self, ctx, args)
        return super().parse_args(ctx, args)

    def format_options(self, ctx: Any, formatter: Any) -> None:
        _format_options(self, ctx, formatter)


class Group(TyperGroup):
    """The same for a command that has commands."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        _check_names(self, ctx, args)
        return super().parse_args(ctx, args)

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


def _check_names(command: Command | Group, ctx: Any, args: list[str]) -> None:
    """Fail for an option that has another name here. Arguments of a command below are its own."""
    own = {flag for param in command.params for flag in (*param.opts, *param.secondary_opts)}
    below = command.commands if isinstance(command, Group) else {}
    for one in args:
        if one == "--" or one in below:
            break
        flag = one.partition("=")[0]
        if flag in _ELSEWHERE and flag not in own and _has(own, _ELSEWHERE[flag]):
            ctx.fail(f"No such option: {flag}. Here it is {_ELSEWHERE[flag]}")
    if own & FLAGS.keys():
        check_earlier_flags(args)


def _format_options(command: Command | Group, ctx: Any, formatter: Any) -> None:
    shown = [_without_earlier_names(param) for param in command.get_params(ctx)]
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


def _has(flags: set[str], remedy: str) -> bool:
    """Return whether a command with these flags has what is named instead."""
    return not remedy.startswith("--") or remedy.split(maxsplit=1)[0] in flags


def _without_earlier_names(param: Any) -> Any:
    if not FLAGS.keys() & set(param.opts):
        return param
    shown = copy(param)
    shown.opts = [flag for flag in param.opts if flag not in FLAGS]
    return shown
