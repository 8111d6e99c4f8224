"""What a kernel sends on the helper channel, checked and made into types.

Nothing here trusts its input: every field's type, every size and every offset is checked, against the
driver's own knowledge of the body. ValueError says what is wrong; the bridge treats it as a broken peer,
except for `BadCall`, which is a mistake an honest cell can make.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Literal

from rlm.sandbox.types import (
    CellReport,
    ChildBatch,
    ChildSlice,
    Finalization,
    RankQuery,
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
    "rank_query",
    "sub_rlm_batch",
    "tool_call",
]

MAX_CHILDREN = 100_000
MAX_SUB_RLMS = 1_000
MAX_PIECES = 10_000
MAX_SPANS = 40_000
MAX_VARIABLES = 500
MAX_EVIDENCE = 1_000
MAX_OFFSET = 2**53
MAX_DEPTH = 100
MAX_QUERY = 2_000
MAX_RANKED = 1_000
MAX_ARGUMENTS = 1_000
MAX_NAME = 100


class BadCall(Exception):
    """A call that can't be carried out as asked: told to the cell, as an error of that type."""

    def __init__(self, type_: Literal["value", "type", "slice_too_large", "tool"], message: str) -> None:
        super().__init__(message)
        self.type = type_


def child_batch(params: Mapping[str, Any], chars: int) -> ChildBatch:
    """The batch of a `children` call over a body of `chars` characters."""
    prompts = _strings(params.get("prompts"), "prompts", MAX_CHILDREN)
    raw = _list(params.get("slices"), "slices", MAX_CHILDREN)
    if len(raw) != len(prompts):
        raise ValueError("prompts and slices differ in length")
    numbered = params.get("numbered") is True
    schema = params.get("schema")
    if schema is not None and not isinstance(schema, dict):
        raise BadCall("type", "schema is a JSON Schema as a dict, or a dict of types like {'name': 'str'}")
    sample = params.get("sample", 0)
    if not isinstance(sample, int) or isinstance(sample, bool) or not 0 <= sample < 1_000_000:
        raise BadCall("value", "sample is a whole number from 0")
    slices = tuple(None if one is None else ChildSlice(_pieces(one, chars), numbered) for one in raw)
    return ChildBatch(prompts, slices, sample, schema, params.get("chunked") is True)


def finalization(params: Mapping[str, Any], chars: int) -> Finalization:
    """The claim of a `finalize` call."""
    raw = _list(params.get("evidence"), "evidence", 10 * MAX_EVIDENCE)
    if len(raw) > MAX_EVIDENCE:
        raise BadCall("value", f"evidence holds {len(raw):,} pieces; give the {MAX_EVIDENCE:,} that matter")
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
    if _deeper(value, MAX_DEPTH):
        raise BadCall("value", f"the value is nested deeper than {MAX_DEPTH} levels; flatten it")
    return Finalization(
        value=value,
        confidence=confidence,
        evidence=tuple(_evidence(one) for one in raw),
        access=CellReport(
            read=_spans(params.get("read"), chars), scanned=_spans(params.get("scanned"), chars)
        ),
    )


def sub_rlm_batch(params: Mapping[str, Any], chars: int) -> SubRLMBatch:
    """The batch of a `sub_rlms` call over a body of `chars` characters."""
    prompts = _strings(params.get("prompts"), "prompts", MAX_CHILDREN)
    raw = _list(params.get("sources"), "sources", MAX_CHILDREN)
    if len(raw) != len(prompts):
        raise ValueError("prompts and sources differ in length")
    if len(prompts) > MAX_SUB_RLMS:
        raise BadCall(
            "value",
            f"{len(prompts):,} sub-RLMs at a time are too many: {MAX_SUB_RLMS:,} is the limit; a "
            "child (sub_query_batch) does for a single slice",
        )
    sources = tuple(None if one is None else ChildSlice(_pieces(one, chars)) for one in raw)
    return SubRLMBatch(prompts, sources)


def rank_query(params: Mapping[str, Any]) -> RankQuery:
    """The wish of a `rank` call."""
    query, k = params.get("query"), params.get("k")
    if not isinstance(query, str) or not isinstance(k, int) or isinstance(k, bool):
        raise ValueError("query or k")
    if not 1 <= k <= MAX_RANKED:
        raise BadCall("value", f"k is {k}: rank() gives 1 to {MAX_RANKED:,} packs")
    if len(query) > MAX_QUERY:
        raise BadCall(
            "value",
            f"the query has {len(query):,} characters, rank() takes {MAX_QUERY:,}: give its key words",
        )
    return RankQuery(query, k)


def tool_call(params: Mapping[str, Any]) -> ToolCall:
    """The wish of a `tool` call."""
    name, args, kwargs = params.get("name"), params.get("args"), params.get("kwargs")
    if not isinstance(name, str) or len(name) > MAX_NAME:
        raise ValueError("name")
    if not isinstance(kwargs, dict):
        raise ValueError("kwargs")
    args = _list(args, "args", MAX_OFFSET)
    if len(args) + len(kwargs) > MAX_ARGUMENTS:
        raise BadCall(
            "type", f"{len(args) + len(kwargs):,} arguments: a tool takes {MAX_ARGUMENTS:,} at most"
        )
    if _deeper([args, kwargs], MAX_DEPTH):
        raise BadCall("value", f"the arguments are nested deeper than {MAX_DEPTH} levels; flatten them")
    return ToolCall(name, tuple(args), kwargs)


def cell_report(params: Mapping[str, Any], chars: int) -> CellReport:
    """What the kernel says of the cell it ran."""
    changed = []
    for row in _list(params.get("changed"), "changed", 1_000_000)[:MAX_VARIABLES]:
        name, kind, size = _strings(row, "variable", 3)
        changed.append(VariableInfo(name[:100], kind[:100], size[:100]))
    printed = params.get("stdout_chars", 0)
    if not isinstance(printed, int) or isinstance(printed, bool) or not 0 <= printed < 2**62:
        raise ValueError("stdout_chars")
    return CellReport(
        read=_spans(params.get("read"), chars),
        scanned=_spans(params.get("scanned"), chars),
        changed=tuple(changed),
        rebound=tuple(name[:100] for name in _strings(params.get("rebound"), "rebound", 1_000)),
        stdout_chars=printed,
    )


def _deeper(value: object, limit: int) -> bool:
    """Whether lists and dicts stand in one another more than `limit` deep. Later, somebody's recursion
    will go through the value."""
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


def _evidence(value: object) -> Span | str:
    """A span that lies outside the body is evidence that does not stand: for the run to judge."""
    if isinstance(value, str):
        return value
    return _span(value, MAX_OFFSET)


def _pieces(value: object, chars: int) -> tuple[Span | str, ...]:
    return tuple(_piece(one, chars) for one in _list(value, "slice", MAX_PIECES))


def _piece(value: object, chars: int) -> Span | str:
    if isinstance(value, str):
        return value
    try:
        return _span(value, chars)
    except ValueError:
        raise BadCall(
            "value", f"{value!r:.80} is no span of this input, which has {chars:,} characters"
        ) from None
