"""The bodies of the own API, as its OpenAPI document describes them."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Field

from rlm.server.work.request import ContextPart, RequestLimits
from rlm.tasks.attempts import MAX_ATTEMPTS

__all__ = [
    "Document",
    "Documents",
    "ErrorBody",
    "ResearchBody",
    "Run",
    "RunBody",
    "Runs",
    "SearchBody",
    "SummaryBody",
    "Usage",
    "parts_of",
]

Task = Annotated[str, Field(min_length=1, max_length=200_000)]
Parts = Annotated[str, Field(min_length=1)] | list[ContextPart]


class _Body(BaseModel):
    model_config = ConfigDict(extra="forbid", populate_by_name=True)


class RunBody(_Body):
    """A question. Without a context, the model reasons and computes, and says so."""

    task: Task
    context: Parts | None = Field(default=None, description="A text, or a list of parts.")
    answer_schema: dict[str, Any] | None = Field(
        default=None, alias="schema", description="A JSON Schema for the answer."
    )
    attempts: int = Field(
        default=1, ge=1, le=MAX_ATTEMPTS, description="Independent runs; the majority answers."
    )
    limits: RequestLimits = Field(default_factory=RequestLimits)


class SummaryBody(_Body):
    """A summary of texts, chats and documents."""

    context: Parts
    kind: Literal["auto", "card", "chat", "document", "story"] = "auto"
    tokens: int | None = Field(default=None, ge=100, le=200_000)
    focus: str = Field(default="", max_length=2_000)
    limits: RequestLimits = Field(default_factory=RequestLimits)


class ResearchBody(_Body):
    """A task that is planned into questions, each of which is a run."""

    task: Task
    context: Parts
    questions: int = Field(default=8, ge=1, le=30, description="The most questions to plan.")
    limits: RequestLimits = Field(default_factory=RequestLimits)


class SearchBody(_Body):
    """A search without a model."""

    query: str = Field(min_length=1, max_length=10_000)
    context: Parts
    regex: bool = Field(default=False, description="The query is a regular expression.")
    limit: int = Field(default=5, ge=1, le=1_000)
    expand: Literal["neighbors", "section"] | None = None


class Run(BaseModel):
    """A run. `result` is there once it has ended: the result as `rlm ask --json` prints it."""

    id: str
    object: Literal["run"] = "run"
    kind: str
    status: Literal["queued", "running", "interrupted", "finished", "failed", "cancelled"]
    task: str
    created_at: float
    started_at: float | None
    ended_at: float | None
    cost_usd: float
    result: dict[str, Any] | None
    error: dict[str, Any] | None


class Runs(BaseModel):
    """A list of runs, newest first. For the next page, give the last `id` as `before`."""

    object: Literal["list"] = "list"
    data: list[Run]
    has_more: bool


class Document(BaseModel):
    """An uploaded document. Its `id` is a `file_id` of contexts."""

    id: str
    object: Literal["file"] = "file"
    filename: str
    bytes: int
    purpose: str
    created_at: int
    status: Literal["processed"] = "processed"


class Documents(BaseModel):
    """A list of documents, newest first."""

    object: Literal["list"] = "list"
    data: list[Document]
    has_more: bool = False


class Usage(BaseModel):
    """What the caller has spent (UTC), what open runs may still spend, and the budgets of the key."""

    user: str
    day_usd: float
    month_usd: float
    reserved_usd: float
    day_budget_usd: float | None
    month_budget_usd: float | None


class ErrorBody(BaseModel):
    """Every error has this body."""

    class Error(BaseModel):
        """The fault."""

        message: str
        type: str
        param: str | None
        code: str | None

    error: Error


def parts_of(context: str | list[ContextPart] | None) -> tuple[dict[str, Any], ...] | None:
    """Return the context as the store keeps it."""
    if context is None:
        return None
    if isinstance(context, str):
        return ({"text": context},)
    return tuple(part.model_dump(exclude_none=True) for part in context) or None
