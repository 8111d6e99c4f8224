"""`rlm init`: a settings file with every setting as a comment."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from rlm.cli.console.exits import Exit, say
from rlm.prompts import CardSettings
from rlm.settings_table import SETTINGS, Setting

__all__ = ["init", "template"]

_WIDTH = 34

_HEAD = """\
# Settings of rlm for this folder. Remove the # from a line to change that setting.
# Options override RLM_* variables; variables override this file; this file overrides
# ~/.config/rlm/config.toml. API keys do not belong here: set them in the environment.
# In a folder this file may lower limits, and set strategy, contract, windows and sizes of prompts. For
# anything else name the file with --config or RLM_CONFIG.
"""

_MODELS = """
# Facts about a model, which override the shipped tables. In tokens, and US dollars per million tokens.
# [models."openai:my-model@http://localhost:8000/v1"]
# window = 32768                   # context window: prompt and reply together
# output = 4096                    # maximum tokens of a reply
# input_price = 0.0
# output_price = 0.0
# cached_price = 0.0               # cached input; default: input_price
# effort = "low"                   # also thinking, temperature, seed, api, body, headers: docs/options.md
"""


def init(
    file: Annotated[str, typer.Argument(metavar="[FILE]", help="The file to write.")] = "rlm.toml",
    force: Annotated[bool, typer.Option("--force", help="Overwrite an existing file.")] = False,
) -> None:
    """Write a settings file with every default as a comment.

    \b
    Examples:
      rlm init
      rlm init ~/.config/rlm/config.toml
    """
    path = Path(file).expanduser()
    text = template()
    path.parent.mkdir(parents=True, exist_ok=True)
    if force and not path.is_dir():
        path.unlink(missing_ok=True)  # a link in this folder may lead to another file of the user's
    try:
        with path.open("x", encoding="utf-8") as out:
            out.write(text)
    except FileExistsError:
        say(f"{file} exists already: rlm init --force overwrites it")
        raise typer.Exit(Exit.USAGE) from None
    say(f"wrote {file}")


def template() -> str:
    """Return the file: every setting with its default and its help, then the tables."""
    lines = [_line(f"{row.name} = {_toml(row)}", row.help) for row in SETTINGS.values()]
    return _HEAD + "\n" + "\n".join(lines) + "\n" + _MODELS + "\n" + _prompt_table()


def _line(setting: str, help_text: str) -> str:
    commented = f"# {setting}"
    return f"{commented:{_WIDTH}} # {help_text}"


def _toml(row: Setting) -> str:
    if row.default is None:
        return '"…"' if row.kind is str else "true" if row.kind is bool else "32_000"
    if isinstance(row.default, str):
        return f'"{row.default}"'
    return str(row.default).lower()


def _prompt_table() -> str:
    from dataclasses import fields

    card = CardSettings()
    budgets = [f"# {item.name}_budget = {getattr(card.budget, item.name)}" for item in fields(card.budget)]
    priorities = [f"# {kind} = {card.priority(kind)}" for kind in card.priorities]
    return "\n".join(
        [
            "# Prompts of cards (rlm assemble card), in tokens.",
            "# [prompt]",
            *budgets,
            f'# promise = "{card.promise}"',
            "",
            "# [prompt.rlm]",
            _line('model = "…"', "the model for summaries; used only if --summary-model names it"),
            _line(
                f"threshold_percentage = {card.threshold_percentage}",
                "percent of chat_history_budget above which the history is summarized",
            ),
            "",
            "# [prompt.context_priority]      # higher comes first",
            *priorities,
            "",
        ]
    )
