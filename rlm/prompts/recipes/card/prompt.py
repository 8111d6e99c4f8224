"""Build a card's prompt: system text, stage instructions, history and context."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import field, replace
from typing import Any

from rlm.lazy_dataclass import dataclass
from rlm.prompts.assembly.assembler import assemble
from rlm.prompts.assembly.budget import Budget
from rlm.prompts.assembly.section import Item, Section
from rlm.prompts.errors import InputError, UnknownStage
from rlm.prompts.history import CompactedHistory, Message, Summarizer, SummaryCache, compact_history
from rlm.prompts.json_input import Record
from rlm.prompts.prompt import AssembledPrompt, PromptSection, joined
from rlm.prompts.recipes.card.context import CardContext, Document, context_sections
from rlm.prompts.recipes.card.settings import CardSettings, check_whole
from rlm.prompts.templates import fill, table, words

__all__ = ["AssembledCard", "CardInput", "CardPrompt", "card_stage", "is_complete"]

_SECTIONS = ("system", "agent", "history", "context")
_ALIASES = {"code_review": "review"}
_ROLES = ("system", "user", "assistant", "tool")
_TITLE_CHARS = 300


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
    """A card in a state, its messages (oldest first) and its context.

    States are `planning`, `coding`, `review`, `testing` and `error_fixing`. With `repl`, the prompt is for a
    run of the RLM driver, and its reply contract replaces the output format. `threshold_percentage` replaces
    that of the settings for this card. Raises InputError.
    """

    id: str = ""
    title: str = ""
    state: str = "coding"
    messages: tuple[Message, ...] = ()
    context: CardContext = field(default_factory=CardContext)
    repl: bool = False
    threshold_percentage: int | None = None
    warnings: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        for name in ("id", "title", "state"):
            if not isinstance(value := getattr(self, name), str):
                raise InputError(f"$.{name}", f"is {value!r}", "give a text")
        if self.threshold_percentage is not None:
            check_whole("$.threshold_percentage", self.threshold_percentage, 1, 100)

    @classmethod
    def from_json(cls, value: object) -> CardInput:
        """Read `{id, title, state, messages: [{role, content, author?, created_at?, tool_call_id?}], notes,
        adrs: [{title, content}], libraries: [{name, content}], source_files: [{path, content}], build_logs,
        pod_logs, test_results, repl?, threshold_percentage?}`. Raises InputError."""
        given = Record(value)
        context = CardContext(
            notes=given.each("notes", _note),
            adrs=given.each("adrs", _document("title")),
            libraries=given.each("libraries", _document("name")),
            source_files=given.each("source_files", _document("path")),
            build_logs=given.text("build_logs", ""),
            pod_logs=given.text("pod_logs", ""),
            test_results=given.text("test_results", ""),
        )
        number = given.value.get("id")
        return cls(
            id=str(number) if isinstance(number, int) else given.text("id", ""),
            title=given.text("title", ""),
            state=given.text("state", "coding"),
            messages=given.each("messages", _message),
            context=context,
            repl=given.flag("repl", False),
            threshold_percentage=given.whole_or_none("threshold_percentage"),
            warnings=given.unknown_keys(
                ("id", "title", "state", "messages", *CardContext.__slots__, "repl", "threshold_percentage")
            ),
        )


class CardPrompt:
    """Builds a card's prompt of four sections: system, agent, history, context.

    `summarizer` summarizes a history above its threshold. Without one, its salient sentences are selected,
    which needs no model. `cache` keeps summaries between calls.
    """

    def __init__(
        self,
        settings: CardSettings | None = None,
        *,
        summarizer: Summarizer | None = None,
        cache: SummaryCache | None = None,
    ) -> None:
        self.settings = settings or CardSettings()
        self._summarizer = summarizer
        self._cache = cache

    def assemble(self, given: CardInput | Mapping[str, Any]) -> AssembledCard:
        """Return the four sections, each within its budget.

        Raises InputError, UnknownStage, and BudgetExceeded if the system text, the agent text or the rules of
        the history exceed their budget.
        """
        if not isinstance(given, CardInput):
            given = CardInput.from_json(given)
        settings, budget = self.settings, self.settings.budget
        stage = card_stage(given.state)
        agent = _agent_text(given, stage, settings)
        history = compact_history(
            given.messages,
            budget=budget.chat_history,
            counter=settings.counter,
            summarizer=self._summarizer,
            threshold=given.threshold_percentage or settings.threshold_percentage,
            cache=self._cache,
        )
        prompt = assemble(
            [
                *_fixed_sections(given, agent, settings),
                _history_section(history),
                *context_sections(given.context, settings, fixing_errors=stage == "error_fixing"),
            ],
            Budget(
                budget.total,
                per_section={
                    "system": budget.system_prompt,
                    "agent": budget.agent_prompt,
                    "history": budget.chat_history,
                    "context": budget.other_context,
                },
                counter=settings.counter,
            ),
            remedy="shorten it or raise its budget in [prompt]",
        )
        report = replace(
            prompt.report,
            actions=(*(f"history: {action}" for action in history.actions), *prompt.report.actions),
        ).with_warnings((*given.warnings, *(f"history: {warning}" for warning in history.warnings)))
        return AssembledCard(_merge_context(prompt, settings), report, condensed=history.kind != "whole")


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


def _fixed_sections(given: CardInput, agent: str, settings: CardSettings) -> list[Section]:
    output = table("card.toml")["output_repl" if given.repl else "output"].strip()
    system = fill(words("card_system.md"), {"output": output.format(promise=settings.promise)})
    return [
        Section(
            "system",
            "system",
            order=0,
            priority=1_000,
            required=True,
            stability="static",
            items=(Item("system", system),),
        ),
        Section("agent", "system", order=1, priority=999, required=True, items=(Item("agent", agent),)),
    ]


def _history_section(history: CompactedHistory) -> Section:
    """Return the history as a required section. It already fits its budget and is never dropped."""
    return Section(
        "history",
        "user",
        order=2,
        priority=998,
        required=True,
        stability="turn",
        items=(Item(f"history-{history.kind}", history.text),),
    )


def _merge_context(prompt: AssembledPrompt, settings: CardSettings) -> tuple[PromptSection, ...]:
    """Merge the parts of the context into one section."""
    kept = [section for section in prompt.sections if section.name in _SECTIONS]
    context = joined(section for section in prompt.sections if section.name not in _SECTIONS)
    return (*kept, PromptSection("context", "user", context, settings.counter.count(context)))


def _message(value: Any, path: str) -> Message:
    given = Record(value, path, what="an object with role and content")
    return Message(
        role=given.choice("role", _ROLES),  # type: ignore[arg-type]
        content=given.text("content"),
        author=given.text_or_none("author"),
        created_at=given.text_or_none("created_at"),
        tool_call_id=given.text_or_none("tool_call_id"),
        id=given.text_or_none("id"),
    )


def _note(value: Any, path: str) -> str:
    if isinstance(value, str):
        return value
    if isinstance(value, Mapping):
        return Record(value, path).text("content")
    raise InputError(path, "is not a note", "give a text, or an object with content")


def _document(name: str) -> Any:
    def read(value: Any, path: str) -> Document:
        given = Record(value, path, what=f"an object with {name} and content")
        return Document(given.text(name), given.text("content"))

    return read
