"""Specifies the children of a batch, and makes the prompt of one when its turn comes."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from rlm.accounting.metered_model import messages_of
from rlm.answers.answer_type import AnswerType, SchemaError
from rlm.answers.reply_form import ReplyForm, child_form
from rlm.children.page_looks import LookedPage, PageLooks
from rlm.children.sub_models import ChildModel
from rlm.escaping import json_text
from rlm.models.base import Model, Request, SliceText, call_key
from rlm.playback.border import call_digest
from rlm.prompts import BudgetExceeded, ChildInput, ChildPrompt, ChildSliceText, SliceTooLarge
from rlm.prompts.templates import table
from rlm.sandbox.host.requests import BadCall
from rlm.sandbox.text.body import Body
from rlm.sandbox.types import ChildBatch, ChildSlice, Span

__all__ = [
    "ChildForm",
    "ChildPrompts",
    "ChildSpec",
    "PreparedChild",
    "batch_specs",
    "empty_form",
]

_PICTURE_CHARS = 6_000
_BORDER = 200
_WHOLE_BORDER = re.compile(r"(?:\n\s*|[.!?…:;][\"'”’»)\]]*\s+|[。！？][\"'”’»)\]]*)\Z")
"""What stands before a border that cuts no line and no sentence."""


@dataclass(frozen=True, slots=True)
class ChildForm:
    """The form of a batch's answers. `empty` is the value that says "nothing there" under the schema, or None
    if there is none. A provider may be asked to enforce `reply_form`."""

    schema: AnswerType
    digest: str
    empty: Any
    reply_form: ReplyForm

    @classmethod
    async def read(cls, given: Any) -> ChildForm | None:
        """Return the form of a batch's schema, if it has one. Raises BadCall for a schema that is none."""
        if given is None:
            return None
        try:
            schema = await AnswerType.of_cell(given)
        except SchemaError as error:
            raise BadCall("value", f"schema: {error}") from error
        empty = empty_form(schema.schema)
        reply_form = child_form(schema.schema, has_empty=empty is not None)
        return cls(schema, call_digest(schema.text), empty, reply_form)


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
    def key(self) -> str:
        """Return what equal children have in common. It is cheaper to make than their prompt."""
        return call_digest(
            self.model.name,
            self.prompt,
            self.pieces,
            self.source is not None and self.source.numbered,
            self.part,
            self.sample,
            None if self.form is None else self.form.digest,
            self.refusal,
            [page.reference for page in self.pages],
        )

    @property
    def hull(self) -> Span:
        """Return the smallest span that holds all spans of the slice."""
        spans = self.spans or (Span(0, 0),)
        return Span(min(span.start for span in spans), max(span.end for span in spans))


async def batch_specs(
    batch: ChildBatch, model: ChildModel, looks: PageLooks | None = None
) -> list[ChildSpec]:
    """Specify every child of a batch, in order. `model` is the one that the batch names, or the default. With
    `looks`, those of a batch that looks at pages get them. Raises BadCall for a schema that is none, and if
    the pages cannot be looked at."""
    if batch.look:
        if looks is None:
            raise BadCall("value", table("feedback.toml")["look"]["none"])
        looks.check()
    form, count = await ChildForm.read(batch.schema), len(batch.prompts)
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
    """A child that can be sent. `tokens` is the estimate of its prompt, `key` the hash of its request.
    `asked` identifies what it is asked: a resumed run finds its reply by it."""

    spec: ChildSpec
    request: Request
    tokens: int
    key: str
    asked: str


class ChildPrompts:
    """Makes the prompts of children over one body. `factor` returns a model's own tokens for each estimated
    one."""

    def __init__(self, body: Body, factor: Callable[[Model], float]) -> None:
        self._body = body
        self._factor = factor

    def prepare(self, spec: ChildSpec, retry_reason: str | None = None) -> PreparedChild:
        """Make a child ready to be sent. `retry_reason` is why its first answer was rejected. Raises
        BadCall if the slice or the task is too long."""
        if spec.refusal:
            retry_reason = table("child.toml")["refused"].format(reason=json_text(spec.refusal))
        child, form = spec.model, spec.form
        numbered = spec.source is not None and spec.source.numbered
        pieces = [self._described(piece, numbered) for piece in spec.pieces]
        schema = None if form is None else form.schema.text
        factor = self._factor(child.model)
        given = ChildInput(
            prompt=spec.prompt if retry_reason is None else f"{spec.prompt}\n\n{retry_reason}",
            slices=tuple(pieces),
            pictures=len(spec.pages),
            part=spec.part,
            numbered=numbered,
            schema=schema,
            empty=None if form is None or form.empty is None else json.dumps(form.empty),
            remarks=True,
            # In estimated tokens, as the prompt is measured.
            window=int((child.model.window.context - child.output_tokens) / factor) + child.output_tokens,
            output_reserve=child.output_tokens,
            child_tokens=int(child.prompt_tokens / factor),
        )
        try:
            prompt = ChildPrompt().assemble(given)
        except SliceTooLarge as error:
            raise BadCall("slice_too_large", str(error)) from error
        except BudgetExceeded as error:
            # The root can change its prompt, but no limit.
            words = table("feedback.toml")["forecast"]["too_long"]
            message = words.format(needed=f"{error.needed:,}", allowed=f"{error.allowed:,}")
            raise BadCall("value", message) from error
        texts = tuple(
            SliceText(one.text, None if isinstance(piece, str) else piece, one.document)
            for one, piece in zip(pieces, spec.pieces, strict=True)
        )
        request = Request(
            role="child",
            messages=messages_of(prompt.system, prompt.user),
            max_output_tokens=child.output_tokens,
            task=spec.prompt,
            slices=texts,
            sample=spec.sample,
            schema=None if form is None else form.reply_form.schema,
        )
        key = call_key(child.model.name, request)
        if spec.pages:  # the pictures themselves need not be drawn for it
            key = call_digest(key, [page.reference for page in spec.pages])
        asked = spec.key if retry_reason is None else call_digest(spec.key, "again")
        return PreparedChild(spec, request, prompt.report.totals.prompt, key, asked)

    def _described(self, piece: Span | str, numbered: bool) -> ChildSliceText:
        """Return a piece with its place. A text that a cell made has none."""
        if isinstance(piece, str):
            return ChildSliceText(piece)
        start, end = piece
        body, document, place = self._body, self._body.document_at(start), self._body.place(start)
        message = None if place is None or place.message is None else str(place.message)
        if message is not None and place is not None:
            author = ", ".join(filter(None, (place.author or place.role, place.time)))
            message += f" ({author})" if author else ""
        return ChildSliceText(
            body.text(start, end),
            start,
            end,
            document.name if document else None,
            section=" > ".join(place.heading_path) or None if place else None,
            page=place.page if place else None,
            message=message,
            first_line=body.line_of(start) if numbered else 0,
            cut_start=document is not None and document.start < start and self._is_cut(start),
            cut_end=document is not None and end < document.end and self._is_cut(end),
        )

    def _is_cut(self, at: int) -> bool:
        """Return whether a border of a slice is in the middle of a line and of a sentence."""
        around = self._body.text(max(0, at - _BORDER), at + 1)
        before = around if around[-1:].isspace() else around[:-1]
        return not around.endswith("\n") and _WHOLE_BORDER.search(before) is None


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
