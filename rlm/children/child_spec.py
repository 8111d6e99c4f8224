"""Specifies the children of a batch, and makes the prompt of one when its turn comes."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any

from rlm.accounting.metered_model import messages_of
from rlm.answers.json_schema import AnswerSchema, SchemaError
from rlm.answers.reply_form import ReplyForm, child_form
from rlm.children.page_looks import LookedPage, PageLooks, key_with_pages
from rlm.children.routing.child_model import ChildModel
from rlm.children.slice_places import SlicePlaces
from rlm.lazy_dataclass import dataclass
from rlm.models.base import Model, Request, SliceText, call_key
from rlm.playback.question_id import identify_child
from rlm.prompts import AssembledPrompt, ChildInput, ChildPrompt, SliceTooLarge
from rlm.prompts.quoting import quote
from rlm.prompts.templates import table
from rlm.sandbox.host.requests import BadCall
from rlm.sandbox.in_kernel.body.body import Body
from rlm.sandbox.types import ChildBatch, ChildSlice, Span

__all__ = ["ChildForm", "ChildPrompts", "ChildSpec", "PreparedChild", "batch_specs"]

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


@dataclass(frozen=True, slots=True)
class PreparedChild:
    """A child that can be sent. Its recorded reply is found by `key` or `question_id`."""

    spec: ChildSpec
    prompt: AssembledPrompt
    request: Request
    key: str
    question_id: str


class ChildPrompts:
    """Makes the prompts of children over one body. `factor` returns a model's own tokens for each estimated
    one."""

    def __init__(self, body: Body, factor: Callable[[Model], float]) -> None:
        self._body = body
        self._factor = factor
        self.places = SlicePlaces(body)

    def prepare(self, spec: ChildSpec, retry_reason: str | None = None) -> PreparedChild:
        """Make a child ready to be sent. `retry_reason` is why its first answer was rejected. Raises
        SliceTooLarge or BudgetExceeded."""
        texts = tuple(map(self._text, spec.pieces))
        if spec.refusal:
            retry_reason = table("child.toml")["refused"].format(reason=quote(spec.refusal))
        prompt = self._assemble(spec, texts, retry_reason)
        request = Request(
            role="child",
            messages=messages_of(prompt.system, prompt.user),
            max_output_tokens=spec.model.output_tokens,
            task=spec.prompt,
            slices=texts,
            sample=spec.sample,
            schema=None if spec.form is None else spec.form.reply_form.schema,
        )
        model = spec.model.model.name
        question_id = identify_child(
            model,
            spec.prompt,
            texts,
            numbered=spec.source is not None and bool(spec.source.numbered),
            part=spec.part,
            sample=spec.sample,
            schema=None if spec.form is None else spec.form.schema.text,
            retry=spec.refusal or retry_reason is not None,
            pages=[page.reference for page in spec.pages],
        )
        key = call_key(model, request)
        key = key_with_pages(key, spec.pages) if spec.pages else key
        return PreparedChild(spec, prompt, request, key, question_id)

    def _text(self, piece: Span | str) -> SliceText:
        if isinstance(piece, str):
            return SliceText(piece)
        document = self._body.document_at(piece.start)
        return SliceText(self._body.text(*piece), piece, document.name if document else None)

    def _assemble(
        self, spec: ChildSpec, texts: Sequence[SliceText], retry_reason: str | None
    ) -> AssembledPrompt:
        child, form = spec.model, spec.form
        factor = self._factor(child.model)
        # None leaves it to the text. Without a slice there is nothing to number.
        wanted = False if spec.source is None else spec.source.numbered
        given = ChildInput(
            prompt=spec.prompt if retry_reason is None else f"{spec.prompt}\n\n{retry_reason}",
            slices=tuple(map(self.places.describe, texts)),
            pictures=len(spec.pages),
            part=spec.part,
            numbered=self.places.are_numbered(spec.pieces) if wanted is None else wanted,
            schema=None if form is None else form.schema.text,
            empty=None if form is None or form.empty is None else json.dumps(form.empty),
            remarks=True,
            # In estimated tokens, as the prompt is measured.
            window=int((child.model.window.context - child.output_tokens) / factor) + child.output_tokens,
            output_reserve=child.output_tokens,
            child_tokens=int(child.prompt_tokens / factor),
        )
        try:
            return ChildPrompt().assemble(given)
        except SliceTooLarge:
            if wanted is not None or not given.numbered:
                raise
            # Nobody asked for the numbers that make it too large.
            return ChildPrompt().assemble(replace(given, numbered=False))


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
