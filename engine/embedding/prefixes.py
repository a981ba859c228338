"""What embedding models want in front of questions and of passages. Tables only.

Their files do not say it; the words are from the models' own cards.
"""

from __future__ import annotations

from dataclasses import dataclass

_REPRESENT = "Represent this sentence for searching relevant passages: "
_INSTRUCT = (
    "Instruct: Given a web search query, retrieve relevant passages that answer the query\nQuery:"
)


@dataclass(frozen=True, slots=True)
class Prefixes:
    query: str = ""
    passage: str = ""


BY_ARCHITECTURE = {
    "nomic-bert": Prefixes("search_query: ", "search_document: "),
    "nomic-bert-moe": Prefixes("search_query: ", "search_document: "),
    "gemma-embedding": Prefixes("task: search result | query: ", "title: none | text: "),
}
BY_NAME = (
    ("qwen3-embedding", Prefixes(_INSTRUCT)),
    ("multilingual-e5", Prefixes("query: ", "passage: ")),
    ("e5-", Prefixes("query: ", "passage: ")),
    ("bge-m3", Prefixes()),
    ("bge-small-zh", Prefixes("为这个句子生成表示以用于检索相关文章：")),
    ("bge-base-zh", Prefixes("为这个句子生成表示以用于检索相关文章：")),
    ("bge-large-zh", Prefixes("为这个句子生成表示以用于检索相关文章：")),
    ("bge-", Prefixes(_REPRESENT)),
    ("mxbai-embed", Prefixes(_REPRESENT)),
    ("snowflake-arctic-embed-m-v2", Prefixes("query: ")),
    ("snowflake-arctic-embed-l-v2", Prefixes("query: ")),
    ("snowflake-arctic-embed", Prefixes(_REPRESENT)),
)
"""Parts of a model's or its file's name, in small letters with hyphens; the first that fits."""


def prefixes_for(architecture: str, *names: str) -> Prefixes:
    """None at all for a model that is not known."""
    for name in names:
        plain = name.lower().replace(" ", "-").replace("_", "-")
        for part, prefixes in BY_NAME:
            if part in plain:
                return prefixes
    return BY_ARCHITECTURE.get(architecture, Prefixes())
