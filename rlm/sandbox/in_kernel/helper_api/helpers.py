"""The helpers that need more than the handle: children, progress, finalize and variables."""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

from ..body.body import Span
from ..context_handle.handle import Handle
from ..context_handle.records import Hit, Records
from .argument_hints import with_argument_hints
from .channel import Caller, CallError
from .children import ChildResult, ChildResults, DepthLimit, SliceTooLarge, SubQueryError, failure_line
from .pieces import check_evidence, check_slice
from .registry import HELPERS, NAMES

__all__ = ["Finalized", "Helpers"]

MAX_DEPTH = 100
_CARRIED = "The result of the steps so far:"

_ERRORS: Mapping[str, type[Exception]] = {
    "slice_too_large": SliceTooLarge,
    "limit": ValueError,
    "value": ValueError,
    "type": TypeError,
    "too_large": ValueError,
}


class Finalized(BaseException):
    """Ends the cell after finalize. Not an Exception: `except Exception` in a cell must not catch it."""


class Helpers:
    """Everything that a cell can call, by the names of the registry (`helpers.NAME` in a cell).

    `variables` returns the user's variables as {name: type}. `outputs` holds what earlier rounds printed.
    """

    def __init__(
        self,
        handle: Handle,
        channel: Caller,
        namespace: dict[str, Any],
        variables: Callable[[], dict[str, str]],
        outputs: Mapping[int, str],
    ) -> None:
        self._handle = handle
        self._channel = channel
        self._namespace = namespace
        self._variables = variables
        self._outputs = outputs
        for helper in HELPERS:
            owner = self if hasattr(self, helper.name) else handle
            setattr(self, helper.name, with_argument_hints(helper, getattr(owner, helper.name)))

    def namespace(self) -> dict[str, Any]:
        """Return the globals of a cell: every helper by its name."""
        return {name: getattr(self, name) for name in NAMES}

    def sub_query(
        self,
        prompt: str,
        slice: Any = None,
        sample: int = 0,
        numbered: bool = False,
        schema: Mapping[str, Any] | None = None,
    ) -> ChildResult:
        _check_prompt(prompt)
        result = self._ask([prompt], [slice], sample=sample, numbered=numbered, schema=schema)[0]
        if not result.ok:
            raise SubQueryError(result.error)
        return result

    def sub_query_batch(
        self,
        prompt: str,
        slices: Any,
        on_error: str = "keep",
        numbered: bool = False,
        schema: Mapping[str, Any] | None = None,
    ) -> ChildResults:
        _check_prompt(prompt)
        if isinstance(slices, (str, Mapping)):
            raise TypeError("slices must be a list of slices; for a single one call sub_query(prompt, slice)")
        chosen = list(slices)
        results = self._ask(
            [prompt] * len(chosen), chosen, numbered=numbered, schema=schema, chunked=_is_chunks(slices)
        )
        return _apply_error_policy(results, on_error)

    def sub_query_map(
        self,
        prompts: Sequence[str],
        slices: Any = None,
        on_error: str = "keep",
        numbered: bool = False,
        schema: Mapping[str, Any] | None = None,
    ) -> ChildResults:
        if isinstance(prompts, str):
            raise TypeError("prompts must be a list of str; for one prompt over many slices: sub_query_batch")
        for prompt in prompts:
            _check_prompt(prompt)
        chosen = [None] * len(prompts) if slices is None else list(slices)
        if len(chosen) != len(prompts):
            raise ValueError(f"{len(prompts)} prompts but {len(chosen)} slices: they must pair up")
        return _apply_error_policy(
            self._ask(list(prompts), chosen, numbered=numbered, schema=schema), on_error
        )

    def rank(self, query: str, k: int = 10) -> Records:
        if not isinstance(query, str) or not query.strip():
            raise TypeError("query must be a non-empty str: the words that a passage should contain")
        if not isinstance(k, int) or isinstance(k, bool) or k < 1:
            raise ValueError(f"k is {k!r}. Give a whole number from 1.")
        ranked, _ = self._call("rank", {"query": query, "k": k})
        return self._handle.packs(ranked)

    def sub_query_sequence(self, prompt: str, slices: Any, carry_prompt: str | None = None) -> ChildResults:
        _check_prompt(prompt)
        if carry_prompt is not None:
            _check_prompt(carry_prompt)
        if isinstance(slices, (str, Mapping)):
            raise TypeError("slices must be a list of slices, in reading order")
        results = ChildResults()
        for one in slices:
            if not results:
                results.append(self.sub_query(prompt, one))
                continue
            carried = f"{_CARRIED}\n{results[-1]}"
            results.append(self.sub_query(carry_prompt or prompt, [carried, *map(tuple, self._slice(one))]))
        return results

    def sub_rlm(self, prompt: str, source: Any = None) -> ChildResult:
        _check_prompt(prompt)
        result = self._ask_rlms([prompt], [source])[0]
        if not result.ok:
            raise _failure(result)
        return result

    def sub_rlm_batch(self, prompts: Sequence[str], sources: Any = None) -> ChildResults:
        if isinstance(prompts, str):
            raise TypeError("prompts must be a list of str; for a single one call sub_rlm(prompt, source)")
        for prompt in prompts:
            _check_prompt(prompt)
        chosen = [None] * len(prompts) if sources is None else list(sources)
        if len(chosen) != len(prompts):
            raise ValueError(f"{len(prompts)} prompts but {len(chosen)} sources: they must pair up")
        return _apply_error_policy(self._ask_rlms(list(prompts), chosen), "keep")

    def SHOW_VARS(self) -> dict[str, str]:  # noqa: N802 - the name models know
        return self._variables()

    def repl_set(self, name: str, value: Any) -> None:
        if not isinstance(name, str) or not name.isidentifier():
            raise ValueError(f"{name!r} is not a valid variable name")
        self._namespace[name] = value

    def repl_get(self, name: str, default: Any = None) -> Any:
        return self._namespace.get(name, default)

    def output_of(self, round: int) -> str:
        try:
            return self._outputs[round]
        except KeyError:
            known = ", ".join(map(str, self._outputs)) or "none yet"
            raise ValueError(f"no block ran in round {round!r}; rounds that ran: {known}") from None

    def evaluate_progress(self) -> dict[str, Any]:
        result, _ = self._call("progress", {})
        return {
            "has_final_answer": result["has_final_answer"],
            "variables": self._variables(),
            "limits": result["limits"],
            "coverage": result["coverage"],
        }

    def finalize(self, value: Any, confidence: Any = None, evidence: Any = None) -> None:
        check_json(value)
        if evidence is None and confidence is not None and not isinstance(confidence, (str, int, float)):
            confidence, evidence = None, confidence
        if confidence is not None and confidence not in ("low", "medium", "high"):
            numeric = isinstance(confidence, (int, float)) and not isinstance(confidence, bool)
            if not numeric or not 0 <= confidence <= 1:
                raise ValueError(
                    f"confidence must be 'low', 'medium', 'high' or a number from 0 to 1, not {confidence!r}"
                )
        given = [] if evidence is None else self._evidence(evidence)
        pieces = check_evidence(given, self._handle.resolved)
        read, scanned = self._handle.drain_access()
        try:
            result, _ = self._call(
                "finalize",
                {
                    "value": value,
                    "confidence": confidence,
                    "evidence": pieces,
                    "read": read,
                    "scanned": scanned,
                },
            )
        except BaseException:
            # The driver may not have recorded the access: report it again later.
            self._handle.restore_access(read, scanned)
            raise
        if not result["accepted"]:
            raise ValueError(f"not finalised: {result['reason']}")
        raise Finalized

    def _ask(
        self,
        prompts: list[str],
        slices: list[Any],
        *,
        sample: int = 0,
        numbered: bool = False,
        schema: Mapping[str, Any] | None = None,
        chunked: bool = False,
    ) -> ChildResults:
        if not prompts:
            return ChildResults()
        wanted = [None if one is None else self._slice(one) for one in slices]
        return self._results(
            "children",
            {
                "prompts": prompts,
                "slices": wanted,
                "sample": sample,
                "numbered": numbered,
                "schema": None if schema is None else dict(schema),
                "chunked": chunked,
            },
            wanted,
        )

    def _ask_rlms(self, prompts: list[str], sources: list[Any]) -> ChildResults:
        if not prompts:
            return ChildResults()
        wanted = [None if one is None else self._slice(one) for one in sources]
        return self._results("sub_rlms", {"prompts": prompts, "sources": wanted}, wanted)

    def _results(self, method: str, params: dict[str, Any], wanted: list[list[Any] | None]) -> ChildResults:
        _, parts = self._call(method, params)
        replies = dict(parts)
        missing = {"text": "", "error": "the driver sent no answer"}
        results = ChildResults()
        for position, pieces in enumerate(wanted):
            span = _hull(pieces)
            document = self._handle.document_name(span.start) if span else None
            results.append(ChildResult.of(replies.get(position, missing), span, document))
        return results

    def _slice(self, slice: Any) -> list[Any]:
        """Return the pieces of a slice. A child's answer counts as text. Offsets are clamped to the body."""
        pieces: list[Any] = []
        for piece in pieces_of(slice, answers_are_text=True):
            if isinstance(piece, str):
                pieces.append(piece)
                continue
            span = self._handle.resolved(*piece)
            if span.end <= span.start:
                raise ValueError(f"the span ({piece[0]}, {piece[1]}) is empty in this input")
            pieces.append(list(span))
        check_slice(pieces)
        return pieces

    def _evidence(self, given: Any) -> list[Any]:
        """Return one piece for each given piece of evidence.

        A hit stands for its line. A child's answer stands for the longest quote in it that its slice
        contains, otherwise for the whole slice.
        """
        if isinstance(given, Hit):
            return [list(given.proof())]
        if isinstance(given, ChildResult) and given.span is not None:
            return [list(self._handle.quoted(given, given.span) or given.span)]
        if isinstance(given, Iterable) and not isinstance(given, (str, Mapping)) and not _is_span(given):
            return [piece for one in given for piece in self._evidence(one)]
        return pieces_of(given)

    def _call(self, method: str, params: dict[str, Any]) -> tuple[Any, list[Any]]:
        try:
            return self._channel.call(method, params)
        except CallError as error:
            raise _ERRORS.get(error.type, SubQueryError)(str(error)) from None


