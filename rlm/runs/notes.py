"""The notes of a result: warnings about its input, models, kernels and journal, one line each."""

from __future__ import annotations

from collections.abc import Sequence

from rlm.documents import Loaded, Problem
from rlm.events import Warned
from rlm.models import Model
from rlm.models.catalog.info import reported_info
from rlm.models.catalog.names import parse_name
from rlm.results import GUESSED_WINDOW, Note
from rlm.sandbox.text.body import Body

__all__ = [
    "Notes",
    "check_source",
    "describe",
    "isolation_warning",
    "pruned_warning",
    "warnings_of",
    "window_warnings",
]

_MAX_NAMED = 3
_MANY_REPLACED = 0.001
"""The share of characters that were replaced from which words may be lost."""
_SMALL_WINDOW = 16_000
_MAX_FROM_SUB_RLMS = 5
"""How many warnings of sub-RLMs are kept. A thousand sub-RLMs may give a thousand different warnings."""


def warnings_of(loaded: Loaded) -> list[str]:
    """Return what the user has to know before an answer is trusted: which documents were not read, or only
    in part, and why. More than three reasons are one line. `Loaded.problems` has all of them."""
    unread = loaded.of("missing", "partial")
    warnings = _grouped(unread)
    if len(warnings) > _MAX_NAMED:
        names = ", ".join(dict.fromkeys(problem.document for problem in unread[:_MAX_NAMED]))
        warnings = [f"{len(unread):,} documents were not read, or only in part ({names}, …)"]
    warnings += _grouped(loaded.of("remark"))
    if loaded.replaced > _MANY_REPLACED * loaded.context.chars:
        warnings.append(f"{loaded.replaced:,} bytes are not valid text; replaced by U+FFFD")
    return warnings


def _grouped(problems: Sequence[Problem]) -> list[str]:
    """Return a line for each problem. More than three that differ in the document only share one."""
    names: dict[tuple[str, str, str], list[str]] = {}
    for one in problems:
        names.setdefault((one.kind, one.what, one.remedy), []).append(one.document)
    lines: list[str] = []
    for (kind, what, remedy), alike in names.items():
        many = f"{len(alike):,} documents ({', '.join(alike[:_MAX_NAMED])}, …)"
        shown = alike if len(alike) <= _MAX_NAMED else [many]
        lines += [describe(Problem(what, remedy, kind, name)) for name in shown]  # type: ignore[arg-type]
    return lines


def describe(problem: Problem) -> str:
    """Return a problem as a line."""
    remedy = f": {problem.remedy}" if problem.remedy else ""
    match problem.kind:
        case "missing" | "other" | "nothing":
            return f"skipped {problem.document}, {problem.what}{remedy}"
        case "encoding":
            return f"{problem.document} is not UTF-8; decoded as {problem.what}"
        case _:
            return f"{problem.document}{': ' if problem.document else ''}{problem.what}{remedy}"


def window_warnings(models: Sequence[Model]) -> list[str]:
    """Return one line about the models whose window is a guess, and one about those that their server serves
    with less than they could read. A server may cut longer prompts without a word."""
    warnings = []
    guessed = {model.name: model.window for model in models if not model.window.known}
    if guessed:
        window = next(iter(guessed.values()))
        names = tuple(guessed)
        warnings.append(
            f"{GUESSED_WINDOW}{' and of '.join(names)} is a guess: {window.context:,} tokens, "
            f"{window.output:,} of them for a reply; if it is smaller, set window and output under "
            f'[models."{names[0]}"] in your settings file'
        )
    cut = {model.name: model for model in models if _is_cut(model)}
    return [*warnings, *map(_default_warning, cut.values())]


def _is_cut(model: Model) -> bool:
    """Whether prompts go through Ollama's Chat Completions, where nothing sets the size of the context."""
    facts = reported_info.get(model.name)
    if facts is None or not facts.is_default or model.name.startswith(("ollama:", "ollama/")):
        return False
    return model.window.whole.context == facts.window and model.window.whole.context < _SMALL_WINDOW


def _default_warning(model: Model) -> str:
    name, context = parse_name(model.name), model.window.whole.context
    return (
        f"Ollama may cut the prompts of {model.name} at its default, {context:,} tokens: name "
        f"the model ollama:{name.model}, which sets the size, or set OLLAMA_CONTEXT_LENGTH for the server, "
        f'and window under [models."{model.name}"] in your settings file'
    )


def pruned_warning(removed: Sequence[str], max_mb: int) -> str:
    """Return the warning that the oldest runs were removed to make room."""
    runs = "the oldest run" if len(removed) == 1 else f"the {len(removed):,} oldest runs"
    return f"the journal exceeded {max_mb:,} MB (the setting store_mb): removed {runs}"


def isolation_warning(level: int, missing: str) -> str:
    """Say that the code of a run was isolated less than it could be. `missing` are the layers that the
    machine refuses, "" if there are none."""
    isolated = "not isolated" if level == 0 else "only partly isolated"
    reason = f": this machine refuses {missing}" if missing else ""
    return f"the code of this run was {isolated} (level {level}){reason}"


class Notes:
    """Keeps each note of a run once: of what it did without, the first of each kind, and of what sub-RLMs
    warned of, only the first few."""

    def __init__(self, warnings: Sequence[str] = ()) -> None:
        self.kept = [Note(warning) for warning in warnings]
        self._from_sub_rlms = 0

    @property
    def dropped(self) -> int:
        """Return how many warnings of sub-RLMs were not kept."""
        return max(0, self._from_sub_rlms - _MAX_FROM_SUB_RLMS)

    def add(self, warned: Warned) -> bool:
        """Add a note. Return False if it was already added, or if sub-RLMs gave too many."""
        is_warning = warned.kind == "warning"
        if any(note.text == warned.message if is_warning else note.kind == warned.kind for note in self.kept):
            return False
        if warned.depth and is_warning:
            self._from_sub_rlms += 1
            if self.dropped:
                return False
        self.kept.append(Note(warned.message, warned.kind))
        return True


def check_source(body: Body) -> list[str]:
    """Return a warning if the file that `body` is in was written, moved or removed, and still holds the text
    that the run read. Raises SourceChanged if it does not."""
    if body.watched is None:
        return []
    body.watched.check()
    if not body.watched.has_grown_or_moved:
        return []
    return ["the input file was written, moved or removed during the run: the answer is from its text before"]
