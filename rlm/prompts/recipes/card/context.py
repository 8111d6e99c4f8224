"""Build the context of a card: notes, logs, files, results, decisions, libraries, each under its heading."""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import PurePath

from rlm.lazy_dataclass import dataclass
from rlm.prompts.assembly.policy import NEVER, Gate, Policy, Skip, Trim
from rlm.prompts.assembly.section import Item, Section
from rlm.prompts.recipes.card.settings import CONTEXT_KINDS, CardSettings
from rlm.prompts.templates import table

__all__ = ["CardContext", "Document", "context_sections", "fence_for"]

_FENCES = re.compile(r"`{3,}")
_LOGS = ("build_logs", "pod_logs", "test_results")
_LOG_SHARE = 5  # while errors are fixed, a fifth of the context is kept for each of them
_FIRST_ORDER = 10  # after system, agent and history

# Files and decisions stop before the context is full, to leave a little room for growth.
_POLICIES: dict[str, Policy] = {
    "notes": Trim("head"),
    "build_logs": Trim("tail"),
    "pod_logs": Trim("tail"),
    "source_files": Gate(1_000),
    "test_results": NEVER,
    "adrs": Gate(500),
    "libraries": Skip(),
}


@dataclass(frozen=True, slots=True)
class Document:
    """A named text: a file with its path, a decision with its title, a library with its name."""

    name: str
    content: str


@dataclass(frozen=True, slots=True)
class CardContext:
    """The optional contents of a card's prompt besides its history. Blank ones get no heading."""

    notes: tuple[str, ...] = ()
    adrs: tuple[Document, ...] = ()
    libraries: tuple[Document, ...] = ()
    source_files: tuple[Document, ...] = ()
    build_logs: str = ""
    pod_logs: str = ""
    test_results: str = ""


def context_sections(context: CardContext, settings: CardSettings, *, fixing_errors: bool) -> list[Section]:
    """Return one section for each kind, by priority. Together they share the limit `context`.

    Notes are always included. Logs are included while errors are being fixed, whole or with their end. Then
    test results lose their beginning rather than being left out, and each log and the results keep a share
    of the room, however large the other ones are.
    """
    share = settings.budget.other_context // _LOG_SHARE if fixing_errors else 0
    texts = {
        "notes": [note.strip("\n") for note in context.notes if note.strip()],
        "build_logs": [context.build_logs] if fixing_errors else [],
        "pod_logs": [context.pod_logs] if fixing_errors else [],
        "source_files": [_file_text(file) for file in context.source_files if file.content.strip()],
        "test_results": [context.test_results],
        "adrs": _titled_texts(context.adrs),
        "libraries": _titled_texts(context.libraries),
    }
    kinds = sorted(CONTEXT_KINDS, key=lambda kind: -settings.priority(kind))
    return [
        _section(
            kind,
            [text for text in texts[kind] if text.strip()],
            place,
            len(kinds) - place,
            share=share if kind in _LOGS else 0,
        )
        for place, kind in enumerate(kinds)
    ]


def _section(kind: str, texts: Sequence[str], place: int, priority: int, *, share: int) -> Section:
    heading = table("card.toml")["headings"][kind]
    logged = kind in _LOGS
    fence = fence_for("".join(texts)) if logged else ""
    return Section(
        kind,
        "user",
        order=_FIRST_ORDER + place,
        priority=priority,
        required=kind == "notes",
        min_tokens=share,
        policy=Trim("tail") if share else _POLICIES[kind],
        stability="turn",
        items=tuple(Item(f"{kind}-{n}", text.rstrip("\n"), order=n) for n, text in enumerate(texts, 1)),
        prefix=f"{heading}\n{fence}\n" if logged else f"{heading}\n\n",
        suffix=f"\n{fence}" if logged else "",
        pool="context",
    )


def fence_for(text: str) -> str:
    """Return a fence that no line of `text` can close."""
    longest = max((len(run) for run in _FENCES.findall(text)), default=2)
    return "`" * (longest + 1)


def _file_text(file: Document) -> str:
    fence = fence_for(file.content)
    language = PurePath(file.name).suffix.removeprefix(".")
    language = language if language.isalnum() else ""
    return f"### {_line(file.name)}\n{fence}{language}\n{file.content.rstrip()}\n{fence}"


def _titled_texts(documents: Sequence[Document]) -> list[str]:
    return [
        f"### {_line(document.name)}\n{document.content.strip()}"
        for document in documents
        if document.content.strip()
    ]


def _line(text: str) -> str:
    return " ".join(text.split())
