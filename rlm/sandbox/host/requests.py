"""Validates the requests of the helper channel and converts them to types.

The input is untrusted. Every type, size and offset is checked against the driver's own knowledge of the
body. ValueError means a broken peer: the bridge shuts the kernel down. BadCall is a mistake that an honest
cell can make: it is returned to the cell as an error.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any, TypeGuard, TypeVar

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

T = TypeVar("T")

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
_MOST_COUNTED = 2**62
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
    prompts, raw = _prompts(
        params, "slices", MAX_CHILDREN, "children", "Give larger slices, or make several calls."
    )
    numbered = _read(params, "numbered", bool, False)
    look = _read(params, "look", bool, False)
    if look and None in raw:
        raise ValueError("look")
    schema = params.get("schema")
    if schema is not None and not isinstance(schema, (dict, list, str)):
        raise BadCall("type", "schema must be a JSON Schema, or types like {'name': 'str', 'tags': ['str']}")
    sample = params.get("sample", 0)
    if type(sample) is not int or not 0 <= sample < 1_000_000:
        raise BadCall("value", "sample must be a whole number from 0")
    retries = _texts(params, "retries", [])
    if retries and (len(retries) != len(prompts) or max(map(len, retries)) > MAX_REASON):
        raise ValueError("retries")
    return ChildBatch(
        prompts,
        tuple(None if one is None else ChildSlice(_pieces(one, chars), numbered) for one in raw),
        sample,
        schema,
        params.get("chunked") is True,
        retries,
        model=_sub_model(params),
        look=look,
    )


def sub_rlm_batch(params: Mapping[str, Any], chars: int) -> SubRLMBatch:
    """Return the batch of a `sub_rlms` call over a body of `chars` characters."""
    remedy = "For a single slice each, call sub_query_batch."
    prompts, raw = _prompts(params, "sources", MAX_SUB_RLMS, "sub-RLMs", remedy)
    longest = max(map(len, prompts), default=0)
    if longest > MAX_TASK:
        raise BadCall(
            "value",
            f"a prompt of {longest:,} characters is over the limit of {MAX_TASK:,} for a sub-RLM. "
            "Give the text as its source.",
        )
    sources = tuple(None if one is None else ChildSlice(_pieces(one, chars)) for one in raw)
    return SubRLMBatch(prompts, sources, _sub_model(params))


def finalization(params: Mapping[str, Any], chars: int) -> Finalization:
    """Return the final answer of a `finalize` call."""
    raw = _read(params, "evidence", list)
    if len(raw) > MAX_EVIDENCE:
        raise BadCall("value", too_much_evidence(len(raw)))
    confidence = params.get("confidence")
    if confidence not in (None, "low", "medium", "high"):
        if type(confidence) not in (int, float) or not 0 <= confidence <= 1:
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
    access = CellReport(read=_spans(params, "read", chars), scanned=_spans(params, "scanned", chars))
    return Finalization(value, confidence, tuple(map(_evidence, raw)), access)


def rank_query(params: Mapping[str, Any], chars: int) -> RankQuery:
    """Return the query of a `rank` call over a body of `chars` characters."""
    query, k, within = _read(params, "query", str), _read(params, "k", int), params.get("within")
    if not 1 <= k <= MAX_RANKED:
        raise BadCall("value", f"k is {k}. rank() takes k from 1 to {MAX_RANKED:,}.")
    if len(query) > MAX_QUERY:
        raise BadCall(
            "value",
            f"the query has {len(query):,} characters, rank() takes {MAX_QUERY:,}. Give its key words.",
        )
    return RankQuery(query, k, None if within is None else _span(within, chars))


def tool_call(params: Mapping[str, Any], _chars: int) -> ToolCall:
    """Return the call of a `tool` request."""
    name = _read(params, "name", str, most=MAX_NAME)
    args, kwargs = _read(params, "args", list), _read(params, "kwargs", dict)
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
    for row in _read(params, "changed", list)[:MAX_VARIABLES]:
        name, kind, size = _texts({"variable": row}, "variable", most=3)
        changed.append(VariableInfo(name[:MAX_NAME], kind[:MAX_NAME], size[:MAX_NAME]))
    counts = [_read(params, name, int, 0) for name in ("stdout_chars", "changed_count")]
    if not all(0 <= count < _MOST_COUNTED for count in counts):
        raise ValueError("a count")
    return CellReport(
        read=_spans(params, "read", chars),
        scanned=_spans(params, "scanned", chars),
        changed=tuple(changed),
        rebound=tuple(name[:MAX_NAME] for name in _texts(params, "rebound", most=1_000)),
        stdout_chars=counts[0],
        changed_count=max(counts[1], len(changed)),
    )


def _read(
    params: Mapping[str, Any], name: str, kind: type[T], default: object = None, *, most: int = MAX_OFFSET
) -> T:
    """Return a parameter of exactly that type, and of at most that length if it has one."""
    value = params.get(name, default)
    # No subclass: True is no number.
    if type(value) is not kind or (isinstance(value, (str, list, dict)) and len(value) > most):
        raise ValueError(name)
    return value


def _texts(
    params: Mapping[str, Any], name: str, default: object = None, *, most: int = MAX_OFFSET
) -> tuple[str, ...]:
    texts = _read(params, name, list, default, most=most)
    if not all(isinstance(text, str) for text in texts):
        raise ValueError(name)
    return tuple(texts)


def _prompts(
    params: Mapping[str, Any], inputs: str, most: int, what: str, remedy: str
) -> tuple[tuple[str, ...], list[Any]]:
    """Return the prompts of a batch and its inputs, of the same number."""
    prompts, raw = _texts(params, "prompts"), _read(params, inputs, list)
    if len(raw) != len(prompts):
        raise ValueError(f"prompts and {inputs} differ in length")
    if len(prompts) > most:
        raise BadCall(
            "value", f"{len(prompts):,} {what} in one call are over the limit of {most:,}. {remedy}"
        )
    return prompts, raw


def _sub_model(params: Mapping[str, Any]) -> str:
    name = params.get("model") or ""
    if not isinstance(name, str) or len(name) > MAX_NAME:
        raise BadCall("type", "model must be the name of a sub-model, as a str")
    return name


def _spans(params: Mapping[str, Any], name: str, chars: int) -> tuple[Span, ...]:
    return tuple(_span(pair, chars) for pair in _read(params, name, list, most=MAX_SPANS))


def _span(value: object, chars: int) -> Span:
    if _is_pair(value) and 0 <= value[0] <= value[1] <= chars:
        return Span(*value)
    raise ValueError("span")


def _is_pair(value: object) -> TypeGuard[list[int]]:
    """Return whether `value` is a pair of numbers that a mistake in a cell may give."""
    return (
        isinstance(value, list)
        and len(value) == 2
        and all(type(edge) is int and abs(edge) <= MAX_OFFSET for edge in value)
    )


def _evidence(value: object) -> Evidence:
    """Return a quote, a span, seen pages or the rows of a computed value. A span outside the body is allowed:
    the run marks it as unverified."""
    if isinstance(value, str):
        return value
    if isinstance(value, dict) and set(value) == {"seen"}:
        return SeenPages(_span(value["seen"], MAX_OFFSET))
    if isinstance(value, dict) and set(value) == {"rows", "total"}:
        rows = tuple(_span(row, MAX_OFFSET) for row in _read(value, "rows", list, most=MAX_COMPUTED_ROWS))
        total = _read(value, "total", int)
        if not rows or not len(rows) <= total <= MAX_OFFSET:
            raise ValueError("evidence")
        return ComputedFrom(rows, total)
    if _is_pair(value) and not 0 <= value[0] <= value[1]:
        raise BadCall("value", f"{value!r:.80} is not a span. Give (start, end) or a quote.")
    return _span(value, MAX_OFFSET)


def _pieces(value: object, chars: int) -> tuple[Span | str, ...]:
    raw = _read({"slice": value}, "slice", list)
    if len(raw) > MAX_PIECES:
        raise BadCall("slice_too_large", too_many_pieces(len(raw)))
    pieces = tuple(one if isinstance(one, str) else _piece(one, chars) for one in raw)
    if not any(piece.strip() if isinstance(piece, str) else piece.start < piece.end for piece in pieces):
        raise BadCall("value", "the slice is empty. Leave it out to ask without the input")
    return pieces


def _piece(value: object, chars: int) -> Span:
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
