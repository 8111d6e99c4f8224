"""Specifies one child of a batch before it is sent."""

from __future__ import annotations

from typing import Any

from rlm.answers.json_schema import AnswerSchema, SchemaError
from rlm.answers.reply_form import ReplyForm, child_form
from rlm.children.empty_form import empty_form
from rlm.children.page_looks import LookedPage, PageLooks
from rlm.children.routing.child_model import ChildModel
from rlm.children.slice_places import SlicePlaces
from rlm.lazy_dataclass import dataclass
from rlm.models.base import Request
from rlm.prompts import AssembledPrompt
from rlm.prompts.templates import table
from rlm.sandbox.host.requests import BadCall
from rlm.sandbox.types import ChildBatch, ChildSlice, Span

__all__ = ["ChildSpec", "PreparedChild", "batch_specs", "schema_of"]

_PICTURE_CHARS = 6_000


@dataclass(frozen=True, slots=True)
class ChildSpec:
    """What one child is asked. It holds no text of the body, so that a batch of any size fits in memory.

    `refusal` is why the cell refused an earlier answer to the same call, or "". `model` is the model that
    is asked. `pages` are those that the child sees as pictures.
    """

    prompt: str
    source: ChildSlice | None
    part: tuple[int, int] | None
    sample: int
    schema: AnswerSchema | None
    model: ChildModel
    refusal: str = ""
    pages: tuple[LookedPage, ...] = ()

    @property
    def pieces(self) -> tuple[Span | str, ...]:
        return () if self.source is None else tuple(self.source.pieces)

    @property
    def spans(self) -> tuple[Span, ...]:
        return () if self.source is None else self.source.spans

    @property
    def empty(self) -> Any:
        """Return the value that says "nothing there" under the schema, or None if there is no such form."""
        return None if self.schema is None else empty_form(self.schema.schema)

    @property
    def form(self) -> ReplyForm | None:
        """Return the form in which a provider may be asked to enforce the schema."""
        return (
            None if self.schema is None else child_form(self.schema.schema, has_empty=self.empty is not None)
        )

    @property
    def numbered(self) -> bool | None:
        """Return whether the cell asked for line numbers. None leaves it to the text."""
        return False if self.source is None else self.source.numbered

    def is_numbered(self, places: SlicePlaces) -> bool:
        """Return whether lines are shown with their numbers."""
        if self.numbered is not None:
            return self.numbered
        return len(self.spans) == len(self.pieces) and places.are_numbered(self.spans)

    @property
    def size(self) -> int:
        """Return the characters of question and slice. A picture counts like a text of as many tokens."""
        pieces = (len(piece) if isinstance(piece, str) else piece.end - piece.start for piece in self.pieces)
        return len(self.prompt) + sum(pieces) + _PICTURE_CHARS * len(self.pages)

    @property
    def hull(self) -> Span:
        """Return the smallest span that holds all spans of the slice."""
        spans = self.spans
        if not spans:
            return Span(0, 0)
        return Span(min(span.start for span in spans), max(span.end for span in spans))


@dataclass(frozen=True, slots=True)
class PreparedChild:
    """A child that can be sent. Its recorded reply is found by `key` or `question_id`."""

    spec: ChildSpec
    prompt: AssembledPrompt
    request: Request
    key: str
    question_id: str


def schema_of(batch: ChildBatch) -> AnswerSchema | None:
    """Return the schema of a batch's answers, if it has one. Raises BadCall for a schema that is none."""
    if batch.schema is None:
        return None
    try:
        return AnswerSchema.of(batch.schema)
    except SchemaError as error:
        raise BadCall("value", f"schema: {error}") from error


def batch_specs(
    batch: ChildBatch, schema: AnswerSchema | None, model: ChildModel, looks: PageLooks | None = None
) -> list[ChildSpec]:
    """Specify every child of a batch, in order. `model` is the one that the batch names, or the default. With
    `looks`, those of a batch that looks at pages get them. Raises BadCall if they cannot be looked at."""
    if batch.look:
        if looks is None:
            raise BadCall("value", table("feedback.toml")["look"]["none"])
        looks.check()
    count = len(batch.prompts)
    return [
        ChildSpec(
            prompt=prompt,
            source=source,
            part=(number, count) if batch.chunked else None,
            sample=batch.sample,
            schema=schema,
            model=model,
            refusal=batch.retries[number - 1] if batch.retries else "",
            pages=looks.pages(source.spans) if batch.look and looks is not None and source else (),
        )
        for number, (prompt, source) in enumerate(zip(batch.prompts, batch.slices, strict=True), 1)
    ]
