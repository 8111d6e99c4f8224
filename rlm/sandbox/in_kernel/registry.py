"""The list of helpers: it fills the kernel's namespace, the root's prompt, Python's `help`, the docs and the
errors about a wrong call.

`signature` has the parameters that the prompt shows, without what is rarely needed, and `summary` is one line
for the model. `help` and the errors have all parameters, from the function itself; `help` adds the example.
"""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True, slots=True)
class Helper:
    """One name a cell can call: a helper, or a tool of the host."""

    name: str
    signature: str
    summary: str
    example: str = ""
    needs_pages: bool = False
    """Whether it is named only where the input has pages and a model sees them."""

    @property
    def call(self) -> str:
        """Return name and signature as the model reads them: `peek(start, end, unit='chars')`."""
        return f"{self.name}{self.signature}"


HELPERS: tuple[Helper, ...] = (
    Helper(
        "context_meta",
        "()",
        ".chars, .lines, .documents, .preview, .recommended_chunk",
        example="print(context_meta())",
    ),
    Helper(
        "documents",
        "(pattern=None)",
        "the files (those like 'src/**/*.py'): .name, .start, .end, .text",
        example="for one in documents()[:10]:\n    print(one.index, one.name, one.end - one.start)",
    ),
    Helper(
        "peek",
        "(start, end=None, unit='chars')",
        "a slice by characters or 'lines'; peek(hit): its lines",
        example="print(peek(0, 800))\nprint(peek(120, 140, unit='lines'))",
    ),
    Helper(
        "search",
        "(pattern, max_hits=100, within=None)",
        "regex hits ((?i) ignores case): .start, .end, .match, .line_text, .document; `.total` is exact",
        example=(
            'hits = search(r"refund|chargeback", max_hits=20)\n'
            "print(hits.total, [(h.start, h.line_text[:160]) for h in hits[:5]])"
        ),
    ),
    Helper(
        "count",
        "(pattern, within=None)",
        "the exact number of matches",
        example='print(count(r"^ERROR"), count(r"(?i)refund", within=documents()[0]))',
    ),
    Helper(
        "quote",
        "(text)",
        "where exact words are: a str with .span",
        example=(
            'clause = quote("may be terminated by either party")\n'
            "print(clause.span, around(clause.span.start))"
        ),
    ),
    Helper(
        "around",
        "(where, lines=3, by=None)",
        "the lines around a hit or an offset; by='sentence' or 'section': the one that holds it",
        example="print(around(hits[0], lines=5))\nprint(around(hits[0], by='section')[:500])",
    ),
    Helper(
        "rank",
        "(query, k=10)",
        "the k packs (.text, .start) whose words fit best; others are missing",
        example=(
            'for pack in rank("early termination notice period", 5):\n'
            "    print(pack.start, pack.document, pack.text[:300])"
        ),
    ),
    Helper(
        "read_lines",
        "()",
        "all lines, lazily: each a str with .number, .start",
        example=(
            "from collections import Counter\n"
            'print(Counter(line.split()[1] for line in read_lines() if " " in line).most_common(5))'
        ),
    ),
    Helper(
        "read_records",
        "(within=None)",
        "rows of JSONL, JSON or CSV, or messages of chats, lazily: .value is a dict",
        example=(
            'late = [row for row in read_records() if int(row.value.get("days") or 0) > 30]\n'
            "print(len(late), late[:1])"
        ),
    ),
    Helper("read_all", "()", "the whole text as one str", example="text = read_all()\nprint(len(text))"),
    Helper(
        "tables",
        "()",
        "the tables of CSV, JSON, Markdown, workbooks and databases: .name, .columns",
        example="for table in tables():\n    print(table.name, table.document, table.columns)",
    ),
    Helper(
        "sql",
        "(query)",
        "one SELECT (SQLite) over them: row['name']; with _start, _end a row is evidence",
        example=(
            'rows = sql("select status, count(*) n from orders group by status order by n desc")\n'
            "print(rows[:10])"
        ),
    ),
    Helper(
        "chunk",
        "(max_chars=None, overlap=0, by=None, within=None)",
        "chunks that cover it all, as large as a child takes: .text, .start, .end; by='paragraphs', "
        "'headings', 'messages', …",
        example=(
            "chunks = chunk(max_chars=context_meta().recommended_chunk, by='paragraphs')\nprint(len(chunks))"
        ),
    ),
    Helper(
        "chunk_coverage",
        "(chunks)",
        "what they cover: .covered_chars, .gaps, .complete",
        example="print(chunk_coverage(chunks))",
    ),
    Helper(
        "sub_query",
        "(prompt, slice, schema=None)",
        "one child reads one slice",
        example=(
            'answer = sub_query("Who signed, and when? Quote the line.", around(hits[0], lines=30))\n'
            "print(answer.found, answer.ok, answer)"
        ),
    ),
    Helper(
        "sub_query_batch",
        "(prompt, slices, schema=None)",
        "one prompt, many independent slices, concurrently",
        example=(
            'answers = sub_query_batch("List every refund: date, amount, reason.", chunks,\n'
            "                          schema=list[dict[str, str]])\n"
            "print(len(answers.failed), [a.value for a in answers.found][:5])"
        ),
    ),
    Helper(
        "sub_query_map",
        "(prompts, slices)",
        "a prompt for each slice",
        example='replies = sub_query_map([f"What does {name} ask for?" for name in names], slices)',
    ),
    Helper(
        "look",
        "(pages, prompt)",
        "a child sees pages or pictures: documents()[i].page(n)",
        needs_pages=True,
        example=(
            'seen = look(documents()[0].page(3), "Which total does the invoice show?")\n'
            'finalize(f"{seen} [1].", evidence=[seen])'
        ),
    ),
    Helper(
        "sub_rlm",
        "(prompt, source)",
        "an RLM like you over a part; a list of prompts with a list of sources runs several",
        example=(
            'part = sub_rlm("Which appendix changed most, and how?", documents()[1])\n'
            "print(part.how, part, part.evidence)"
        ),
    ),
    Helper("SHOW_VARS", "()", "your variables and their types", example="print(SHOW_VARS())"),
    Helper("repl_set", "(name, value)", "set a variable", example='repl_set("total", 12)'),
    Helper("repl_get", "(name)", "get one", example='print(repl_get("total", 0))'),
    Helper("output_of", "(round)", "all that a round's block printed", example="print(output_of(2)[-2000:])"),
    Helper(
        "evaluate_progress",
        "()",
        "variables, limits left, coverage, and whether an answer exists",
        example="print(evaluate_progress()['limits'])",
    ),
    Helper(
        "finalize",
        "(value, confidence=None, evidence=None)",
        "end the run",
        example='finalize("The fee is 4% [1].", confidence="high", evidence=hits[:1])',
    ),
)

