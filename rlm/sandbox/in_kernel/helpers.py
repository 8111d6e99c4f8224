"""The helpers that need more than the handle: children, progress, finalize and variables."""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from ..text.body import Span
from ..text.quotes import MAX_QUOTE_CHARS
from . import wire
from .channel import CallError, Channel
from .children import (
    EMPTY_SLICE,
    ChildResult,
    ChildResults,
    DepthLimit,
    SliceTooLarge,
    SubQueryError,
    UnknownSubModel,
    failure_lines,
)
from .handle import Handle, is_numbered_page
from .places import Listed, Records, is_pair, part_of, resolve_range, spans_of
from .registry import HELPERS, NAMES, Helper, with_argument_hints
from .schema_types import AnswerForm
from .tables import Database, SqlRows, Tables

__all__ = ["Finalized", "Helpers", "ToolError", "host_tool"]

MAX_DEPTH = 100
_LEAVE_OUT = "Leave the slice out to ask without the input: such an answer is not grounded in it"

_ERRORS: Mapping[str, type[Exception]] = {
    "slice_too_large": SliceTooLarge,
    "depth": DepthLimit,
    "sub_model": UnknownSubModel,
    "limit": ValueError,
    "value": ValueError,
    "type": TypeError,
    "too_large": ValueError,
}


class _LeftOut:
    """Default of an argument that was left out. None is a value: a search that found nothing returns it."""

    def __repr__(self) -> str:
        return "..."


LEFT_OUT: Any = _LeftOut()


@dataclass(frozen=True, slots=True)
class Slice:
    """A slice as it crosses the channel: spans as [start, end] within the body, texts as str, in order.

    pieces: None if the slice was left out. grounded: whether any piece is not itself the answer of a child
    that read no text. span: the smallest that holds all spans, or None. empty: why nothing is sent for it.
    """

    pieces: list[Any] | None = None
    grounded: bool = False
    span: Span | None = None
    empty: str = ""


class Finalized(BaseException):
    """Ends the cell after finalize. Not an Exception: `except Exception` in a cell must not catch it."""


