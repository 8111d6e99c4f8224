"""`rlm sandbox exec`: one cell in the sandbox, without a model."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Annotated, Any, Literal

import typer

from rlm.cli.console.exits import Exit, say
from rlm.cli.console.interrupts import run_interruptible
from rlm.cli.options import Options, takes
from rlm.documents import sources_from_arguments
from rlm.documents.workspace import Workspace
from rlm.escaping import json_bytes, terminal_text
from rlm.sandbox.host.jupyter_sandbox import JupyterSandbox
from rlm.sandbox.host.requests import BadCall
from rlm.sandbox.isolation.policy import IsolationReport
from rlm.sandbox.protocol import AnswerSink
from rlm.sandbox.types import (
    CellResult,
    ChildBatch,
    Finalization,
    FinalizeVerdict,
    Progress,
    RankedSpan,
    RankQuery,
    SubRLMBatch,
    ToolCall,
)

__all__ = ["OfflineHandler", "run_cell", "sandbox_app"]

sandbox_app = typer.Typer(no_args_is_help=True)


@sandbox_app.callback()
def group() -> None:
    """Run code in the sandbox.

    \b
    Example:
      echo 'print(count("crane"))' | rlm sandbox exec - --context examples/offers
    """


@sandbox_app.command("exec")
@takes("sandbox", "json")
def exec_(
    file: Annotated[str, typer.Argument(metavar="FILE.py", help="The code of the cell, or - for stdin.")],
    context: Annotated[
        list[str] | None, typer.Option(help="A file or folder to load as the context. Repeatable.")
    ] = None,
    cell_seconds: Annotated[float, typer.Option(min=0.1, help="Timeout in seconds of computing.")] = 30.0,
    *,
    options: Options,
) -> None:
    """Run one cell in the sandbox and print its output.

    \b
    Examples:
      rlm sandbox exec cell.py --context big.log
      echo 'print(count("crane"))' | rlm sandbox exec - --context examples/offers
    """
    try:
        code = (sys.stdin.buffer.read() if file == "-" else Path(file).read_bytes()).decode()
    except (OSError, UnicodeDecodeError) as error:
        reason = error.strerror if isinstance(error, OSError) else "it is not UTF-8 text"
        say(f"cannot read {file}: {reason}")
        raise typer.Exit(Exit.USAGE) from None
    level = options.level()
    result, isolation = run_interruptible(run_cell(code, context or [], level=level, seconds=cell_seconds))
    if options.json:
        typer.echo(json_bytes(_as_json(result, isolation)))
    else:
        _print(result, isolation)
    if result.status != "ok":
        raise typer.Exit(Exit.NO_ANSWER)


async def run_cell(
    code: str, paths: list[str], *, level: int | Literal["auto"], seconds: float
) -> tuple[CellResult, IsolationReport]:
    """Run one cell in a new kernel. Raises SandboxRefused below level 2, unless `level` names it."""
    with Workspace() as workspace:
        loaded = await workspace.load(sources_from_arguments(paths, sys.stdin.buffer))
        kernel = JupyterSandbox(loaded.context, OfflineHandler(loaded.context.chars), level=level)
        try:
            await kernel.open()
            return await kernel.execute(code, round=1, timeout=seconds), kernel.isolation
        finally:
            await kernel.close()


def _as_json(result: CellResult, isolation: IsolationReport) -> dict[str, object]:
    return {
        "status": result.status,
        "stdout": result.stdout,
        "stderr": result.stderr,
        "result": result.result,
        "ename": result.ename,
        "evalue": result.evalue,
        "traceback": result.traceback,
        "seconds": result.seconds,
        "truncated": result.truncated,
        "variables": [asdict(variable) for variable in result.report.changed],
        "level": isolation.level,
        "layers": dict(isolation.layers),
    }


def _print(result: CellResult, isolation: IsolationReport) -> None:
    if result.stdout:
        typer.echo(terminal_text(result.stdout), nl=not result.stdout.endswith("\n"))
    if result.result is not None:
        typer.echo(terminal_text(result.result))
    if result.stderr:
        typer.echo(terminal_text(result.stderr), nl=False, err=True)
    if result.status != "ok":
        typer.echo(terminal_text(result.traceback or f"{result.ename}: {result.evalue}"), err=True)
    typer.echo(
        f"{result.status} in {result.seconds:.3f} s, isolation level {isolation.level} "
        f"({', '.join(isolation.layers)})",
        err=True,
    )


class OfflineHandler:
    """Implements KernelHandler. `final` is the answer of the cell's finalize(), None without one."""

    def __init__(self, chars: int) -> None:
        self._chars = chars
        self.final: Finalization | None = None

    async def children(self, batch: ChildBatch, answered: AnswerSink) -> None:
        raise BadCall("value", "there is no model here: children work in a run only (rlm ask)")

    async def rank(self, query: RankQuery) -> Sequence[RankedSpan]:
        raise BadCall(
            "value", "there is no ranked index here: rank() works in a run only (rlm ask); use search()"
        )

    async def sub_rlms(self, batch: SubRLMBatch, answered: AnswerSink) -> None:
        raise BadCall("value", "there is no model here: a sub-RLM works in a run only (rlm ask)")

    async def tool(self, call: ToolCall) -> Any:
        raise BadCall("tool", "there are no host tools here: tools work in a run only (rlm ask)")

    async def finalize(self, final: Finalization) -> FinalizeVerdict:
        self.final = final
        return FinalizeVerdict(accepted=True)

    async def chunk_chars(self) -> int:
        return 20_000

    async def progress(self) -> Progress:
        return Progress(
            has_final_answer=self.final is not None,
            limits={},
            coverage={"input_chars": self._chars},
            plan={"recommended_chunk": 0, "calls": 0, "cost_usd": None},
        )
