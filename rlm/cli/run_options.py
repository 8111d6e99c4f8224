"""Options that several commands declare alike, under the names that settings files use too."""

from __future__ import annotations

from typing import Annotated, Literal

import typer

from rlm.cli.consent import SandboxOption

__all__ = [
    "Cache",
    "CellSeconds",
    "Concurrency",
    "Contract",
    "Json",
    "MaxCalls",
    "MaxCost",
    "MaxRounds",
    "MaxSeconds",
    "MaxTokens",
    "ModelName",
    "NoCache",
    "Quiet",
    "Sandbox",
    "StoreMb",
    "Strategy",
    "SubModel",
    "SummaryModel",
]

ModelName = Annotated[
    str | None,
    typer.Option(
        envvar="RLM_MODEL",
        help="The root: anthropic:NAME, openai:NAME, openai:NAME@URL, extractive, scripted:FILE. "
        "Default: the one whose key is set, else extractive.",
    ),
]
SubModel = Annotated[
    str | None, typer.Option(envvar="RLM_SUB_MODEL", help="The children's model. Default: the root's.")
]
SummaryModel = Annotated[
    str | None,
    typer.Option(
        envvar="RLM_SUMMARY_MODEL", help="Folds older rounds near the window. Default: the children's."
    ),
]
Strategy = Annotated[
    Literal["auto", "rlm", "direct"],
    typer.Option(envvar="RLM_STRATEGY", help="auto: short inputs are answered by one call."),
]
Contract = Annotated[
    Literal["one-block", "strict"],
    typer.Option(envvar="RLM_CONTRACT", help="strict: prose around the block is refused."),
]
MaxRounds = Annotated[int, typer.Option(envvar="RLM_MAX_ROUNDS", help="Rounds of the root, a run.")]
MaxCalls = Annotated[int, typer.Option(envvar="RLM_MAX_CALLS", help="Child calls, a run.")]
MaxTokens = Annotated[int, typer.Option(envvar="RLM_MAX_TOKENS", help="Tokens, all in all, a run.")]
MaxCost = Annotated[float, typer.Option(envvar="RLM_MAX_COST", help="US dollars, a run.")]
MaxSeconds = Annotated[float, typer.Option(envvar="RLM_MAX_SECONDS", help="Seconds of a run.")]
CellSeconds = Annotated[
    float, typer.Option(envvar="RLM_CELL_SECONDS", help="Seconds of computing of one block.")
]
Concurrency = Annotated[
    int, typer.Option(envvar="RLM_CONCURRENCY", help="Calls in flight at a provider, all runs together.")
]
Sandbox = Annotated[
    SandboxOption,
    typer.Option(envvar="RLM_SANDBOX", help="Isolation: auto takes the strongest, 0 is none at all."),
]
NoCache = Annotated[
    bool,
    typer.Option(
        "--no-cache",
        envvar="RLM_NO_CACHE",
        help="Keep no copy of large inputs from run to run, and use none that is kept.",
    ),
]
StoreMb = Annotated[
    int, typer.Option(envvar="RLM_STORE_MB", help="Over it the journal loses its oldest finished runs.")
]
Cache = Annotated[
    bool, typer.Option("--cache", envvar="RLM_CACHE", help="Take children's answers of earlier runs.")
]
Json = Annotated[bool, typer.Option("--json", help="Print the outcome as JSON.")]
Quiet = Annotated[bool, typer.Option("--quiet", "-q", help="No progress, no account on stderr.")]
