"""The models, limits and settings of runs. All runs of one RLM share them, at every depth."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from typing import TYPE_CHECKING, Any

from rlm.accounting.budget import Budget
from rlm.accounting.metered_model import MeteredModel
from rlm.answers.answer_gate import AnswerGate
from rlm.children.page_looks import can_look
from rlm.children.sub_models import ChildModel, SubModels
from rlm.children.tools import Toolbox
from rlm.driver.direct import fits
from rlm.events import (
    ChildEnded,
    ChildrenStarted,
    Event,
    ModelAnswered,
    SubRLMStarted,
    TextObserver,
    ToolEnded,
    Warned,
)
from rlm.models import CallSettings, Model
from rlm.models.base import is_extractive
from rlm.models.catalog.info import Prices
from rlm.playback.recording import Recording
from rlm.prompts import EarlierQuestion
from rlm.results import Strategy
from rlm.sandbox.host.kernel_process import FreshKernels, KernelSource
from rlm.sandbox.host.pool import KernelPool
from rlm.sandbox.text.body import Body
from rlm.sandbox.text.parts import blank_pages
from rlm.settings import Limits, Settings

if TYPE_CHECKING:
    from rlm.journal import RunLog

__all__ = ["RunConfig"]

_SUB_RLM_EVENTS = (
    ChildrenStarted,
    ChildEnded,
    ModelAnswered,
    SubRLMStarted,
    ToolEnded,
    Warned,
)
"""Events of a sub-RLM that the observers get."""
_LEAST_WINDOW_OF_ROUNDS = 12_000
_KERNELS_PER_RUN = 2
_MAX_SHARED_SPARES = 2


@dataclass(frozen=True, slots=True)
class RunConfig:
    """The models, limits and settings of runs. `sub_models` are those of the children by name, the default
    one first. `tell` passes an event to the observers, and `tell_text` the text of replies, if an observer
    wants it. `gate` is the caller's check of an answer."""

    model: Model
    sub_models: Mapping[str, Model]
    summary_model: Model
    limits: Limits
    settings: Settings
    tell: Callable[[Event], None]
    tools: Toolbox = field(default_factory=Toolbox)
    gate: AnswerGate | None = None
    tell_text: TextObserver | None = None

    @property
    def prices(self) -> Prices:
        return Prices(self.settings.facts)

    def metered(self, budget: Budget, log: RunLog, recording: Recording) -> MeteredModel:
        """Return what sends the requests of a run or a job."""
        return MeteredModel(
            budget,
            log,
            recording,
            self.tell,
            self.prices,
            remember=self.settings.cache,
            observe_text=self.tell_text,
        )

    @property
    def sub_model(self) -> Model:
        """Return the model of children that nothing else is said of."""
        return next(iter(self.sub_models.values()))

    @property
    def models(self) -> tuple[Model, ...]:
        """Return all models."""
        return (self.model, *self.sub_models.values(), self.summary_model)

    @property
    def children(self) -> SubModels:
        """Return the models of children, with the sizes of their prompts."""
        settings = self.settings
        limit, output_tokens = self.limits.child_tokens, settings.child.output_tokens
        return SubModels(
            tuple(
                ChildModel.of(name, model, limit=limit, output_tokens=output_tokens, facts=settings.facts)
                for name, model in self.sub_models.items()
            )
        )

    @property
    def can_look(self) -> bool:
        """Return whether children can look at pages, so that inputs are loaded with their pictures."""
        return can_look(self.looking_model)

    @property
    def looking_model(self) -> Model:
        """Return the model of children that look at pages: the first that sees, or else the default one."""
        return next((one for one in self.sub_models.values() if one.window.sees), self.sub_model)

    def first_strategy(
        self,
        body: Body,
        earlier: Sequence[EarlierQuestion] = (),
        task: str = "",
        *,
        looks: bool = False,
    ) -> Strategy:
        """Return how a run over `body` begins. "auto" follows the table in docs/tasks.md. `looks`: children
        can look at its pages."""
        strategy = self.settings.strategy
        if strategy != "auto":
            return strategy
        if not body.chars:
            return "rlm"  # without a text, Python is the only check on what a model says
        if looks and blank_pages(body):
            return "rlm"  # a call over the text alone would miss them
        if is_extractive(self.model):
            return "rlm"
        if fits(self.model, body, self.settings.direct, earlier) and not counts_records(task, body):
            return "direct"
        # The rounds of a root fill at least so much of a window.
        return "rlm" if self.model.window.context >= _LEAST_WINDOW_OF_ROUNDS else "map-reduce"

    def kernels(self, shared: KernelPool | None = None) -> KernelPool:
        """Return a pool for one run. Its spare kernel starts while the run loads its input or waits for the
        model. A pool on top of `shared` has no spare, because `shared` has its own."""
        if shared is not None:
            return KernelPool(_KERNELS_PER_RUN, spare=0, source=shared)
        return KernelPool(_KERNELS_PER_RUN, refill=False, source=self.fresh_kernels())

    def kernels_below(self, kernels: KernelSource) -> KernelSource:
        """Return the source for the sub-RLMs of a run whose own kernel comes from `kernels`."""
        # A pool has a cap: a run that holds one of its kernels may not wait for another.
        return self.fresh_kernels() if isinstance(kernels, KernelPool) else kernels

    def shared_kernels(self, runs: int) -> KernelPool:
        """Return a pool for `runs` concurrent runs, with a few spare kernels."""
        spare = min(runs, _MAX_SHARED_SPARES)
        return KernelPool(runs * _KERNELS_PER_RUN + spare, spare=spare, source=self.fresh_kernels())

    def fresh_kernels(self) -> FreshKernels:
        """Return a source that starts each kernel on request."""
        return FreshKernels(
            self.settings.kernel,
            level=self.settings.sandbox,
            # The cells of `extractive` are our own code, so they may run without isolation. This model then
            # works on a machine without any set-up.
            minimum=0 if is_extractive(self.model) else 2,
        )

    def for_sub_rlm(self, tell: Callable[[Event], None], model: str = "") -> RunConfig:
        """Return the config of a sub-RLM. The observers get its child events but not its rounds. `model` is
        the name of the sub-model that is its root, or "" for the root of this run."""

        def forward(event: Event) -> None:
            if isinstance(event, Warned):
                message = event.message if event.depth else f"in a sub-RLM: {event.message}"
                event = Warned(message, event.depth + 1, event.kind)
            if isinstance(event, _SUB_RLM_EVENTS):
                tell(event)

        root = self.children.named(model).model if model else self.model
        return replace(self, model=root, tell=forward)

    def facts(self) -> dict[str, Any]:
        """Return what the journal keeps of the config. It holds no secret."""
        named = {model.name for model in self.models}
        children = self.children
        return {
            "model": self.model.name,
            "sub_model": self.sub_model.name,
            "summary_model": self.summary_model.name,
            # With their sizes as they are now: a later version may choose others, and resume with these.
            "sub_models": [
                {
                    "name": one.name,
                    "model": one.model.name,
                    **asdict(one.model.window),
                    "child_tokens": one.prompt_tokens,
                }
                for one in children
            ],
            "limits": self.limits.to_json(),
            "strategy": self.settings.strategy,
            "sandbox": self.settings.sandbox,
            "contract": self.settings.root.contract,
            "cache": self.settings.cache,
            "check_support": self.settings.check_support,
            "root": asdict(self.settings.root),
            "child": {**asdict(self.settings.child), "prompt_tokens": children.default.prompt_tokens},
            "direct": asdict(self.settings.direct),
            "kernel": asdict(self.settings.kernel),
            **({"slow": True} if self.settings.slow else {}),
            "tools": [[tool.name, tool.signature, tool.summary] for tool in self.tools.docs],
            "windows": {
                "model": asdict(self.model.window),
                "sub_model": asdict(self.sub_model.window),
                "summary_model": asdict(self.summary_model.window),
            },
            "options": {
                slot: calls.to_json()
                for slot in ("model", "sub_model", "summary_model")
                if (calls := _calls_of(getattr(self, slot)))
            },
            "model_facts": {
                name: facts.to_json() for name, facts in self.settings.facts.items() if name in named
            },
        }


