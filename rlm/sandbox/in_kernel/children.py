"""The answers of children in a cell: strings with attributes about how they were made."""

from __future__ import annotations

from collections.abc import Generator, Iterable
from typing import Any, Self

from ..text.body import Span
from .places import Use

EMPTY_SLICE = "empty_slice"
"""The error type of a slot whose slice is empty. Nothing was sent for it."""
_REFUSED = "schema"
"""The error type of an answer that the block's schema refused twice."""
_FINAL = frozenset({EMPTY_SLICE, _REFUSED, "limit", "slice_too_large"})
"""Error types after which the same call cannot succeed."""


class SubQueryError(Exception):
    """A child did not answer. The message gives the reason; the same call asks again."""


class SliceTooLarge(SubQueryError):
    """A slice does not fit in a child's prompt. Nothing was sent. The message gives the size that fits."""


class UnknownSubModel(ValueError):
    """There is no sub-model of that name. Nothing was sent. The message lists the names."""


class DepthLimit(SubQueryError):
    """A sub-RLM would exceed the depth limit, and its source does not fit in a single child."""


class ChildResult(str):
    """One child's answer: a str, empty when it failed.

    ok: whether it answered. found: whether its slice held the answer. answered: the same, or an answer
    without a slice.
    error: why it failed, or None. span: the part of the input that it read, or None. usage: its tokens.
    cached: whether the answer cost nothing. value: the parsed answer if a schema was given (an instance, if
    the schema is a model), or the final value of a sub-RLM if that is not text. how: "child" for one call,
    "rlm" for a sub-RLM, "look" for a child that saw pages. evidence: the spans that a sub-RLM cited.
    grounded: False if no text was given, so that it is the model's own knowledge.
    """

    ok: bool
    answered: bool
    found: bool
    grounded: bool
    error: str | None
    span: Span | None
    document: str | None
    usage: dict[str, int]
    cached: bool
    value: Any
    error_type: str | None
    how: str
    evidence: list[Span]

    def stands_for(self, use: Use) -> list[Any]:
        """Return what `spans_of` makes of it: the span that it read. To the next child it is text."""
        return [self if use == "slice" or self.span is None else self.span]

    def __await__(self) -> Generator[None, None, Self]:
        """Return the answer itself: a needless `await` before the call must not lose a paid answer."""
        yield from ()
        return self

    @classmethod
    def of(
        cls, reply: dict[str, Any], span: Span | None, document: str | None, *, grounded: bool = True
    ) -> ChildResult:
        """Return the result of one reply of the driver."""
        result = cls(reply["text"])
        result.error = reply.get("error")
        result.ok = result.error is None
        result.answered = bool(result.ok and reply.get("found", True))
        result.grounded = grounded
        result.found = result.answered and grounded
        result.span = span
        result.document = document
        result.usage = {
            "input_tokens": int(reply.get("input_tokens", 0)),
            "output_tokens": int(reply.get("output_tokens", 0)),
        }
        result.cached = bool(reply.get("cached", False))
        result.value = reply.get("value")
        result.error_type = reply.get("error_type")
        result.how = str(reply.get("how", "child"))
        result.evidence = [Span(*span) for span in reply.get("evidence", ())]
        return result

    def refused(self, reason: str) -> ChildResult:
        """Return this answer as a failed one, because a model in the block's schema refused it."""
        reply = {**self.usage, "text": "", "error": reason}
        failed = ChildResult.of(
            {**reply, "error_type": _REFUSED}, self.span, self.document, grounded=self.grounded
        )
        failed.cached = self.cached
        return failed


class ChildResults(list[ChildResult]):
    """The answers of a batch in the order of its slices. A failed one is empty and has .ok False."""

    @property
    def failed(self) -> list[int]:
        """Return the positions that failed."""
        return [position for position, result in enumerate(self) if not result.ok]

    @property
    def found(self) -> ChildResults:
        """Return the answers whose slice held something."""
        return ChildResults(result for result in self if result.found)

    def __await__(self) -> Generator[None, None, Self]:
        """Return the list itself, as for one answer."""
        yield from ()
        return self

    def joined(self, separator: str = "\n\n") -> str:
        """Join the found answers into one text, each under its place in the input, for citing.

        An answer without a slice stands below a line that says so.
        """
        return separator.join(
            _labelled(position, result) for position, result in enumerate(self) if result.answered
        )

    def __repr__(self) -> str:
        shown = ", ".join(_short(result) for result in self[:5])
        more = f", … {len(self) - 5} more" if len(self) > 5 else ""
        return f"<{len(self)} answers, {len(self.found)} found, {len(self.failed)} failed: [{shown}{more}]>"


def _labelled(position: int, result: ChildResult) -> str:
    if not result.grounded:
        return f"[no slice: the model's own knowledge, not from the input]\n{result}"
    place = f"characters {result.span.start}-{result.span.end}" if result.span else f"slice {position}"
    document = f"{result.document}, " if result.document else ""
    return f"[{document}{place}]\n{result}"


def _short(text: str, limit: int = 80) -> str:
    return repr(str(text)) if len(text) <= limit else f"{str(text)[:limit]!r}…"


def failure_lines(results: Iterable[ChildResult]) -> list[str]:
    """Return the lines that report the failures of a batch and its empty slices, if there are any."""
    every = list(results)
    bad = [position for position, result in enumerate(every) if not result.ok]
    empty = [position for position in bad if every[position].error_type == EMPTY_SLICE]
    failed = [position for position in bad if every[position].error_type != EMPTY_SLICE]
    lines = []
    if failed:
        again = any(every[position].error_type not in _FINAL for position in failed)
        lines.append(
            f"{len(failed)} of {len(every)} failed: {_listed(failed)} (first: {every[failed[0]].error})"
            + ("; the same call again asks only those" if again else "")
        )
    if empty:
        lines.append(f"{len(empty)} of {len(every)} slices are empty and were not sent: {_listed(empty)}")
    return lines


def _listed(positions: list[int]) -> str:
    return f"[{', '.join(map(str, positions[:20]))}{', …' if len(positions) > 20 else ''}]"
