"""Validates the requests of the helper channel and converts them to types.

The input is untrusted. Every type, size and offset is checked against the driver's own knowledge of the
body. ValueError means a broken peer: the bridge shuts the kernel down. BadCall is a mistake that an honest
cell can make: it is returned to the cell as an error.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from rlm.sandbox.in_kernel.wire import (
    MAX_EVIDENCE,
    MAX_OFFSET,
    MAX_PIECES,
    too_many_pieces,
    too_much_evidence,
)
from rlm.sandbox.types import (
    CellReport,
    ChildBatch,
    ChildSlice,
    ComputedFrom,
    Evidence,
    Finalization,
    RankQuery,
    SeenPages,
    Span,
    SubRLMBatch,
    ToolCall,
    VariableInfo,
)

__all__ = [
    "BadCall",
    "cell_report",
    "child_batch",
    "finalization",
    "is_nested_deeper",
    "rank_query",
    "sub_rlm_batch",
    "tool_call",
]

MAX_CHILDREN = 10_000
MAX_SUB_RLMS = 1_000
MAX_SPANS = 40_000
MAX_VARIABLES = 500
MAX_COMPUTED_ROWS = 10
MAX_DEPTH = 100
MAX_QUERY = 2_000
MAX_RANKED = 1_000
MAX_ARGUMENTS = 1_000
MAX_NAME = 100
MAX_REASON = 1_000
"""Characters of the reason why a cell refused an answer."""
MAX_TASK = 20_000
"""Characters of the task of one sub-RLM. The journal keeps it."""
MAX_VALUE = 2**20
"""Characters of a final answer as JSON. It is searched for quotes, printed and kept in the journal."""


class BadCall(Exception):
    """A call that cannot be executed as requested. The cell gets an error of this type: `value`, `type`,
    `slice_too_large`, `depth`, `tool` or `sub_model`."""

    def __init__(self, type_: str, message: str) -> None:
        super().__init__(message)
        self.type = type_


def child_batch(params: Mapping[str, Any], chars: int) -> ChildBatch:
    """Return the batch of a `children` call over a body of `chars` characters."""
    prompts = _strings(params.get("prompts"), "prompts", MAX_OFFSET)
    raw = _list(params.get("slices"), "slices", MAX_OFFSET)
    if len(raw) != len(prompts):
        raise ValueError("prompts and slices differ in length")
    if len(prompts) > MAX_CHILDREN:
        raise BadCall(
            "value",
            f"{len(prompts):,} children in one call are over the limit of {MAX_CHILDREN:,}. "
            "Give larger slices, or make several calls.",
        )
    numbered = params.get("numbered", False)
    if not isinstance(numbered, bool):
        raise ValueError("numbered")
    schema = params.get("schema")
    if schema is not None and not isinstance(schema, (dict, list, str)):
        raise BadCall("type", "schema must be a JSON Schema, or types like {'name': 'str', 'tags': ['str']}")
    sample = params.get("sample", 0)
    if not isinstance(sample, int) or isinstance(sample, bool) or not 0 <= sample < 1_000_000:
        raise BadCall("value", "sample must be a whole number from 0")
    slices = tuple(None if one is None else ChildSlice(_pieces(one, chars), numbered) for one in raw)
    look = params.get("look", False)
    if not isinstance(look, bool) or (look and None in raw):
        raise ValueError("look")
    retries = _strings(params.get("retries", []), "retries", MAX_OFFSET)
    if retries and (len(retries) != len(prompts) or max(map(len, retries)) > MAX_REASON):
        raise ValueError("retries")
    return ChildBatch(
        prompts,
        slices,
        sample,
        schema,
        params.get("chunked") is True,
        retries,
        model=_sub_model(params),
        look=look,
    )


def finalization(params: Mapping[str, Any], chars: int) -> Finalization:
    """Return the final answer of a `finalize` call."""
    raw = _list(params.get("evidence"), "evidence", MAX_OFFSET)
    if len(raw) > MAX_EVIDENCE:
        raise BadCall("value", too_much_evidence(len(raw)))
    confidence = params.get("confidence")
    if confidence is not None and confidence not in ("low", "medium", "high"):
        if (
            not isinstance(confidence, (int, float))
            or isinstance(confidence, bool)
            or not 0 <= confidence <= 1
        ):
            raise ValueError("confidence")
        confidence = float(confidence)
    value = params.get("value")
    if is_nested_deeper(value, MAX_DEPTH):
        raise BadCall("value", f"the value is nested deeper than {MAX_DEPTH} levels. Flatten it.")
    size = len(json.dumps(value, ensure_ascii=False, allow_nan=False))
    if size > MAX_VALUE:
        raise BadCall(
            "value", f"the answer has {size:,} characters, the limit is {MAX_VALUE:,}. Give a shorter one."
        )
    return Finalization(
        value=value,
        confidence=confidence,
        evidence=tuple(_evidence(one) for one in raw),
        access=CellReport(
            read=_spans(params.get("read"), chars), scanned=_spans(params.get("scanned"), chars)
        ),
    )


def sub_rlm_batch(params: Mapping[str, Any], chars: int) -> SubRLMBatch:
    """Return the batch of a `sub_rlms` call over a body of `chars` characters."""
    prompts = _strings(params.get("prompts"), "prompts", MAX_OFFSET)
    raw = _list(params.get("sources"), "sources", MAX_OFFSET)
    if len(raw) != len(prompts):
        raise ValueError("prompts and sources differ in length")
    if len(prompts) > MAX_SUB_RLMS:
        raise BadCall(
            "value",
            f"{len(prompts):,} sub-RLMs in one call are over the limit of {MAX_SUB_RLMS:,}. "
            "For a single slice each, call sub_query_batch.",
        )
    longest = max(map(len, prompts), default=0)
    if longest > MAX_TASK:
        raise BadCall(
            "value",
            f"a prompt of {longest:,} characters is over the limit of {MAX_TASK:,} for a sub-RLM. "
            "Give the text as its source.",
        )
    sources = tuple(None if one is None else ChildSlice(_pieces(one, chars)) for one in raw)
    return SubRLMBatch(prompts, sources, _sub_model(params))


def rank_query(params: Mapping[str, Any], chars: int) -> RankQuery:
    """Return the query of a `rank` call over a body of `chars` characters."""
    query, k = params.get("query"), params.get("k")
    if not isinstance(query, str) or not isinstance(k, int) or isinstance(k, bool):
        raise ValueError("query or k")
    if not 1 <= k <= MAX_RANKED:
        raise BadCall("value", f"k is {k}. rank() takes k from 1 to {MAX_RANKED:,}.")
    if len(query) > MAX_QUERY:
        raise BadCall(
            "value",
            f"the query has {len(query):,} characters, rank() takes {MAX_QUERY:,}. Give its key words.",
        )
    within = params.get("within")
    return RankQuery(query, k, None if within is None else _span(within, chars))


def tool_call(params: Mapping[str, Any]) -> ToolCall:
    """Return the call of a `tool` request."""
    name, args, kwargs = params.get("name"), params.get("args"), params.get("kwargs")
    if not isinstance(name, str) or len(name) > MAX_NAME:
        raise ValueError("name")
    if not isinstance(kwargs, dict):
        raise ValueError("kwargs")
    args = _list(args, "args", MAX_OFFSET)
    if len(args) + len(kwargs) > MAX_ARGUMENTS:
        raise BadCall(
            "type", f"{len(args) + len(kwargs):,} arguments are over the limit of {MAX_ARGUMENTS:,}"
        )
    if is_nested_deeper([args, kwargs], MAX_DEPTH):
        raise BadCall("value", f"the arguments are nested deeper than {MAX_DEPTH} levels. Flatten them.")
    return ToolCall(name, tuple(args), kwargs)


def cell_report(params: Mapping[str, Any], chars: int) -> CellReport:
    """Return the kernel's report of a cell, cut to its bounds."""
    changed = []
    for row in _list(params.get("changed"), "changed", 1_000_000)[:MAX_VARIABLES]:
        name, kind, size = _strings(row, "variable", 3)
        changed.append(VariableInfo(name[:100], kind[:100], size[:100]))
    printed = params.get("stdout_chars", 0)
    if not isinstance(printed, int) or isinstance(printed, bool) or not 0 <= printed < 2**62:
        raise ValueError("stdout_chars")
    changed_count = params.get("changed_count", len(changed))
    if not isinstance(changed_count, int) or isinstance(changed_count, bool) or changed_count >= 2**62:
        raise ValueError("changed_count")
    return CellReport(
        read=_spans(params.get("read"), chars),
        scanned=_spans(params.get("scanned"), chars),
        changed=tuple(changed),
        rebound=tuple(name[:100] for name in _strings(params.get("rebound"), "rebound", 1_000)),
        stdout_chars=printed,
        changed_count=max(changed_count, len(changed)),
    )