def pieces_of(slice: Any, *, answers_are_text: bool = False) -> list[Any]:
    """Return a slice as it crosses the channel: spans as [start, end], texts as str, in order.

    A child's answer stands for the span that it read, or for its text if `answers_are_text`.
    """
    if answers_are_text and isinstance(slice, ChildResult):
        return [str(slice)]
    if isinstance(slice, Hit):
        return [list(slice.passage())]
    span = slice if isinstance(slice, Span) else getattr(slice, "span", None)
    if isinstance(span, tuple):
        return [[int(span[0]), int(span[1])]]
    if isinstance(slice, str):
        return [str(slice)]
    if isinstance(slice, Mapping) and "start" in slice and "end" in slice:
        return [[int(slice["start"]), int(slice["end"])]]
    if _is_span(slice):
        return [[slice[0], slice[1]]]
    if not isinstance(slice, Mapping) and hasattr(slice, "__iter__"):
        return [piece for one in slice for piece in pieces_of(one, answers_are_text=answers_are_text)]
    raise TypeError(
        "a slice or a piece of evidence must be a chunk, a hit, a pack, a peek, (start, end), a str, or a "
        f"list of these, not {type(slice).__name__}"
    )


def _is_span(given: Any) -> bool:
    return isinstance(given, tuple) and len(given) == 2 and all(isinstance(edge, int) for edge in given)


