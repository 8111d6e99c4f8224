"""The list of helpers: it fills the kernel's namespace, the root's system prompt, `help` and the docs.

Pure data. `signature` is that of the callable; `summary` is one line for the model; `fields` are the keys of
the records that it returns. `example` is shown by `help`. The short prompt has `brief` instead of the
summary, and `short`, where it is given, instead of the signature.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal


@dataclass(frozen=True, slots=True)
class Helper:
    """One name a cell can call."""

    name: str
    signature: str
    summary: str
    fields: tuple[str, ...] = ()
    needs_pages: bool = False
    """Whether it is named only where the input has pages and a model sees them."""
    short: str = ""
    brief: str = ""
    example: str = ""
    on_demand: bool = False
    """Whether only the short prompt names it."""
    by_name: bool = False
    """Whether the short prompt has only its name, in a list."""

    @property
    def call(self) -> str:
        """Return name and signature as the model reads them: `peek(start, end, unit='chars')`."""
        return f"{self.name}{self.signature}"

    @property
    def short_call(self) -> str:
        """Return name and signature without the parameters that are rarely needed."""
        return f"{self.name}{self.short or self.signature}"


@dataclass(frozen=True, slots=True)
class Note:
    """What several helpers have in common, or more than a line about one of them. `help` shows it with each
    of `helpers`; the full prompt has all notes, each in its part."""

    text: str
    helpers: frozenset[str]
    part: Literal["values", "recurse", "rules"] = "values"


HELPERS: tuple[Helper, ...] = (
    Helper(
        "context_meta",
        "()",
        "bounded facts about the input, and the chunk size at which a full pass fits what is left",
        (
            "chars",
            "lines",
            "bytes",
            "documents",
            "preview",
            "tail_preview",
            "sha256",
            "recommended_chunk",
            "calls",
            "cost_usd",
        ),
        brief="facts of the input: .chars, .recommended_chunk",
        example="print(context_meta())",
        by_name=True,
    ),
    Helper(
        "documents",
        "()",
        "the files of the input (where there are any: .pages and .messages are how many, .parts the works "
        "in one file)",
        ("index", "name", "kind", "start", "end"),
        brief="its files: .name, .start, .end",
        example=("for one in documents()[:10]:\n    print(one.index, one.name, one.end - one.start)"),
    ),
    Helper(
        "peek",
        "(start, end=None, unit='chars')",
        "a slice by characters or by lines (unit='lines'), or the lines of a hit: peek(hit); up to 100,000 "
        "characters; a str that remembers its .span",
        brief="the text there; peek(hit): its lines",
        example=("print(peek(0, 800))\nprint(peek(120, 140, unit='lines'))"),
    ),
    Helper(
        "search",
        "(pattern, max_hits=100, context=120, within=None)",
        "regex search, MULTILINE, in linear time ((?i) ignores case); a list of hits; within, here and "
        "below: a span, hit, section or document (name)",
        ("index", "start", "end", "line", "match", "snippet", "line_text", "document"),
        short="(pattern, max_hits=100, within=None)",
        brief="regex hits ((?i) ignores case): .start, .end, .match, .line_text, .document; `.total` is "
        "exact",
        example=(
            'hits = search(r"refund|chargeback", max_hits=20)\n'
            "print(hits.total, [(h.start, h.line_text[:160]) for h in hits[:5]])"
        ),
    ),
    Helper(
        "quote",
        "(text, within=None)",
        "the place that reads as text, a str with .span; if none, the error names the nearest",
        short="(text)",
        brief="where exact words stand: a str with .span",
        example=(
            'clause = quote("may be terminated by either party")\n'
            "print(clause.span, around(clause.span.start))"
        ),
    ),
    Helper(
        "sentence_at",
        "(where)",
        "the whole sentence of a hit or an offset",
        brief="the sentence of a hit or offset",
        example="print(sentence_at(hits[0]))",
        by_name=True,
    ),
    Helper(
        "around",
        "(where, lines=3)",
        "the whole lines around a hit or an offset, as text; around(hits) gives a list of texts, merged",
        brief="the lines around it",
        example="print(around(hits[0], lines=5))",
    ),
    Helper(
        "section_at",
        "(where)",
        "the message, heading, function, page or document of a hit or an offset",
        ("title", "kind", "start", "document", "path", "page", "message", "end", "text"),
        brief="its message, heading, page or document: .title, .text, .start, .end",
        example=('section = section_at(hits[0])\nprint(section.title, count(r"refund", within=section))'),
    ),
    Helper(
        "rank",
        "(query, k=10, within=None)",
        "the k passages (packs) that fit the words of the query best (BM25, stemmed), best first; words in "
        "double quotes are a phrase",
        ("index", "start", "end", "score", "heading_path", "document", "text"),
        brief="the k packs (.text, .start) whose words fit best; others are missing",
        example=(
            'for pack in rank("early termination notice period", 5):\n'
            "    print(pack.start, pack.document, pack.text[:300])"
        ),
    ),
    Helper(
        "count",
        "(pattern, within=None)",
        "the exact number of matches of a regex in the whole input",
        brief="the exact number of matches",
        example='print(count(r"^ERROR"), count(r"(?i)refund", within=documents()[0]))',
    ),
    Helper(
        "read_lines",
        "(start=0, end=None, within=None)",
        "lines, lazily, each a str with these fields too",
        ("number", "start", "end", "text"),
        short="()",
        brief="all lines, lazily: each a str with .number, .start",
        example=(
            "from collections import Counter\n"
            'print(Counter(line.split()[1] for line in read_lines() if " " in line).most_common(5))'
        ),
    ),
    Helper(
        "read_records",
        "(within=None, typed=False)",
        "rows of JSONL, JSON arrays or CSV, or messages of chats, lazily; .value is the row's own dict; "
        "typed=True makes numbers and dates of CSV's texts",
        ("value", "start", "end"),
        short="()",
        brief="rows of JSONL, JSON or CSV, or messages of chats, lazily: .value is a dict",
        example=(
            'late = [row for row in read_records(typed=True) if row.value.get("days", 0) > 30]\n'
            "print(len(late), late[:1])"
        ),
    ),
    Helper(
        "tables",
        "()",
        "the tables of CSV, JSON, Markdown, workbooks and databases",
        ("name", "document", "rows", "columns", "start", "end"),
        brief="the tables of CSV, JSON, Markdown, workbooks and databases: .name, .columns",
        example=("for table in tables():\n    print(table.name, table.rows, table.columns)"),
    ),
    Helper(
        "sql",
        "(query, params=())",
        "one SELECT (SQLite) over the tables, for counts, sums, joins; a row is row['name'], and evidence",
        brief="one SELECT (SQLite) over them; a row is row['name'], and evidence",
        example=(
            'rows = sql("select status, count(*) n from orders group by status order by n desc")\n'
            "print(rows[:10])"
        ),
    ),
    Helper(
        "files",
        "(pattern=None)",
        "the documents as read-only paths, as in pathlib: .suffix, .read_text(), .open(), glob('**/*.py'); "
        "also a slice or within",
        brief="the documents as read-only paths",
        example="for path in files('**/*.py'):\n    print(path, len(path.read_text()))",
        by_name=True,
    ),
    Helper(
        "read_all",
        "()",
        "the whole input as one str, up to 20,000,000 characters",
        brief="the whole text as a str",
        example="text = read_all()\nprint(len(text))",
        by_name=True,
    ),
    Helper(
        "chunk",
        "(max_chars=None, overlap=0, by=None, within=None)",
        "full-coverage chunks, lazily, as large as a child takes unless max_chars is given; by='lines', "
        "'paragraphs', 'headings', 'messages' or 'documents' keeps such units whole where they fit",
        ("index", "start", "end", "text", "document"),
        short="(max_chars=None, by=None, within=None)",
        brief="chunks that cover it all: .text, .start, .end; by='paragraphs', 'headings', 'messages', …",
        example=(
            "chunks = chunk(max_chars=context_meta().recommended_chunk, by='paragraphs')\nprint(len(chunks))"
        ),
    ),
    Helper(
        "chunk_coverage",
        "(chunks, within=None)",
        "what the chunks cover",
        ("chunks", "input_chars", "covered_chars", "gaps", "complete"),
        short="(chunks)",
        brief="what they cover",
        example="print(chunk_coverage(chunks))",
        by_name=True,
    ),
    Helper(
        "sub_query",
        "(prompt, slice=..., sample=0, numbered=None, schema=None, check=None, model=None)",
        "one child reads one slice and answers. schema: types, a JSON Schema, a pydantic model or dataclass "
        "(.value is its instance); check(value, index) raises or returns what is wrong, and that child is "
        "asked once more",
        short="(prompt, slice, schema=None)",
        brief="one child reads one slice",
        example=(
            'answer = sub_query("Who signed, and when? Quote the line.", around(hits[0], lines=30))\n'
            "print(answer.found, answer.ok, answer)"
        ),
    ),
    Helper(
        "sub_query_batch",
        "(prompt, slices, on_error='keep', numbered=None, schema=None, check=None, model=None)",
        "one prompt over many independent slices, concurrently",
        short="(prompt, slices, schema=None)",
        brief="one prompt, many independent slices",
        example=(
            'answers = sub_query_batch("List every refund: date, amount, reason.", chunks,\n'
            "                          schema=list[dict[str, str]])\n"
            "print(len(answers.failed), [a.value for a in answers.found][:5])"
        ),
    ),
    Helper(
        "sub_query_map",
        "(prompts, slices=..., on_error='keep', numbered=None, schema=None, check=None, model=None)",
        "many prompts, each with its own slice if given, concurrently; a list like sub_query_batch's",
        short="(prompts, slices)",
        brief="a prompt for each slice",
        example='replies = sub_query_map([f"What does {name} ask for?" for name in names], slices)',
        by_name=True,
    ),
    Helper(
        "sub_query_sequence",
        "(prompt, slices, carry_prompt=None, model=None)",
        "dependent steps, one child after another: each reads its slice and the last one's answer "
        "(carry_prompt, if given, is the prompt from the second step on); a list of all answers",
        short="(prompt, slices)",
        brief="each child also gets the last one's answer",
        example=(
            'steps = sub_query_sequence("Continue the list of who has the key, in order.", chunks)\n'
            "print(steps[-1])"
        ),
        by_name=True,
    ),
    Helper(
        "look",
        "(pages, prompt, schema=None, check=None)",
        "a child sees pages of a PDF, or pictures: documents()[i].page(n), (document name, n), a hit or span "
        "there; for a list, one child each. Scans and drawings hold no text to search; evidence is the "
        "answer itself",
        needs_pages=True,
        short="(pages, prompt)",
        brief="a child sees pages or pictures",
        example=(
            'seen = look(documents()[0].page(3), "Which total does the invoice show?")\n'
            'finalize(f"{seen} [1].", evidence=[seen])'
        ),
    ),
    Helper(
        "merge",
        "(answers, key=None)",
        "the items of a batch with schema=, each once (key: a field, several, or a function), with .spans "
        "and .conflicts",
        brief="the items of a batch with schema=, each once",
        example=(
            'items = merge(answers, key=("date", "amount"))\n'
            "print(len(items), [(one.spans, one.conflicts) for one in items[:3]])"
        ),
        by_name=True,
    ),
    Helper(
        "sub_rlm",
        "(prompt, source=..., model=None)",
        "a whole RLM like you, with a kernel and a handle of its own over source (a slice, of any size; "
        "none: an empty handle); answers like a child, with .value when it finalised no text",
        short="(prompt, source)",
        brief="an RLM like you, for a part that needs its own search and code",
        example=(
            'part = sub_rlm("Which appendix changed most, and how?", documents()[1])\n'
            "print(part.how, part, part.evidence)"
        ),
    ),
    Helper(
        "sub_rlm_batch",
        "(prompts, sources=..., model=None)",
        "several of these, concurrently; a list like sub_query_batch's",
        short="(prompts, sources)",
        brief="several of these",
        example='parts = sub_rlm_batch(["List its parties."] * 2, documents()[:2])',
        by_name=True,
    ),
    Helper(
        "help",
        "(what=None)",
        "how a helper or a tool is called, what it returns, and an example; without `what` all of them",
        brief="arguments, result, limits and an example of any of these, such as help(search)",
        example="help(search)",
        on_demand=True,
    ),
    Helper(
        "SHOW_VARS",
        "()",
        "your variables and their types",
        brief="your variables",
        example="print(SHOW_VARS())",
        by_name=True,
    ),
    Helper(
        "repl_set",
        "(name, value)",
        "set a variable by name",
        brief="set a variable by name",
        example='repl_set("total", 12)',
        by_name=True,
    ),
    Helper(
        "repl_get",
        "(name, default=None)",
        "get a variable by name",
        short="(name)",
        brief="get one",
        example='print(repl_get("total", 0))',
        by_name=True,
    ),
    Helper(
        "output_of",
        "(round)",
        "the whole of what an earlier round's block printed",
        brief="all that a round printed",
        example="print(output_of(2)[-2000:])",
        by_name=True,
    ),
    Helper(
        "evaluate_progress",
        "()",
        "what is used, left and reserved of every limit, and what of the input was covered",
        ("has_final_answer", "variables", "limits", "coverage"),
        brief="limits left, and coverage",
        example="print(evaluate_progress()['limits'])",
        by_name=True,
    ),
    Helper(
        "finalize",
        "(value, confidence=None, evidence=None)",
        "end the run with value",
        brief="end the run",
        example='finalize("The fee is 4% [1].", confidence="high", evidence=hits[:1])',
    ),
)


_READING = frozenset(
    {"peek", "search", "quote", "around", "section_at", "read_lines", "read_records", "rank", "chunk"}
)
_ASKING = frozenset(
    {
        "sub_query",
        "sub_query_batch",
        "sub_query_map",
        "sub_query_sequence",
        "look",
        "sub_rlm",
        "sub_rlm_batch",
    }
)

NOTES: tuple[Note, ...] = (
    Note(
        'Read fields as `h["start"]` or `h.start`. Offsets are characters of the whole text, '
        "0-based, end-exclusive. Lines are 0-based, too.",
        _READING,
    ),
    Note(
        "Offsets out of range are clamped, negative offsets count from the end, and an oversized "
        "request raises an error that names the right way.",
        _READING,
    ),
    Note(
        "A list of hits is cut at `max_hits` and says so in `.truncated`; `.total` and "
        "`count(pattern)` are exact. Never take the length of a hit list for a count.",
        frozenset({"search", "count"}),
    ),
    Note(
        "Without an exact pattern, `rank(query, k)` returns the packs (about 1,000 characters each) "
        'that match the query\'s words best. It leaves others out: for "all" or "how many", search '
        "or read.",
        frozenset({"rank"}),
    ),
    Note(
        "A child's answer is a `str` with .ok, .found, .error, .span, .usage, .cached, .grounded, "
        "and .value when you passed `schema=`. `.found` is false if its slice lacks what you asked, "
        "or it had none (then `.grounded` is false, too). A failed call or empty slice in a batch "
        "gives '' with `.ok` false.",
        _ASKING,
    ),
    Note(
        "A batch returns its answers in slice order, with `.failed`, `.found` and `.joined()`: the "
        "found answers, each under its source. Any number is fine.",
        _ASKING,
    ),
    Note(
        "A slice is a chunk, a hit, a pack, the text of a `peek`, `(start, end)`, a `str`, or a "
        "list of these. A hit stands for its lines, with its context. A slice too large for a child "
        "raises before any spend and names a size that fits.",
        _ASKING,
    ),
    Note(
        "If a part of the task needs its own search and computation over much text, call "
        "`sub_rlm(prompt, source)`: an RLM like you that knows only these two. Its `.evidence` are "
        "spans you can finalize with; `.how` is 'rlm', or 'child' if one plain child answered "
        "instead.",
        frozenset({"sub_rlm", "sub_rlm_batch"}),
        "recurse",
    ),
    Note(
        "Finish only with `finalize(value, confidence=None, evidence=None)`. `value` is JSON-safe; "
        "confidence is 'low', 'medium', 'high' or a number from 0 to 1; evidence is a list of hits "
        "(each is quoted as its line), packs, chunks, spans or exact quotes, and in a text each "
        "sentence ends with the numbers of the evidence for all it says: [1] is the first. What "
        "stands in quotation marks is word for word. You may finalize in the block that computes "
        "the answer, under a condition; print in the other branch, as what a finalizing block "
        "prints you never see.",
        frozenset({"finalize"}),
        "rules",
    ),
)

NAMES: tuple[str, ...] = tuple(helper.name for helper in HELPERS)

YIELDING = frozenset({"tables", "sql", "files", "help"})
"""Helpers whose names are common words. A variable of a cell or a tool of the host may take them."""