NAMES: tuple[str, ...] = tuple(helper.name for helper in HELPERS)

YIELDING = frozenset({"tables", "sql"})
"""Helpers whose names are common words. A variable of a cell or a tool of the host may take them."""


def with_argument_hints(helper: Helper, function: Callable[..., Any]) -> Callable[..., Any]:
    """Wrap `function` so that wrong arguments raise TypeError with the right call of `helper`.

    The docstring of the result is what Python's `help` prints in a cell.
    """
    signature = inspect.signature(function)
    right = f"Call {helper.name}{bare_signature(function)}."

    @functools.wraps(function)
    def call(*args: Any, **given: Any) -> Any:
        for name in given:
            if name not in signature.parameters:
                raise TypeError(f"{helper.name}() takes no {name!r}. {right}")
        try:
            return function(*args, **given)
        except TypeError as error:
            if error.__traceback__ is None or error.__traceback__.tb_next is not None:
                raise
            # The call itself is wrong: the helper has not run.
            said = str(error).rpartition(".")[2]
            raise TypeError(f"{said}. {right}") from None

    call.__doc__ = f"{inspect.getdoc(function)}\n\nExample:\n{helper.example}"
    call.__signature__ = bare_signature(function)  # type: ignore[attr-defined]
    return call


def bare_signature(function: Callable[..., Any]) -> inspect.Signature:
    """Return the signature that a cell sees: no self, no annotations."""
    signature = inspect.signature(function)
    parameters = [
        one.replace(annotation=one.empty) for one in signature.parameters.values() if one.name != "self"
    ]
    return signature.replace(parameters=parameters, return_annotation=signature.empty)
