"""`rlm init`: a settings file that says what can be set, every line of it a comment."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer

from rlm.cli.config import KnownOption, known_options
from rlm.cli.console.exits import Exit, say

__all__ = ["init", "template"]

_WIDTH = 34

_HEAD = """\
# Settings of rlm, for this folder. Take the # away from what you want to change.
# An option on the command line goes before an RLM_* variable, that before this file, this file before
# ~/.config/rlm/config.toml. Keys of providers don't belong here: they come from the environment.
"""

_MODELS = """
# What is known of a model goes before the shipped tables. Tokens; US dollars for a million tokens.
# [models."openai:my-model@http://localhost:8000/v1"]
# window = 32768                   # prompt and reply together
# output = 4096                    # a reply
# input_price = 0.0
# output_price = 0.0
# cached_price = 0.0               # input the provider had kept; default: input_price
"""


def init(
    file: Annotated[str, typer.Argument(metavar="[FILE]", help="Where to write it.")] = "rlm.toml",
    force: Annotated[bool, typer.Option("--force", help="Overwrite what is there.")] = False,
    *,
    ctx: typer.Context,
) -> None:
    """Write a settings file with every default in it, as comments.

    \b
    Examples:
      rlm init
      rlm init ~/.config/rlm/config.toml
    """
    path = Path(file).expanduser()
    text = template(ctx)
    path.parent.mkdir(parents=True, exist_ok=True)
    try:
        with path.open("w" if force else "x", encoding="utf-8") as out:
            out.write(text)
    except FileExistsError:
        say(f"{file} is there already and was left as it is: rlm init --force overwrites it")
        raise typer.Exit(Exit.USAGE) from None
    say(f"wrote {file}")


def template(ctx: typer.Context) -> str:
    """The file: the options of `rlm ask` with their defaults and help, then the tables."""
    lines = [_option_line(option) for option in known_options(ctx)]
    return _HEAD + "\n" + "\n".join(lines) + "\n" + _MODELS + "\n" + _prompt_table()


def _option_line(option: KnownOption) -> str:
    value = '"…"' if option.default is None else _toml(option.default)
    return _line(f"{option.name} = {value}", option.help)


def _line(setting: str, help_text: str) -> str:
    commented = f"# {setting}"
    return f"{commented:{_WIDTH}} # {help_text}"


def _toml(value: Any) -> str:
    return (
        f'"{value}"'
        if isinstance(value, str)
        else str(value).lower()
        if isinstance(value, bool)
        else str(value)
    )


def _prompt_table() -> str:
    from dataclasses import fields

    from rlm.prompts import CardSettings

    card = CardSettings()
    budgets = [f"# {item.name}_budget = {getattr(card.budget, item.name)}" for item in fields(card.budget)]
    priorities = [f"# {kind} = {card.priority(kind)}" for kind in card.priorities]
    return "\n".join(
        [
            "# The prompts of cards (rlm assemble card), in tokens.",
            "# [prompt]",
            *budgets,
            f'# promise = "{card.promise}"',
            "",
            "# [prompt.rlm]",
            _line('model = "…"', "the model for summaries; asked only where --summary-model names it"),
            _line(
                f"threshold_percentage = {card.threshold_percentage}",
                "of chat_history_budget; a longer history is summarized",
            ),
            "",
            "# [prompt.context_priority]      # the higher, the earlier",
            *priorities,
            "",
        ]
    )
