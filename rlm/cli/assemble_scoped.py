"""`rlm assemble scoped`: a prompt of stored segments."""

from __future__ import annotations

from typing import Annotated

import typer

from rlm.cli.assemble import FileArgument, JsonOption, ReportOption, read_input, show_prompt
from rlm.cli.segments import SegmentStoreOption

__all__ = ["scoped"]


def scoped(
    file: FileArgument,
    store: SegmentStoreOption = None,
    label: Annotated[
        str | None,
        typer.Option(
            help="Use the versions under this label; segments without it are left out.", show_default=False
        ),
    ] = None,
    as_json: JsonOption = False,
    report: ReportOption = False,
) -> None:
    """Stored layers by scope, then those of the moment, within a budget.

    \b
    Examples:
      rlm segments import examples/segments.json --store demo.db
      rlm assemble scoped examples/scoped.json --store demo.db --report
      rlm assemble scoped turn.json --label production --json
    """
    from prompts import ScopedInput, ScopedPrompt
    from prompts.segments import SegmentStore

    given = ScopedInput.from_json(read_input(file))
    with SegmentStore.open(store) as opened:
        prompt = ScopedPrompt(opened.adapter(label)).assemble(given)
    show_prompt(prompt, as_json=as_json, report=report)
