"""Build a card's prompt: system text, stage instructions, history and context."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import PurePath
from typing import Annotated, Any, NamedTuple

from rlm.prompts.errors import BudgetExceeded, UnknownStage
from rlm.prompts.fitting import Keep, Part, Section, assemble
from rlm.prompts.history import Message, Summarizer, SummaryCache, compact_history
from rlm.prompts.json_input import Bounds, read
from rlm.prompts.prompt import AssembledPrompt, Decision, PromptSection, Totals, joined, make_report
from rlm.prompts.recipes.card_settings import CONTEXT_KINDS, CardSettings
from rlm.prompts.templates import fill, table, words

__all__ = [
    "Adr",
    "AssembledCard",
    "CardInput",
    "CardPrompt",
    "Library",
    "SourceFile",
    "card_stage",
    "is_complete",
]

_ALIASES = {"code_review": "review"}
_TITLE_CHARS = 300
_WINDOW = 32_000
"""Tokens of a summary's prompt, at most."""
_FENCES = re.compile(r"`{3,}")
_LOGS = ("build_logs", "pod_logs", "test_results")
_LOG_SHARE = 5  # while errors are fixed, a fifth of the context is kept for each of them
_CUT: dict[str, Keep] = {"notes": "head", "build_logs": "tail", "pod_logs": "tail"}
# Files and decisions stop before the context is full, to leave a little room for growth.
_SPARE = {"source_files": 1_000, "adrs": 500}


class Adr(NamedTuple):
    """A decision on the architecture."""

    title: str
    content: str


class Library(NamedTuple):
    """Documentation of a library."""

    name: str
    content: str


class SourceFile(NamedTuple):
    """A file of the project."""

    path: str
    content: str


@dataclass(frozen=True, slots=True)
class AssembledCard(AssembledPrompt):
    """A card's prompt: one text of four sections. `condensed`: its history is not included whole."""

    condensed: bool

    def to_json(self) -> dict[str, Any]:
        """Return prompt (one text), sections and report."""
        # Slots make a new class, which super() without arguments does not know.
        return {**AssembledPrompt.to_json(self), "prompt": self.text}


@dataclass(frozen=True, slots=True)
class CardInput:
    """A card in a state, its messages (oldest first) and its context. What is blank gets no heading.

    States are `planning`, `coding`, `review`, `testing` and `error_fixing`. With `repl`, the prompt is for a
    run of the RLM driver, and its reply contract replaces the output format. `threshold_percentage` replaces
    that of the settings for this card. Raises InputError.
    """

    id: str = ""
    title: str = ""
    state: str = "coding"
    messages: tuple[Message, ...] = ()
    notes: tuple[str, ...] = ()
    adrs: tuple[Adr, ...] = ()
    libraries: tuple[Library, ...] = ()
    source_files: tuple[SourceFile, ...] = ()
    build_logs: str = ""
    pod_logs: str = ""
    test_results: str = ""
    repl: bool = False
    threshold_percentage: Annotated[int, Bounds(1, 100)] | None = None
    warnings: tuple[str, ...] = ()

    @classmethod
    def from_json(cls, value: object) -> CardInput:
        """Read an object with these fields. A number may be the id, and `{content}` a note. Raises
        InputError."""
        if isinstance(value, Mapping):
            value = {**value}
            if type(value.get("id")) is int:
                value["id"] = str(value["id"])
            if isinstance(notes := value.get("notes"), list):
                value["notes"] = [one.get("content") if isinstance(one, Mapping) else one for one in notes]
        return read(cls, value)


