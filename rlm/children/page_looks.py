"""Gives children that look at pages their pictures. A picture is drawn only for a call that is sent."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import partial

from rlm.children.run_input import RunInput
from rlm.documents.pictures import Original, Originals, PageRenderer, Unrenderable
from rlm.models.base import Image, Message, Model, Request
from rlm.prompts.templates import table
from rlm.sandbox.host.daemon_thread import run_in_daemon_thread
from rlm.sandbox.host.requests import BadCall
from rlm.sandbox.text.body import Body
from rlm.sandbox.text.parts import MAX_PAGES, pages_within
from rlm.sandbox.types import Span
from rlm.version import has_extra, install_command

__all__ = ["LookFailed", "LookedPage", "PageLooks", "can_look"]

_DRAWN_AT_ONCE = 2


class LookFailed(Exception):
    """A page that cannot be drawn. The message names it and the remedy."""


@dataclass(frozen=True, slots=True)
class LookedPage:
    """A page that a child sees: its document's name and kind, its number from 1, its span in the run's body,
    and the file that holds it."""

    document: str
    kind: str
    number: int
    span: Span
    original: Original

    @property
    def reference(self) -> tuple[str, int, str]:
        """Return what the journal keeps of it: document, page, and the hash of the document's file."""
        return self.document, self.number, self.original.sha256


def can_look(model: Model) -> bool:
    """Return whether children of `model` can look at pages: it sees, and the extra is installed."""
    return model.window.sees is True and has_extra("vision")


class PageLooks:
    """The pages of one run's input, for the children of `model`. Close it after use."""

    def __init__(self, model: Model, given: RunInput) -> None:
        self._model = model
        self._input = given
        self._originals = Originals(given.context.folder)
        self._renderer = PageRenderer()
        self._slots = asyncio.Semaphore(_DRAWN_AT_ONCE)
        self._whole: Body | None = None
        self._has_drawn = False

    @property
    def are_possible(self) -> bool:
        """Return whether a child can look at a page of this input."""
        return can_look(self._model) and not self._originals.is_empty

    def check(self) -> None:
        """Raise BadCall if no page can be looked at, before anything is paid."""
        words = table("feedback.toml")["look"]
        if self._model.window.sees is not True:
            known = "blind" if self._model.window.sees is False else "unknown"
            raise BadCall("value", words[known].format(model=self._model.name))
        if not has_extra("vision"):
            raise BadCall("value", words["extra"].format(command=install_command("vision")))

    def pages(self, spans: Sequence[Span]) -> tuple[LookedPage, ...]:
        """Return the pages that spans of the run's body touch. Raises BadCall if they hold none, or too many,
        or if a file is not at hand."""
        words = table("feedback.toml")["look"]
        if len(spans) > MAX_PAGES:
            raise BadCall("value", words["too_many"].format(most=MAX_PAGES))
        shift = 0 if self._input.window is None else self._input.window.start
        found: dict[Span, LookedPage] = {}
        for span in spans:
            for page in pages_within(self._body, Span(span.start + shift, span.end + shift)):
                original = self._originals.find(page.document.index)
                if original is None:
                    raise BadCall("value", words["no_file"].format(document=page.document.name))
                place = Span(page.span.start - shift, page.span.end - shift)
                found[place] = LookedPage(
                    page.document.name, page.document.kind, page.number, place, original
                )
                if len(found) > MAX_PAGES:
                    raise BadCall("value", words["too_many"].format(most=MAX_PAGES))
        if not found:
            raise BadCall("value", words["none"])
        return tuple(found.values())

    async def with_pictures(self, request: Request, pages: Sequence[LookedPage]) -> Request:
        """Return the request with the pictures of the pages. Raises LookFailed."""
        images = tuple([await self._picture(page) for page in pages])
        last = len(request.messages) - 1
        messages = [
            replace(message, images=images) if number == last else message
            for number, message in enumerate(request.messages)
        ]
        return replace(request, messages=tuple[Message, ...](messages))

    async def aclose(self) -> None:
        """End the processes that draw."""
        if self._whole is not None and self._whole is not self._input.body:
            self._whole.close()
        self._whole = None
        if self._has_drawn:
            # Another thread may be starting a process, which takes a moment.
            await run_in_daemon_thread(self._renderer.close, name="rlm-draw-end")

    @property
    def _body(self) -> Body:
        """Return the body of the whole context: in a window of it, documents would have other numbers."""
        if self._whole is None:
            self._whole = self._input.body if self._input.window is None else self._input.context.open()
        return self._whole

    async def _picture(self, page: LookedPage) -> Image:
        draw = partial(self._renderer.draw, page.original.path, page.kind, page.number)
        try:
            async with self._slots:
                self._has_drawn = True
                drawn = await run_in_daemon_thread(draw, name="rlm-draw")
        except FileNotFoundError:
            words = table("feedback.toml")["look"]
            raise LookFailed(words["gone"].format(document=page.document)) from None
        except (Unrenderable, OSError) as error:
            raise LookFailed(f"page {page.number} of {page.document!r} is {error}") from error
        return Image(drawn.media_type, drawn.data, drawn.width, drawn.height)