class Helpers:
    """Everything that a cell can call, by the names of the registry (`helpers.NAME` in a cell).

    `variables` returns the user's variables as {name: type}. `outputs` holds what earlier rounds printed.
    """

    def __init__(
        self,
        handle: Handle,
        channel: Channel,
        namespace: dict[str, Any],
        variables: Callable[[], dict[str, str]],
        outputs: Mapping[int, str],
    ) -> None:
        self._handle = handle
        self._channel = channel
        self._namespace = namespace
        self._variables = variables
        self._outputs = outputs
        self._database = Database(handle.body, handle.log)
        for helper in HELPERS:
            owner = self if hasattr(self, helper.name) else handle
            setattr(self, helper.name, with_argument_hints(helper, getattr(owner, helper.name)))

    def namespace(self) -> dict[str, Any]:
        """Return the globals of a cell: every helper by its name."""
        return {name: getattr(self, name) for name in NAMES}

    def sub_query(
        self,
        prompt: str,
        slice: Any = LEFT_OUT,
        sample: int = 0,
        numbered: bool = False,
        schema: Any = None,
        model: str | None = None,
    ) -> ChildResult:
        """Let one child read one slice and answer `prompt`, which must stand alone.

        A slice is a chunk, a hit (its lines), a pack, the text of a `peek`, (start, end), a str, or a list of
        these; leave it out to ask without the input. The answer is a str with .ok, .found (false: its slice
        lacks it), .error, .span, .usage, .cached, .grounded, and .value if `schema` is given: a JSON Schema,
        types, a pydantic model or a dataclass (.value is its instance). numbered=True begins each line with
        its number. sample=1, 2, … asks again in place of the known answer. `model` names a sub-model. Raises
        SubQueryError if the child fails, and SliceTooLarge before any spend.
        """
        _check_prompt(prompt)
        form, options = AnswerForm(schema), _options(numbered=numbered, sample=sample, model=model)
        return _only(self._ask([prompt], [self._slice(slice)], options, form))

    def sub_query_batch(
        self,
        prompt: str,
        slices: Any,
        on_error: str = "keep",
        numbered: bool = False,
        schema: Any = None,
        model: str | None = None,
    ) -> ChildResults:
        """Let children read many independent slices with one prompt, concurrently.

        Returns the answers (see sub_query) in the order of the slices: a list of any length with `.failed`
        (positions), `.found` and `.joined()`, the found answers under their sources. A failed call or an
        empty slice is '' with `.ok` false, or raises if on_error='raise'. The same call again asks only
        those that failed.
        """
        _check_prompt(prompt)
        _check_on_error(on_error)
        form = AnswerForm(schema)
        options = _options(
            numbered=numbered, chunked=isinstance(slices, Listed) and slices.unit == "chunk", model=model
        )
        chosen = self._slices(slices, on_error)
        return _report_failures(self._ask([prompt] * len(chosen), chosen, options, form), on_error)

    def sub_query_map(
        self,
        prompts: Sequence[str],
        slices: Any = LEFT_OUT,
        on_error: str = "keep",
        numbered: bool = False,
        schema: Any = None,
        model: str | None = None,
    ) -> ChildResults:
        """Ask many prompts concurrently, each with its own slice if slices are given.

        Returns a list like that of sub_query_batch.
        """
        every = _prompts(prompts, "for one prompt over many slices: sub_query_batch")
        _check_on_error(on_error)
        form, options = AnswerForm(schema), _options(numbered=numbered, model=model)
        chosen = self._paired(every, slices, "slices", on_error)
        return _report_failures(self._ask(every, chosen, options, form), on_error)

    def look(self, pages: Any, prompt: str, schema: Any = None) -> Any:
        """Let a child see pages of a PDF, or pictures.

        `pages` is documents()[i].page(n), (document name, n), a hit or a span there; a list of them gives one
        child each. Scans and drawings hold no text to search: evidence is the answer itself.
        """
        _check_prompt(prompt)
        is_one = not isinstance(pages, (list, tuple)) or is_pair(pages)
        is_one = is_one or (isinstance(pages, tuple) and is_numbered_page(pages))
        if pages is None or (not is_one and not pages):
            raise ValueError("there is no page. Nothing was sent. Give one: documents()[0].page(1)")
        slices = [
            Slice([list(span) for span in spans], grounded=True, span=Span(spans[0].start, spans[-1].end))
            for spans in map(self._handle.pages, [pages] if is_one else pages)
        ]
        form, options = AnswerForm(schema), {**_options(), "look": True}
        results = self._ask([prompt] * len(slices), slices, options, form)
        for result in results:
            result.how = "look"
        return _only(results) if is_one else _report_failures(results)

    def rank(self, query: str, k: int = 10, within: Any = None) -> Records:
        """Return the k packs (passages of about 1,000 characters) that fit the words of the query best.

        BM25 over stems, best first; words in double quotes are a phrase. The fields are index, start, end,
        score, heading_path, document and text. Others are left out: for "all" or "how many", search or read.
        """
        if not isinstance(query, str) or not query.strip():
            raise TypeError("query must be a non-empty str: the words that a passage should contain")
        if not isinstance(k, int) or isinstance(k, bool) or k < 1:
            raise ValueError(f"k is {k!r}. Give a whole number from 1.")
        part = None if within is None else part_of(self._handle.body, within)
        ranked, _ = self._call("rank", {"query": query, "k": k, "within": part})
        return self._handle.packs(ranked, part)

    def sub_rlm(self, prompt: Any, source: Any = LEFT_OUT, model: str | None = None) -> Any:
        """Let an RLM like you, with a kernel and a handle of its own over `source`, work on `prompt` alone.

        `source` is a slice of any size; left out, the handle is empty. The answer is like a child's, with
        .value when it finalised no text, .evidence (spans that you can finalize with) and .how: 'rlm', or
        'child' if one plain child answered instead. A list of prompts, with a list of as many sources, runs
        several concurrently and returns a list like that of sub_query_batch.
        """
        if isinstance(prompt, (list, tuple)):
            every = _prompts(prompt, "for a single one call sub_rlm(prompt, source)")
            chosen = self._paired(every, source, "sources", "keep")
            return _report_failures(self._results("sub_rlms", every, chosen, _routed(model)))
        _check_prompt(prompt)
        return _only(self._results("sub_rlms", [prompt], [self._slice(source)], _routed(model)))

    def tables(self) -> Tables:
        """Return the documents of `read_records`, and tables drawn with |: name (for `sql`), document, start,
        end, and columns: their types by their names, from the first 1,000 rows."""
        return Tables((table.place for table in self._tables().tables), "table")

    def sql(self, query: str, params: Any = ()) -> SqlRows:
        """Return the rows of one SELECT over the tables, in SQLite, at most 100,000.

        Columns are typed, an empty cell is NULL, lists and objects are JSON. Each table has two more columns,
        `_start` and `_end`: a row that holds both has a `.span` and cites its record as evidence, any other
        row cites its tables.
        """
        return self._tables().query(query, params)

    def _tables(self) -> Database:
        """Return the database. A new question may cover another part of the body."""
        if self._database.body is not self._handle.body:
            self._database = Database(self._handle.body, self._handle.log)
        return self._database

    def SHOW_VARS(self) -> dict[str, str]:  # noqa: N802 - the name models know
        """Return your variables and their types."""
        return self._variables()

    def repl_set(self, name: str, value: Any) -> None:
        """Set a variable by name."""
        if not isinstance(name, str) or not name.isidentifier():
            raise ValueError(f"{name!r} is not a valid variable name")
        self._namespace[name] = value

    def repl_get(self, name: str, default: Any = None) -> Any:
        """Return a variable by name, or `default`."""
        return self._namespace.get(name, default)

    def output_of(self, round: int) -> str:
        """Return all that the block of an earlier round printed."""
        try:
            return self._outputs[round]
        except KeyError:
            known = ", ".join(map(str, self._outputs)) or "none yet"
            raise ValueError(f"no block ran in round {round!r}; rounds that ran: {known}") from None

    def evaluate_progress(self) -> dict[str, Any]:
        """Return has_final_answer, variables, limits (used, left, reserved) and coverage of the input."""
        result, _ = self._call("progress", {})
        return {
            "has_final_answer": result["has_final_answer"],
            "variables": self._variables(),
            "limits": result["limits"],
            "coverage": result["coverage"],
        }

    def finalize(self, value: Any, confidence: Any = None, evidence: Any = None) -> None:
        """End the run with `value`, which is JSON-safe. The block ends here, so print before.

        confidence is 'low', 'medium', 'high' or a number from 0 to 1. evidence is a list of hits (each is
        quoted as its line), packs, chunks, rows, answers, spans or exact quotes; in a text each sentence ends
        with the numbers of its evidence: [1] is the first. Raises ValueError with the reason if the answer is
        refused.
        """
        check_json(value)
        if evidence is None and confidence is not None and not isinstance(confidence, (str, int, float)):
            confidence, evidence = None, confidence
        if confidence is not None and confidence not in ("low", "medium", "high"):
            numeric = isinstance(confidence, (int, float)) and not isinstance(confidence, bool)
            if not numeric or not 0 <= confidence <= 1:
                raise ValueError(
                    f"confidence must be 'low', 'medium', 'high' or a number from 0 to 1, not {confidence!r}"
                )
        pieces = [] if evidence is None else self._evidence(evidence)
        read, scanned = self._handle.drain_access()
        try:
            answer = {"value": value, "confidence": confidence, "evidence": pieces}
            result, _ = self._call("finalize", {**answer, "read": read, "scanned": scanned})
        finally:
            # The report of the cell holds it, too: the journal keeps only that.
            self._handle.restore_access(read, scanned)
        if not result["accepted"]:
            quotes = (piece for piece in pieces if isinstance(piece, str) and len(piece) <= MAX_QUOTE_CHARS)
            told = [f"not finalised: {result['reason']}", *self._handle.nearest(quotes)]
            raise ValueError("\n".join(told))
        raise Finalized

    def _ask(
        self, prompts: list[str], slices: Sequence[Slice], options: Mapping[str, Any], form: AnswerForm
    ) -> ChildResults:
        """Ask the children. One whose answer `form` refuses is asked once more, and told the reason."""
        options = {**options, "schema": form.schema}
        results = self._results("children", prompts, slices, options)
        refused = {at: why for at, one in enumerate(results) if (why := form.refusal(one)) is not None}
        if not refused:
            return results
        again = {**options, "chunked": False, "retries": list(refused.values())}
        try:
            second = self._results(
                "children", [prompts[at] for at in refused], [slices[at] for at in refused], again
            )
        except (ValueError, SubQueryError) as error:
            # The batch as a whole was refused, for example because no calls are left. Keep what was paid.
            for at, reason in refused.items():
                results[at] = results[at].refused(f"{reason}. It was not asked again: {error}")
            return results
        for (at, reason), answer in zip(refused.items(), second, strict=True):
            if answer.ok:
                still = form.refusal(answer)
                results[at] = answer if still is None else answer.refused(still)
            else:
                results[at] = answer.refused(f"{reason}. Asked again: {answer.error}")
        return results

    def _results(
        self, method: str, prompts: list[str], slices: Sequence[Slice], options: Mapping[str, Any]
    ) -> ChildResults:
        """Ask for one answer a prompt. An empty slice is not sent: its slot says so."""
        texts = "sources" if method == "sub_rlms" else "slices"
        sent = [position for position, one in enumerate(slices) if not one.empty]
        replies: dict[int, Any] = {}
        if sent:
            pieces = [slices[position].pieces for position in sent]
            params = {"prompts": [prompts[position] for position in sent], texts: pieces, **options}
            _, parts = self._call(method, params)
            replies = {sent[number]: reply for number, reply in parts}
        missing = {"text": "", "error": "the driver sent no answer"}
        results = ChildResults()
        for position, one in enumerate(slices):
            reply = replies.get(position, missing)
            if one.empty:
                reply = {"text": "", "error": one.empty, "error_type": EMPTY_SLICE}
            document = self._handle.document_name(one.span.start) if one.span else None
            results.append(ChildResult.of(reply, one.span, document, grounded=one.grounded))
        return results

    def _slice(self, given: Any) -> Slice:
        """Return a slice. Raises ValueError for an empty one."""
        if given is LEFT_OUT:
            return Slice()
        found = self._read_slice(given)
        if found.empty:
            raise ValueError(f"{found.empty}. Nothing was sent. {_LEAVE_OUT}")
        return found

    def _read_slice(self, given: Any) -> Slice:
        """Return the slice that `given` stands for. A child's answer counts as text, and empty texts, like
        those of failed children, are left out. Raises SliceTooLarge, and TypeError for what is no slice."""
        if given is None:
            return Slice(empty="the slice is empty: it is None")
        pieces: list[Any] = []
        grounded = False
        for piece in spans_of(given, "slice"):
            if isinstance(piece, str):
                if not piece.strip():
                    continue
                grounded = grounded or not isinstance(piece, ChildResult) or piece.grounded
                pieces.append(str(piece))
                continue
            span = resolve_range(piece.start, piece.end, self._handle.body.chars)
            if span.end <= span.start:
                why = f"the span ({piece[0]}, {piece[1]}) is empty in this input"
                return Slice(empty=f"the slice is empty: {why}")
            grounded = True
            pieces.append(list(span))
        if not pieces:
            why = "a text without words" if isinstance(given, str) else "a list without items"
            return Slice(empty=f"the slice is empty: {why}")
        if len(pieces) > wire.MAX_PIECES:
            raise SliceTooLarge(wire.too_many_pieces(len(pieces)))
        spans = [piece for piece in pieces if not isinstance(piece, str)]
        hull = Span(min(start for start, _ in spans), max(end for _, end in spans)) if spans else None
        return Slice(pieces, grounded, hull)

    def _slices(self, given: Any, on_error: str, what: str = "slices") -> list[Slice]:
        """Return the slices of a batch. An empty one keeps its slot, unless `on_error` is "raise"."""
        if isinstance(given, (str, Mapping)) or not hasattr(given, "__iter__") or is_pair(given):
            raise TypeError(
                f"{what} must be a list of slices, not {given!r:.40}; "
                "for a single one call sub_query(prompt, slice) or sub_rlm(prompt, source)"
            )
        chosen = []
        for position, one in enumerate(given):
            try:
                found = self._read_slice(one)
            except TypeError as error:
                raise TypeError(f"slice {position}: {error}") from None
            if found.empty and on_error == "raise":
                raise ValueError(f"slice {position}: {found.empty}. Nothing was sent. Filter it out.")
            chosen.append(found)
        return chosen

    def _paired(self, prompts: list[str], given: Any, what: str, on_error: str) -> list[Slice]:
        """Return one slice for each prompt, or None for each if they were left out."""
        if given is LEFT_OUT:
            return [Slice()] * len(prompts)
        if given is None:
            raise ValueError(f"{what} is None. Nothing was sent. Leave {what} out to ask without the input")
        chosen = self._slices(given, on_error, what)
        if len(chosen) != len(prompts):
            raise ValueError(f"{len(prompts)} prompts but {len(chosen)} {what}: they must pair up")
        return chosen

    def _evidence(self, given: Any) -> list[Any]:
        """Return evidence as it crosses the channel: spans as [start, end], quotes as str, others as dict.

        A child's answer stands for the longest quote in it that its slice contains, otherwise for the whole
        slice. Negative offsets count from the end. A span may end beyond the input: the driver marks it as
        unverified. Raises ValueError for a span that holds nothing, and for too many pieces.
        """

        def of_answer(one: Any) -> list[Any] | None:
            if not isinstance(one, ChildResult) or one.span is None:
                return None
            quoted = self._handle.quoted(one, one.span)
            if quoted is None and one.how == "look":
                return [{"seen": list(one.span)}]
            return [quoted or one.span]

        pieces = spans_of(given, "evidence", of_answer)
        if len(pieces) > wire.MAX_EVIDENCE:
            raise ValueError(wire.too_much_evidence(len(pieces)))
        return [self._proof(piece) if isinstance(piece, Span) else piece for piece in pieces]

    def _proof(self, span: Span) -> list[int]:
        chars = self._handle.body.chars
        start, end = (chars + at if at < 0 else at for at in span)
        if end <= max(0, start):
            raise ValueError(
                f"({span.start}, {span.end}) is no span: it holds no character. Give (start, end) with start "
                "before end, for example (hit.start, hit.end)"
            )
        return [min(max(0, start), wire.MAX_OFFSET - 1), min(end, wire.MAX_OFFSET)]

    def _call(self, method: str, params: dict[str, Any]) -> tuple[Any, list[Any]]:
        try:
            return self._channel.call(method, params)
        except CallError as error:
            raise _ERRORS.get(error.type, SubQueryError)(str(error)) from None