class CardPrompt:
    """Builds a card's prompt of four sections: system, agent, history, context.

    `summarizer` summarizes a history above its threshold, in prompts of at most `window` tokens. Without one,
    its salient sentences are selected, which needs no model. `cache` keeps summaries between calls.
    """

    def __init__(
        self,
        settings: CardSettings | None = None,
        *,
        summarizer: Summarizer | None = None,
        cache: SummaryCache | None = None,
        window: int = _WINDOW,
    ) -> None:
        self.settings = settings or CardSettings()
        self._summarizer = summarizer
        self._cache = cache
        self._window = min(window, _WINDOW)

    def assemble(self, given: CardInput | Mapping[str, Any]) -> AssembledCard:
        """Return the four sections, each within its budget.

        Raises InputError, UnknownStage, and BudgetExceeded if the system text, the agent text or the rules of
        the history exceed their budget.
        """
        given = read(CardInput, given) if isinstance(given, CardInput) else CardInput.from_json(given)
        settings, budget, counter = self.settings, self.settings.budget, self.settings.counter
        stage = card_stage(given.state)
        history = compact_history(
            given.messages,
            budget=budget.chat_history,
            counter=counter,
            summarizer=self._summarizer,
            threshold=given.threshold_percentage or settings.threshold_percentage,
            window=self._window,
            cache=self._cache,
        )
        output = table("card.toml")["output_repl" if given.repl else "output"].strip()
        system = fill(words("card_system.md"), {"output": output.format(promise=settings.promise)})
        remedy = "shorten it or raise its budget in [prompt]"
        fixed: list[PromptSection] = []
        decisions: list[Decision] = []
        for section, limit in (
            (Section("system", "system", [Part("system", system)], stable=True), budget.system_prompt),
            (
                Section("agent", "system", [Part("agent", _agent_text(given, stage, settings))], stable=True),
                budget.agent_prompt,
            ),
            (
                Section("history", "user", [Part(f"history-{history.kind}", history.text)]),
                budget.chat_history,
            ),
        ):
            made = assemble([section], limit, counter, remedy=remedy)
            fixed += made.sections
            decisions += made.report.decisions
        parts = context_sections(given, settings, fixing_errors=stage == "error_fixing")
        room = budget.other_context
        while True:
            context = assemble(parts, room, counter, remedy=remedy)
            text = context.text
            sections = (*fixed, PromptSection("context", "user", text, context.report.totals.prompt))
            tokens = counter.count(joined(sections))
            if tokens <= budget.total:
                break
            if room <= 0:
                raise BudgetExceeded(tokens, budget.total, tuple(section.name for section in fixed), remedy)
            # The four sections, measured alone, can add up to less than the whole.
            room = max(0, min(room, context.report.totals.prompt) - (tokens - budget.total))
        report = make_report(
            sections,
            [*decisions, *context.report.decisions],
            counter,
            Totals(budget.total, tokens),
            warnings=[*given.warnings, *(f"history: {warning}" for warning in history.warnings)],
        )
        actions = (*(f"history: {action}" for action in history.actions), *report.actions)
        return AssembledCard(sections, replace(report, actions=actions), condensed=history.kind != "whole")


def card_stage(state: str) -> str:
    """Normalize a state to the name of its stage prompt: `CodeReview` and `code review` become `review`."""
    parted = re.sub(r"(?<=[a-z0-9])(?=[A-Z])", "_", state.strip())
    name = re.sub(r"[\W_]+", "_", parted).strip("_").lower()
    return _ALIASES.get(name, name)


def is_complete(reply: str, settings: CardSettings | None = None) -> bool:
    """Return whether the completion signal is in a reply on a line of its own, as the prompt asks for it.

    Spaces and Markdown's emphasis around it don't matter. A sentence about the signal is no signal.
    """
    promise = re.escape((settings or CardSettings()).promise.strip())
    return re.search(rf"^[ \t>*_`]*{promise}[ \t*_`]*\r?$", reply, re.MULTILINE) is not None


def _agent_text(given: CardInput, stage: str, settings: CardSettings) -> str:
    """Return the stage text of the state, else the default, else the one for coding."""
    data = table("card.toml")
    agents: Mapping[str, str] = data["agent"] if settings.agents is None else settings.agents
    found = next((agents[name] for name in (stage, "default", "coding") if name in agents), None)
    if found is None:
        raise UnknownStage(
            f"there is no stage prompt for the state {given.state!r}: use one of {', '.join(agents)}, "
            "or give one called default"
        )
    lines = data["agent_words"]
    card = " ".join(": ".join(filter(None, (given.id, given.title))).split())[:_TITLE_CHARS]
    return "\n\n".join(
        [
            found.strip(),
            lines["tools"],
            lines["done"].format(promise=settings.promise),
            " ".join([*([lines["card"].format(card=f"{card}.")] if card else []), lines["follows"]]),
        ]
    )


def context_sections(context: CardInput, settings: CardSettings, *, fixing_errors: bool) -> list[Section]:
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
    sections = []
    kinds = sorted(CONTEXT_KINDS, key=lambda kind: -settings.priority(kind))
    for place, kind in enumerate(kinds):
        heading = table("card.toml")["headings"][kind]
        own = [text.rstrip("\n") for text in texts[kind] if text.strip()]
        fence = _fence_for("".join(own)) if kind in _LOGS else ""
        keep = None if kind == "notes" else len(kinds) - place
        floor = share if kind in _LOGS else 0
        sections.append(
            Section(
                kind,
                "user",
                [Part(f"{kind}-{number}", text, keep) for number, text in enumerate(own, 1)],
                prefix=f"{heading}\n{fence}\n" if fence else f"{heading}\n\n",
                suffix=f"\n{fence}" if fence else "",
                cut="tail" if floor else _CUT.get(kind),
                spare=_SPARE.get(kind, -1),
                floor=floor,
            )
        )
    return sections


def _fence_for(text: str) -> str:
    """Return a fence that no line of `text` can close."""
    longest = max((len(run) for run in _FENCES.findall(text)), default=2)
    return "`" * (longest + 1)


def _file_text(file: SourceFile) -> str:
    fence = _fence_for(file.content)
    language = PurePath(file.path).suffix.removeprefix(".")
    language = language if language.isalnum() else ""
    return f"### {_line(file.path)}\n{fence}{language}\n{file.content.rstrip()}\n{fence}"


def _titled_texts(documents: Sequence[Adr | Library]) -> list[str]:
    return [f"### {_line(title)}\n{content.strip()}" for title, content in documents if content.strip()]


def _line(text: str) -> str:
    return " ".join(text.split())
