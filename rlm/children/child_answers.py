"""Makes the answers of children: from a reply, or from a failure. Counts what the answers of a cell took."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace

from rlm.answers.answer_type import SchemaError
from rlm.answers.thinking import without_reasoning
from rlm.children.child_prompts import ChildForm
from rlm.models.base import Reply
from rlm.prompts import is_not_found
from rlm.sandbox.types import ChildAnswer

__all__ = ["ChildTally", "failure", "read_answer", "total_cost", "with_cost"]


async def read_answer(reply: Reply, form: ChildForm | None) -> ChildAnswer:
    """Return the answer of a reply, or why the reply is none."""
    text = without_reasoning(reply.text).strip()
    if form is not None:
        text, _ = form.reply_form.read(text)
    if reply.finish_reason == "length":
        return failure("truncated", "the reply was cut by the output limit")
    if reply.finish_reason == "refusal":
        return failure("refused", "the model refused to answer")
    if not text:
        return failure("empty", "the reply was empty")
    if is_not_found(text):
        return ChildAnswer(text, found=False, value=None if form is None else form.empty)
    if form is None:
        return ChildAnswer(text)
    try:
        value = await form.schema.read(text)
    except SchemaError as error:
        return failure("schema", str(error))
    return ChildAnswer(text, found=form.empty is None or value != form.empty, value=value)


def failure(type_: str, message: str) -> ChildAnswer:
    """Return the answer of a child that failed."""
    return ChildAnswer(text="", error=message, error_type=type_, found=False)


def total_cost(costs: Iterable[float | None]) -> float | None:
    """Return the sum, or None if one of the costs is not known."""
    known = list(costs)
    return None if None in known else sum(cost or 0.0 for cost in known)


def with_cost(answer: ChildAnswer, input_tokens: int, output_tokens: int, cost: float | None) -> ChildAnswer:
    """Return `answer` with the tokens and the cost of one more attempt."""
    return replace(
        answer,
        input_tokens=answer.input_tokens + input_tokens,
        output_tokens=answer.output_tokens + output_tokens,
        cost_usd=total_cost((answer.cost_usd, cost)),
    )


@dataclass(frozen=True, slots=True)
class ChildTally:
    """Counts the children of one cell. `empty` are those that found nothing in their slice. `calls` are
    those that sub-RLMs made. `cost_usd` is None when a price is not known."""

    made: int = 0
    failed: int = 0
    empty: int = 0
    cached: int = 0
    seconds: float = 0.0
    calls: int = 0
    tokens: int = 0
    cost_usd: float | None = 0.0

    def plus(self, answer: ChildAnswer) -> ChildTally:
        """Return the counts with one more answer, of a child or of a sub-RLM."""
        return ChildTally(
            made=self.made + 1,
            failed=self.failed + (answer.error is not None),
            empty=self.empty + (answer.error is None and not answer.found),
            cached=self.cached + answer.cached,
            seconds=self.seconds,
            calls=self.calls + answer.calls,
            tokens=self.tokens + answer.input_tokens + answer.output_tokens,
            cost_usd=total_cost((self.cost_usd, answer.cost_usd)),
        )
