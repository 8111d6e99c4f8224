"""Specifies the children of a batch before one is sent."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from rlm.answers.json_schema import AnswerSchema, SchemaError
from rlm.answers.reply_form import ReplyForm, child_form
from rlm.children.page_looks import LookedPage, PageLooks
from rlm.children.routing.child_model import ChildModel
from rlm.lazy_dataclass import dataclass
from rlm.prompts.templates import table
from rlm.sandbox.host.requests import BadCall
from rlm.sandbox.types import ChildBatch, ChildSlice, Span

__all__ = ["ChildForm", "ChildSpec", "batch_specs"]

_PICTURE_CHARS = 6_000


@dataclass(frozen=True, slots=True)
class ChildForm:
    """The form of a batch's answers. `empty` is the value that says "nothing there" under the schema, or None
    if there is none. A provider may be asked to enforce `reply_form`."""

    schema: AnswerSchema
    empty: Any
    reply_form: ReplyForm

    @classmethod
    def of(cls, given: Any) -> ChildForm | None:
        """Return the form of a batch's schema, if it has one. Raises BadCall for a schema that is none."""
        if given is None:
            return None
        try:
            schema = AnswerSchema.of(given)
        except SchemaError as error:
            raise BadCall("value", f"schema: {error}") from error
        empty = empty_form(schema.schema)
        return cls(schema, empty, child_form(schema.schema, has_empty=empty is not None))


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
    form: ChildForm | None
    model: ChildModel
    refusal: str = ""
    pages: tuple[LookedPage, ...] = ()

    @property
    def pieces(self) -> tuple[Span | str, ...]:
        return () if self.source is None else self.source.pieces

    @property
    def spans(self) -> tuple[Span, ...]:
        return () if self.source is None else self.source.spans

    @property
    def size(self) -> int:
        """Return the characters of question and slice. A picture counts like a text of as many tokens."""
        pieces = (len(piece) if isinstance(piece, str) else piece.end - piece.start for piece in self.pieces)
        return len(self.prompt) + sum(pieces) + _PICTURE_CHARS * len(self.pages)

    @property
    def hull(self) -> Span:
        """Return the smallest span that holds all spans of the slice."""
        spans = self.spans or (Span(0, 0),)
        return Span(min(span.start for span in spans), max(span.end for span in spans))


def batch_specs(batch: ChildBatch, model: ChildModel, looks: PageLooks | None = None) -> list[ChildSpec]:
    """Specify every child of a batch, in order. `model` is the one that the batch names, or the default. With
    `looks`, those of a batch that looks at pages get them. Raises BadCall for a schema that is none, and if
    the pages cannot be looked at."""
    if batch.look:
        if looks is None:
            raise BadCall("value", table("feedback.toml")["look"]["none"])
        looks.check()
    form, count = ChildForm.of(batch.schema), len(batch.prompts)
    return [
        ChildSpec(
            prompt=prompt,
            source=source,
            part=(number, count) if batch.chunked else None,
            sample=batch.sample,
            form=form,
            model=model,
            refusal=batch.retries[number - 1] if batch.retries else "",
            pages=looks.pages(source.spans) if batch.look and looks is not None and source else (),
        )
        for number, (prompt, source) in enumerate(zip(batch.prompts, batch.slices, strict=True), 1)
    ]


def empty_form(schema: Mapping[str, Any]) -> Any:
    """Return [] for an array, `{"names": []}` for an object of arrays only, and None for any other schema.

    A schema that asks for at least one item has no empty form, either.
    """
    if _is_empty_array(schema):
        return []
    properties = schema.get("properties")
    if schema.get("type") != "object" or not isinstance(properties, Mapping) or not properties:
        return None
    if not all(isinstance(one, Mapping) and _is_empty_array(one) for one in properties.values()):
        return None
    if not set(schema.get("required", ())) <= set(properties) or schema.get("minProperties", 0) > len(
        properties
    ):
        return None
    return {name: [] for name in properties}


def _is_empty_array(schema: Mapping[str, Any]) -> bool:
    known = {"enum", "const", "anyOf", "oneOf", "allOf", "not", "if", "prefixItems"}
    return schema.get("type") == "array" and not schema.get("minItems") and not known & set(schema)
