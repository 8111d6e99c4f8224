"""The list of helpers: it fills the kernel's namespace, the root's system prompt and the docs.

Pure data. `signature` is that of the callable; `summary` is one line for the model; `fields` are the keys of
the records that it returns.
"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Helper:
    """One name a cell can call."""

    name: str
    signature: str
    summary: str
    fields: tuple[str, ...] = ()
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
    ),
    Helper(
        "documents",
        "()",
        "the files of the input (where there are any: .pages and .messages are how many, .parts the works "
        "in one file)",
        ("index", "name", "kind", "start", "end"),
    ),
    Helper(
        "peek",
        "(start, end=None, unit='chars')",
        "a slice by characters or by lines (unit='lines'), or peek(hit); up to 100,000 characters; a str "
        "that remembers its .span",
    ),
    Helper(
        "search",
        "(pattern, max_hits=100, context=120, within=None)",
        "regex search, MULTILINE, in linear time ((?i) ignores case); a list of hits; within, here and "
        "below: a span, hit, section or document (name)",
        ("index", "start", "end", "line", "match", "snippet", "line_text", "document"),
    ),
    Helper(
        "quote",
        "(text, within=None)",
        "the place that reads as text, a str with .span; if none, the error names the nearest",
    ),
    Helper("sentence_at", "(where)", "the whole sentence of a hit or an offset"),
    Helper(
        "around",
        "(where, lines=3)",
        "the whole lines around a hit or an offset, as text; around(hits) gives a list of texts, merged",
    ),
    Helper(
        "section_at",
        "(where)",
        "the message, heading, function, page or document of a hit or an offset",
        ("title", "kind", "start", "document", "path", "page", "message", "end", "text"),
    ),
    Helper(
        "rank",
        "(query, k=10, within=None)",
        "the k passages (packs) that fit the words of the query best (BM25, stemmed), best first; words in "
        "double quotes are a phrase",
        ("index", "start", "end", "score", "heading_path", "document", "text"),
    ),
    Helper("count", "(pattern, within=None)", "the exact number of matches of a regex in the whole input"),
    Helper(
        "read_lines",
        "(start=0, end=None, within=None)",
        "lines, lazily, each a str with these fields too",
        ("number", "start", "end", "text"),
    ),
    Helper(
        "read_records",
        "(within=None, typed=False)",
        "rows of JSONL, JSON arrays or CSV, or messages of chats, lazily; .value is the row's own dict; "
        "typed=True makes numbers and dates of CSV's texts",
        ("value", "start", "end"),
    ),
    Helper(
        "tables",
        "()",
        "these and Markdown's tables",
        ("name", "document", "rows", "columns", "start", "end"),
    ),
    Helper(
        "sql",
        "(query, params=())",
        "one SELECT (SQLite) over the tables, for counts, sums, joins; its rows are evidence, too",
    ),
    Helper(
        "files",
        "(pattern=None)",
        "the documents as read-only paths, as in pathlib: .suffix, .read_text(), .open(), glob('**/*.py'); "
        "also a slice or within",
    ),
    Helper("read_all", "()", "the whole input as one str, up to 20,000,000 characters"),
    Helper(
        "chunk",
        "(max_chars=None, overlap=0, by=None, within=None)",
        "full-coverage chunks, lazily, as large as a child takes unless max_chars is given; by='lines', "
        "'paragraphs', 'headings', 'messages' or 'documents' keeps such units whole where they fit",
        ("index", "start", "end", "text", "document"),
    ),
    Helper(
        "chunk_coverage",
        "(chunks, within=None)",
        "what the chunks cover",
        ("chunks", "input_chars", "covered_chars", "gaps", "complete"),
    ),
    Helper(
        "sub_query",
        "(prompt, slice=..., sample=0, numbered=None, schema=None, check=None, model=None)",
        "one child reads one slice and answers. schema: types, a JSON Schema, a pydantic model or dataclass "
        "(.value is its instance); check(value, index) raises or returns what is wrong, and that child is "
        "asked once more",
    ),
    Helper(
        "sub_query_batch",
        "(prompt, slices, on_error='keep', numbered=None, schema=None, check=None, model=None)",
        "one prompt over many independent slices, concurrently",
    ),
    Helper(
        "sub_query_map",
        "(prompts, slices=..., on_error='keep', numbered=None, schema=None, check=None, model=None)",
        "many prompts, each with its own slice if given, concurrently; a list like sub_query_batch's",
    ),
    Helper(
        "sub_query_sequence",
        "(prompt, slices, carry_prompt=None, model=None)",
        "dependent steps, one child after another: each reads its slice and the last one's answer "
        "(carry_prompt, if given, is the prompt from the second step on); a list of all answers",
    ),
    Helper(
        "look",
        "(pages, prompt, schema=None, check=None)",
        "a child sees pages of a PDF, or pictures: documents()[i].page(n), (document name, n), a hit or span "
        "there; for a list, one child each. Scans and drawings hold no text to search; evidence is the "
        "answer itself",
        needs_pages=True,
    ),
    Helper(
        "merge",
        "(answers, key=None)",
        "the items of a batch with schema=, each once (key: a field, several, or a function), with .spans "
        "and .conflicts",
    ),
    Helper(
        "sub_rlm",
        "(prompt, source=..., model=None)",
        "a whole RLM like you, with a kernel and a handle of its own over source (a slice, of any size; "
        "none: an empty handle); answers like a child, with .value when it finalised no text",
    ),
    Helper(
        "sub_rlm_batch",
        "(prompts, sources=..., model=None)",
        "several of these, concurrently; a list like sub_query_batch's",
    ),
    Helper("SHOW_VARS", "()", "your variables and their types"),
    Helper("repl_set", "(name, value)", "set a variable by name"),
    Helper("repl_get", "(name, default=None)", "get a variable by name"),
    Helper("output_of", "(round)", "the whole of what an earlier round's block printed"),
    Helper(
        "evaluate_progress",
        "()",
        "what is used, left and reserved of every limit, and what of the input was covered",
        ("has_final_answer", "variables", "limits", "coverage"),
    ),
    Helper(
        "finalize",
        "(value, confidence=None, evidence=None)",
        "end the run with value",
    ),
)

NAMES: tuple[str, ...] = tuple(helper.name for helper in HELPERS)

YIELDING = frozenset({"tables", "sql", "files"})
"""Helpers whose names are common words. A variable of a cell or a tool of the host may take them."""

ARGUMENT_ALIASES: dict[str, tuple[str, ...]] = {
    "pattern": ("query", "regex"),
    "max_hits": ("limit", "n", "k", "top_k", "max", "max_results", "max_matches"),
    "context": ("window", "context_chars"),
    "lines": ("window", "context", "n", "line_count"),
    "where": ("hit", "hits", "offset", "position", "place", "span"),
    "text": ("quote", "passage", "sentence"),
    "within": ("where", "document", "span", "section", "inside", "region"),
    "query": ("pattern", "text", "question", "statement"),
    "k": ("n", "top_k", "limit", "max_hits", "max_results"),
    "max_chars": ("size", "chunk_size", "chunk_chars", "max_size"),
    "by": ("unit", "split_by"),
    "pages": ("page", "slice", "slices", "document", "image", "images"),
    "answers": ("results", "findings", "items"),
    "key": ("by", "keys"),
    "params": ("parameters", "args", "values"),
    "prompt": ("question", "query", "task"),
    "slice": ("text", "context", "chunk", "source"),
    "slices": ("chunks", "texts", "contexts", "items"),
    "prompts": ("questions", "queries", "tasks"),
    "source": ("text", "context", "slice"),
    "sources": ("texts", "contexts", "slices"),
    "value": ("answer", "result"),
    "evidence": ("citations", "quotes", "sources"),
}
"""Names that models use instead of a parameter's own. A guessed name is accepted if it stands for exactly one
parameter of the helper that is not given otherwise."""
