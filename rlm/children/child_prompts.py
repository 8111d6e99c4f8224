"""Makes the prompts of children, and says where a slice comes from."""

from __future__ import annotations

import json
import re
from collections.abc import Callable

from rlm.accounting.metered_model import messages_of
from rlm.children.child_spec import ChildSpec
from rlm.children.page_looks import key_with_pages
from rlm.lazy_dataclass import dataclass
from rlm.models.base import Model, Request, SliceText, call_key
from rlm.playback.question_id import identify_child
from rlm.prompts import AssembledPrompt, ChildInput, ChildPrompt, ChildSliceText
from rlm.prompts.quoting import quote
from rlm.prompts.templates import table
from rlm.sandbox.in_kernel.body.body import Body
from rlm.sandbox.types import Span

__all__ = ["ChildPrompts", "PreparedChild"]

_BORDER = 200
_WHOLE_BORDER = re.compile(r"(?:\n\s*|[.!?…:;][\"'”’»)\]]*\s+|[。！？][\"'”’»)\]]*)\Z")
"""What stands before a border that cuts no line and no sentence."""


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

    def prepare(self, spec: ChildSpec, retry_reason: str | None = None) -> PreparedChild:
        """Make a child ready to be sent. `retry_reason` is why its first answer was rejected. Raises
        SliceTooLarge or BudgetExceeded."""
        if spec.refusal:
            retry_reason = table("child.toml")["refused"].format(reason=quote(spec.refusal))
        child, form = spec.model, spec.form
        pieces = [self._described(piece) for piece in spec.pieces]
        numbered = spec.source is not None and spec.source.numbered
        schema = None if form is None else form.schema.text
        factor = self._factor(child.model)
        prompt = ChildPrompt().assemble(
            ChildInput(
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
        )
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
        question_id = identify_child(
            child.model.name,
            spec.prompt,
            texts,
            numbered=numbered,
            part=spec.part,
            sample=spec.sample,
            schema=schema,
            retry=spec.refusal or retry_reason is not None,
            pages=[page.reference for page in spec.pages],
        )
        key = call_key(child.model.name, request)
        key = key_with_pages(key, spec.pages) if spec.pages else key
        return PreparedChild(spec, prompt, request, key, question_id)

    def _described(self, piece: Span | str) -> ChildSliceText:
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
            first_line=body.line_of(start),
            cut_start=document is not None and document.start < start and self._is_cut(start),
            cut_end=document is not None and end < document.end and self._is_cut(end),
        )

    def _is_cut(self, at: int) -> bool:
        """Return whether a border of a slice is in the middle of a line and of a sentence."""
        around = self._body.text(max(0, at - _BORDER), at + 1)
        before = around if around[-1:].isspace() else around[:-1]
        return not around.endswith("\n") and _WHOLE_BORDER.search(before) is None