class ToolError(Exception):
    """A host tool failed, took too long, or returned a value that is not JSON."""


def host_tool(tool: Helper, channel: Channel) -> Callable[..., Any]:
    """Return the function of one host tool, which the driver runs outside the sandbox.

    Its arguments and its result are JSON values. It raises ToolError if the tool fails, and TypeError for
    arguments that do not match its signature. Python's `help` prints its description.
    """

    def call(*args: Any, **kwargs: Any) -> Any:
        for position, value in enumerate(args):
            check_json(value, f"argument {position + 1} of {tool.name}()")
        check_json(kwargs, f"{tool.name}()")
        params = {"name": tool.name, "args": list(args), "kwargs": kwargs}
        try:
            return channel.call("tool", params)[0]
        except CallError as error:
            raise _ERRORS.get(error.type, ToolError)(str(error)) from None

    call.__name__ = call.__qualname__ = tool.name
    call.__doc__ = f"{tool.call}\n\n{tool.summary}".rstrip()
    return call


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


def _only(results: ChildResults) -> ChildResult:
    """Return the answer of one child, or raise why there is none."""
    result = results[0]
    if not result.ok:
        raise (SliceTooLarge if result.error_type == "slice_too_large" else SubQueryError)(result.error)
    return result


def _prompts(given: Any, single: str) -> list[str]:
    if isinstance(given, (str, Mapping)) or not hasattr(given, "__iter__"):
        raise TypeError(f"prompts must be a list of str; {single}")
    prompts = list(given)
    for prompt in prompts:
        _check_prompt(prompt)
    return prompts


