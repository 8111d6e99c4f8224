"""Options that the commands of jobs share, as `rlm ask` has them; and what is made of them."""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from rlm.cli.config import settings_in_force
from rlm.cli.consent import SandboxOption, allowed_level

if TYPE_CHECKING:
    from rlm.budget import Limits
    from rlm.events import Observer
    from rlm.runtime import RLM

__all__ = [
    "ExcludeOption",
    "JsonOption",
    "MaxCallsOption",
    "MaxCostOption",
    "MaxSecondsOption",
    "MaxTokensOption",
    "ModelOption",
    "Models",
    "NoCacheOption",
    "OutOption",
    "PathsArgument",
    "QuietOption",
    "SubModelOption",
    "SummaryModelOption",
    "TraceOption",
    "rlm_of",
    "written",
]

PathsArgument = Annotated[
    list[str],
    typer.Argument(metavar="PATH…", help="Files, folders, globs, or - for stdin.", show_default=False),
]
ModelOption = Annotated[
    str | None,
    typer.Option(
        envvar="RLM_MODEL",
        help="anthropic:NAME, openai:NAME, openai:NAME@URL, extractive, scripted:FILE, replay:RUN. "
        "Default: the one whose key is set, else extractive.",
    ),
]
SubModelOption = Annotated[
    str | None, typer.Option(envvar="RLM_SUB_MODEL", help="The children's model. Default: the root's.")
]
SummaryModelOption = Annotated[
    str | None, typer.Option(envvar="RLM_SUMMARY_MODEL", help="Writes summaries. Default: the children's.")
]
ExcludeOption = Annotated[
    list[str] | None, typer.Option(help="Leave out what matches, as in .gitignore; may be repeated.")
]
MaxCallsOption = Annotated[int, typer.Option(envvar="RLM_MAX_CALLS", help="Child calls.")]
MaxTokensOption = Annotated[int, typer.Option(envvar="RLM_MAX_TOKENS", help="Tokens, all in all.")]
MaxCostOption = Annotated[float, typer.Option(envvar="RLM_MAX_COST", help="US dollars.")]
MaxSecondsOption = Annotated[float, typer.Option(envvar="RLM_MAX_SECONDS", help="Seconds of the whole job.")]
NoCacheOption = Annotated[
    bool,
    typer.Option(
        "--no-cache",
        envvar="RLM_NO_CACHE",
        help="Keep no copy of large inputs from run to run, and use none that is kept.",
    ),
]
TraceOption = Annotated[
    Path | None,
    typer.Option(metavar="FILE", help="Write what happens there, as JSON lines.", show_default=False),
]
OutOption = Annotated[
    Path | None,
    typer.Option("--out", "-o", metavar="FILE", help="Write it there.", show_default="stdout"),
]
JsonOption = Annotated[bool, typer.Option("--json", help="Print the whole result as JSON.")]
QuietOption = Annotated[bool, typer.Option("--quiet", "-q", help="No progress, no account on stderr.")]


@dataclass(frozen=True, slots=True)
class Models:
    """The models a command was given, by name; None takes the default."""

    root: str | None
    children: str | None = None
    summaries: str | None = None


def rlm_of(
    ctx: typer.Context,
    models: Models,
    limits: Limits,
    observers: Sequence[Observer],
    *,
    sandbox: SandboxOption = "auto",
    store: str | None = None,
    no_cache: bool = False,
    cache: bool = False,
    runs_code: bool = False,
) -> RLM:
    """The runtime that the options make. `runs_code`: models may write code; isolation is settled first."""
    from rlm.engine import Settings
    from rlm.models import default_model
    from rlm.runtime import RLM

    written_by_model = runs_code and (models.root or default_model(os.environ)) != "extractive"
    settings = Settings(
        sandbox=allowed_level(sandbox, model_written=written_by_model) if runs_code else "auto",
        store=store,
        document_cache=not no_cache,
        cache=cache,
        facts=settings_in_force(ctx).models,
    )
    return RLM(
        models.root,
        sub_model=models.children,
        summary_model=models.summaries,
        limits=limits,
        settings=settings,
        observe=observers,
    )


def written(text: str, out: Path | None) -> None:
    """Print `text`, or put it into the file `out`, whole or not at all."""
    from rlm.models.messages import encodable

    if out is None:
        typer.echo(text)
        return
    beside = out.with_name(f".{out.name}.part")
    try:
        beside.write_text(encodable(text) + "\n", encoding="utf-8")
        beside.replace(out)
    finally:
        beside.unlink(missing_ok=True)
