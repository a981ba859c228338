"""Which reader a file's name asks for."""

from __future__ import annotations

from typing import Literal

Kind = Literal[
    "markdown", "markup", "text", "code", "csv", "json", "html", "pdf", "docx", "epub", "notebook"
]

SUFFIXES: dict[Kind, str] = {
    "markdown": ".md .markdown .mdown .mkd .mdx .qmd .rmd",
    "markup": ".rst .org .adoc .asciidoc .tex .latex",
    "csv": ".csv .tsv .tab",
    "json": ".json .jsonl .ndjson .geojson",
    "html": ".html .htm .xhtml",
    "pdf": ".pdf",
    "docx": ".docx .docm .dotx",
    "epub": ".epub",
    "notebook": ".ipynb",
    "code": (
        ".py .pyi .js .mjs .cjs .jsx .ts .tsx .c .h .cc .cpp .cxx .hh .hpp .cu .cs .go .rs .java"
        " .kt .kts .swift .scala .rb .php .pl .pm .lua .r .jl .m .mm .sh .bash .zsh .fish .ps1 .sql"
        " .hs .ml .mli .ex .exs .erl .clj .el .lisp .vim .dart .zig .nim .v .f90 .asm .s .proto"
        " .css .scss .less .vue .svelte .gradle .cmake .mk"
    ),
}
"""Everything else is plain text, if its content is text."""

_BY_SUFFIX: dict[str, Kind] = {
    suffix: kind for kind, suffixes in SUFFIXES.items() for suffix in suffixes.split()
}


def kind_of(suffix: str) -> Kind:
    """`suffix` in lower case, with its dot."""
    return _BY_SUFFIX.get(suffix, "text")
