"""How a root writes in each arm's own dialect."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from benchmarks.overhead.server import INNER

__all__ = ["ARMS", "NOTE", "Dialect"]

NOTE = "The slice says nothing of note."


@dataclass(frozen=True, slots=True)
class Dialect:
    """How a root of an arm writes. `wrap` makes a reply of code, `final` the replies that end the run with
    the value of an expression. `batch` asks children over slices, `one` a single child, `inner` a sub-RLM (""
    if there is none), whose root replies `deep`. `child` makes what a child replies of a text. `slice` and
    `find` read the text."""

    wrap: Callable[[str], str]
    final: Callable[[str], Sequence[str]]
    batch: str
    one: str
    inner: str
    deep: str
    slice: str = "context[:20]"
    find: str = "context[context.find({word!r}):][:60]"
    child: Callable[[str], str] = str


_SLICE = "context[{at} * i:{at} * i + {at}]"
_PROMPTS = f"llm_query_batched(['q ' + {_SLICE} for i in range({{count}})])"
_PROMPT = f"llm_query('q ' + {_SLICE})"


def _fenced(code: str, language: str = "repl") -> str:
    return f"```{language}\n{code}\n```"


def _python(code: str) -> str:
    return _fenced(code, "python")


def _dspy(code: str) -> str:
    return f"[[ ## reasoning ## ]]\nGo on.\n\n[[ ## code ## ]]\n{_python(code)}\n\n[[ ## completed ## ]]"


def _dspy_json(code: str) -> str:
    return json.dumps({"plan": "Go on.", "reasoning": "Go on.", "code": code})


_DSPY = Dialect(
    wrap=_dspy,
    final=lambda value: [_dspy(f"SUBMIT(str({value}))")],
    batch=_PROMPTS,
    one=_PROMPT,
    inner="",
    deep="",
)

ARMS: Mapping[str, Dialect] = {
    "ours": Dialect(
        wrap=_fenced,
        final=lambda value: [_fenced(f"peek(0, 1)\nfinalize(str({value}))")],
        batch="sub_query_batch('q', [({at} * i, {at} * i + {at}) for i in range({count})])",
        one="sub_query('q', ({at} * i, {at} * i + {at}))",
        inner=f"sub_rlm('{INNER}', (0, 200))",
        deep=_fenced("peek(0, 1)\nfinalize('deep')"),
        slice="peek(0, 20)",
        find="search({word!r})[0].line_text",
    ),
    "rlms": Dialect(
        wrap=_fenced,
        final=lambda value: [_fenced(f"answer['content'] = str({value})\nanswer['ready'] = True")],
        batch=_PROMPTS,
        one=_PROMPT,
        inner=f"rlm_query('{INNER} ' + context[:200])",
        deep=_fenced("answer['content'] = 'deep'\nanswer['ready'] = True"),
    ),
    "recursive-llm": Dialect(
        wrap=lambda code: code,
        final=lambda value: [f"final = str({value})\nprint(len(final))", "FINAL_VAR(final)"],
        batch=f"llm_query_batched(['q'] * {{count}}, [{_SLICE} for i in range({{count}})])",
        one=f"llm_query('q', {_SLICE})",
        inner=f"recursive_llm('{INNER}', context[:200])",
        deep='FINAL("deep")',
    ),
    "dspy": _DSPY,
    "dspy-deno": _DSPY,
    "fast-rlm": Dialect(
        wrap=_fenced,
        final=lambda value: [_fenced(f"FINAL(str({value}))")],
        batch=f"await batch_llm_query(*[llm_query({_SLICE}, instruction='q') for i in range({{count}})])",
        one=f"await llm_query({_SLICE}, instruction='q')",
        inner=f"await llm_query(context[:200], instruction='{INNER}')",
        deep=_fenced("FINAL('deep')"),
        child=lambda text: _fenced(f"FINAL({text!r})"),
    ),
    "droste": Dialect(
        wrap=_python,
        final=lambda value: [_python(f"answer['content'] = str({value})\nanswer['ready'] = True")],
        batch=_PROMPTS,
        one=_PROMPT,
        inner="",
        deep="",
    ),
    "predict-rlm": Dialect(
        wrap=_dspy_json,
        final=lambda value: [_dspy_json(f"SUBMIT(answer=str({value}))")],
        batch=(
            "await __import__('asyncio').gather(*[predict('text: str -> note: str', "
            f"text={_SLICE}) for i in range({{count}})])"
        ),
        one=f"await predict('text: str -> note: str', text={_SLICE})",
        inner="",
        deep="",
        child=lambda text: json.dumps({"note": text}),
    ),
}
