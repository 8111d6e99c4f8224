"""What kind of text a file holds, judged by its name."""

from __future__ import annotations

from pathlib import PurePath

__all__ = ["kind_of"]

_KINDS = {
    "markdown": ".md .markdown .mdown .mkd .mdx .qmd .rmd",
    "csv": ".csv .tsv .tab",
    "json": ".json .geojson .ipynb .webmanifest",
    "jsonl": ".jsonl .ndjson .jsonlines",
    "html": ".html .htm .xhtml",
    "code": (
        ".py .pyi .pyx .js .mjs .cjs .jsx .ts .mts .cts .tsx .c .h .cc .cpp .cxx .hh .hpp .hxx .rs .go "
        ".java .kt .kts .scala .swift .m .mm .cs .fs .vb .rb .php .pl .pm .lua .r .jl .hs .ml .mli .ex .exs "
        ".erl .clj .lisp .el .scm .sh .bash .zsh .fish .ps1 .bat .sql .zig .nim .d .dart .groovy .gradle "
        ".proto .cu .asm .s .vim .tf .vue .svelte"
    ),
}
_BY_SUFFIX = {suffix: kind for kind, suffixes in _KINDS.items() for suffix in suffixes.split()}


def kind_of(name: str) -> str:
    """markdown, csv, json, jsonl, html, code, else text: by the suffix of `name`, in any case."""
    return _BY_SUFFIX.get(PurePath(name).suffix.lower(), "text")