def _routed(model: Any) -> dict[str, Any]:
    """Return the option that names a sub-model, if one is named. Raises TypeError for anything but a name."""
    if model is None:
        return {}
    if not isinstance(model, str) or not model.strip():
        raise TypeError(f"model must be the name of a sub-model, as a str, not {model!r:.40}")
    return {"model": model.strip()}


def _options(
    *, numbered: Any = False, sample: Any = 0, chunked: bool = False, model: Any = None
) -> dict[str, Any]:
    """Return the options of a call for children. Raises TypeError or ValueError for a wrong one."""
    if not isinstance(numbered, bool):
        raise TypeError(f"numbered must be True or False, not {numbered!r:.40}")
    if not isinstance(sample, int) or isinstance(sample, bool):
        raise TypeError(f"sample must be a whole number from 0, not {sample!r:.40}")
    if sample < 0:
        raise ValueError(f"sample must be a whole number from 0, not {sample}")
    return {"sample": sample, "numbered": numbered, "chunked": chunked, **_routed(model)}


def _check_on_error(on_error: Any) -> None:
    if on_error not in ("keep", "raise"):
        raise ValueError(f"on_error must be 'keep' or 'raise', not {on_error!r:.40}")


def _report_failures(results: ChildResults, on_error: str = "keep") -> ChildResults:
    """Print which of several children failed, or raise it, and return the answers."""
    lines = failure_lines(results)
    if lines and on_error == "raise":
        raise SubQueryError("\n".join(lines))
    for line in lines:
        print(line)  # noqa: T201 - printing is how a cell speaks to the root
    return results