def _sub_model(params: Mapping[str, Any]) -> str:
    name = params.get("model") or ""
    if not isinstance(name, str) or len(name) > MAX_NAME:
        raise BadCall("type", "model must be the name of a sub-model, as a str")
    return name


def _list(value: object, what: str, limit: int) -> list[Any]:
    if not isinstance(value, list) or len(value) > limit:
        raise ValueError(what)
    return value


def _strings(value: object, what: str, limit: int) -> tuple[str, ...]:
    every = _list(value, what, limit)
    if not all(isinstance(one, str) for one in every):
        raise ValueError(what)
    return tuple(every)


def _spans(value: object, chars: int) -> tuple[Span, ...]:
    return tuple(_span(one, chars) for one in _list(value, "spans", MAX_SPANS))


def _span(value: object, chars: int) -> Span:
    if (
        isinstance(value, list)
        and len(value) == 2
        and all(isinstance(edge, int) and not isinstance(edge, bool) for edge in value)
        and 0 <= value[0] <= value[1] <= chars
    ):
        return Span(value[0], value[1])
    raise ValueError("span")


def _evidence(value: object) -> Evidence:
    """Return a quote, a span, seen pages or the rows of a computed value. A span outside the body is allowed:
    the run marks it as unverified."""
    if isinstance(value, str):
        return value
    if isinstance(value, dict) and set(value) == {"seen"}:
        return SeenPages(_span(value["seen"], MAX_OFFSET))
    if isinstance(value, dict) and set(value) == {"rows", "total"}:
        rows = tuple(_span(one, MAX_OFFSET) for one in _list(value["rows"], "evidence", MAX_COMPUTED_ROWS))
        total = value["total"]
        if not rows or type(total) is not int or not len(rows) <= total <= MAX_OFFSET:
            raise ValueError("evidence")
        return ComputedFrom(rows, total)
    try:
        return _span(value, MAX_OFFSET)
    except ValueError:
        if not _is_pair(value):
            raise
        raise BadCall("value", f"{value!r:.80} is not a span. Give (start, end) or a quote.") from None


