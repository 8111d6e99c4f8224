"""Writes the warnings of a run about its input, its models and its journal, one line each."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from rlm.documents import Loaded, Problem
from rlm.models import Model
from rlm.models.catalog.info import reported_info
from rlm.models.catalog.names import parse_name

__all__ = ["pruned_warning", "warnings_of", "window_warnings"]

_MAX_ENCODINGS = 3
_MAX_DOCUMENTS = 20
_MAX_NAMED = 3
_SMALL_WINDOW = 16_000


def warnings_of(loaded: Loaded) -> list[str]:
    """Return warnings about documents that were not read, or only in part, replaced in part, or decoded by a
    guess. Files that hold nothing to read give none."""
    missing = [(f"skipped {{}}, {one.what}: {one.remedy}", one.document) for one in loaded.of("missing")]
    partial = [(_sentence(one), one.document) for one in loaded.of("partial")]
    warnings = _at_most(_grouped([*missing, *partial]), "documents were not read, or only in part")
    if others := loaded.of("other"):
        count = len(others)
        warnings.append(
            f"skipped {count:,} source{'' if count == 1 else 's'} "
            f"({Path(others[0].document).name} is {others[0].what}{', …' if count > 1 else ''})"
        )
    remarks = [(_sentence(one), one.document) for one in loaded.of("remark")]
    warnings += _at_most(_grouped(remarks), "remarks about documents")
    if loaded.replaced:
        warnings.append(f"{loaded.replaced:,} bytes are not valid text; replaced by U+FFFD")
    if guessed := loaded.of("encoding"):
        warnings.append(_encoding_warning(guessed))
    return warnings


def _sentence(problem: Problem) -> str:
    """Return a problem as a line, with `{}` for the document's name, if it has one."""
    text = f"{problem.what}: {problem.remedy}" if problem.remedy else problem.what
    return f"{{}}: {text}" if problem.document else "{}" + text


def _grouped(lines: Sequence[tuple[str, str]]) -> list[str]:
    """Return lines with the names that they hold as `{}`. More than three that are the same share a line."""
    names: dict[str, list[str]] = {}
    for text, name in lines:
        names.setdefault(text, []).append(name)
    shown: list[str] = []
    for text, alike in names.items():
        if len(alike) > _MAX_NAMED:
            shown.append(
                text.replace("{}", f"{len(alike):,} documents ({', '.join(alike[:_MAX_NAMED])}, …)", 1)
            )
        else:
            shown += [text.replace("{}", name, 1) for name in alike]
    return shown


def _at_most(lines: Sequence[str], of_what: str) -> list[str]:
    """Return the first lines, and how many more there are of what."""
    rest = len(lines) - _MAX_DOCUMENTS
    more = [f"… and {rest:,} more {of_what}"] if rest > 0 else []
    return [*lines[:_MAX_DOCUMENTS], *more]


def _encoding_warning(guessed: Sequence[Problem]) -> str:
    """Return `3 documents are not UTF-8; decoded as cp1252 (notes.txt, …), cp1251 (brief.txt)`."""
    by_encoding: dict[str, list[str]] = {}
    for guess in guessed:
        by_encoding.setdefault(guess.what, []).append(guess.document)
    readings = [
        f"{encoding} ({documents[0]}{', …' if len(documents) > 1 else ''})"
        for encoding, documents in by_encoding.items()
    ]
    subject = "1 document is" if len(guessed) == 1 else f"{len(guessed):,} documents are"
    shown = ", ".join(readings[:_MAX_ENCODINGS])
    rest = len(readings) - _MAX_ENCODINGS
    more = f" and {rest} other encoding{'' if rest == 1 else 's'}" if rest > 0 else ""
    return f"{subject} not UTF-8; decoded as {shown}{more}"


def window_warnings(models: Sequence[Model]) -> list[str]:
    """Return one line about the models whose window is a guess, and one about those that their server serves
    with less than they could read. A server may cut longer prompts without a word."""
    warnings = []
    guessed = {model.name: model.window for model in models if not model.window.known}
    if guessed:
        window = next(iter(guessed.values()))
        names = tuple(guessed)
        warnings.append(
            f"the window of {' and of '.join(names)} is a guess: {window.context:,} tokens, "
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