def _calls_of(model: Model) -> CallSettings:
    """Return the settings of a model's calls. A model of the user's own may have none."""
    calls = getattr(model, "calls", None)
    return calls if isinstance(calls, CallSettings) else CallSettings()


_RECORD_KINDS = frozenset({"csv", "json", "jsonl"})
_MIN_LINES = 60
"""With fewer lines a model counts about as well as Python."""
_AGGREGATE = re.compile(
    r"\bhow (?:many|often|much in total)\b|\bcount\b|\bnumber of\b|\b(?:sum|total|average|mean|median)\b"
    r"|\b(?:most|least) (?:often|frequent|common)|\bper (?:month|day|year|week|person|author)\b"
    r"|\b(?:highest|lowest|largest|smallest|earliest|latest|longest|shortest)\b|\bwie (?:viele|oft)\b"
    r"|\bcombien\b|\bcuánt[oa]s\b",
    re.IGNORECASE,
)


def counts_records(task: str, body: Body) -> bool:
    """Return whether `task` asks for a count, a sum or an extreme over many records. A model that reads them
    all at once miscounts; a few lines of Python do not."""
    if body.lines < _MIN_LINES or _AGGREGATE.search(task) is None:
        return False
    kinds = {document.kind for document in body.documents}
    return bool(kinds & _RECORD_KINDS)