def _is_pair(value: object) -> bool:
    """Return whether `value` is a pair of numbers that a mistake in a cell may give."""
    return (
        isinstance(value, list)
        and len(value) == 2
        and all(type(edge) is int and abs(edge) <= MAX_OFFSET for edge in value)
    )


def _pieces(value: object, chars: int) -> tuple[Span | str, ...]:
    raw = _list(value, "slice", MAX_OFFSET)
    if len(raw) > MAX_PIECES:
        raise BadCall("slice_too_large", too_many_pieces(len(raw)))
    pieces = tuple(_piece(one, chars) for one in raw)
    if not any(piece.strip() if isinstance(piece, str) else piece.start < piece.end for piece in pieces):
        raise BadCall("value", "the slice is empty. Leave it out to ask without the input")
    return pieces


def _piece(value: object, chars: int) -> Span | str:
    if isinstance(value, str):
        return value
    try:
        return _span(value, chars)
    except ValueError:
        raise BadCall(
            "value", f"{value!r:.80} is not a span of this input, which has {chars:,} characters"
        ) from None


def is_nested_deeper(value: object, limit: int) -> bool:
    """Return whether lists and dicts are nested more than `limit` deep.

    Without recursion: later code, such as a JSON encoder, may recurse through the value.
    """
    level = [value]
    for _ in range(limit + 1):
        level = [
            inner
            for one in level
            if isinstance(one, (list, dict))
            for inner in (one.values() if isinstance(one, dict) else one)
        ]
        if not level:
            return False
    return True