def check_json(value: Any, path: str = "value", level: int = 0) -> None:
    """Raise TypeError with the path of the first part of `value` that JSON cannot hold.

    Raises ValueError if it is nested too deep.
    """
    if value is None or isinstance(value, (str, bool, int)):
        return
    if isinstance(value, float):
        if not math.isfinite(value):
            raise TypeError(f"{path} is {value}, which JSON cannot hold")
        return
    if level > MAX_DEPTH:
        raise ValueError(
            f"the value is nested deeper than {MAX_DEPTH} levels, or contains itself. Flatten it."
        )
    if isinstance(value, Mapping):
        for key, inner in value.items():
            if not isinstance(key, str):
                raise TypeError(f"{path} has the key {key!r}. JSON keys must be str.")
            check_json(inner, f"{path}[{json.dumps(key)}]", level + 1)
        return
    if isinstance(value, (list, tuple)):
        for position, inner in enumerate(value):
            check_json(inner, f"{path}[{position}]", level + 1)
        return
    raise TypeError(f"{path} is a {type(value).__name__}, which JSON cannot hold. Convert it first.")


def _check_prompt(prompt: Any) -> None:
    if not isinstance(prompt, str) or not prompt.strip():
        raise TypeError("a prompt must be a non-empty str that tells the child what to do")


def _failure(result: ChildResult) -> SubQueryError:
    kind = {"depth": DepthLimit, "slice_too_large": SliceTooLarge}.get(result.error_type or "", SubQueryError)
    return kind(result.error)


def _apply_error_policy(results: ChildResults, on_error: str) -> ChildResults:
    if on_error not in ("keep", "raise"):
        raise ValueError(f"on_error must be 'keep' or 'raise', not {on_error!r}")
    line = failure_line(results)
    if line is not None:
        if on_error == "raise":
            raise SubQueryError(line)
        print(line)  # noqa: T201 - printing is how a cell speaks to the root
    return results


def _hull(pieces: list[Any] | None) -> Span | None:
    spans = [piece for piece in pieces or () if not isinstance(piece, str)]
    if not spans:
        return None
    return Span(min(start for start, _ in spans), max(end for _, end in spans))


def _is_chunks(slices: Any) -> bool:
    return type(slices).__name__ == "Chunks"
