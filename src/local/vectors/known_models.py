"""What embedding models want before a text, and how near unrelated texts lie, as their cards say.

A model that is not listed gets its texts as they are; `document_prefix`, `query_prefix`,
`cosine_floor` and `min_score` in config/memory.yaml say otherwise of the configured one.
"""

import re

import msgspec

DEFAULT_MIN_SCORE = 0.3
"""Where nobody measured. Fits models whose cosines of unrelated texts lie about 0."""
INSTRUCTION = (
    "Instruct: Given a web search query, retrieve relevant passages that answer the query\n"
)


class KnownModel(msgspec.Struct, frozen=True):
    name: str
    document_prefix: str = ""
    query_prefix: str = ""
    dimensions: int | None = None
    """Of its vectors unless somebody shortens them; None: it has several sizes, or is unknown."""
    min_score: float = DEFAULT_MIN_SCORE
    """The cosine below which a hit is noise; where there is a floor, of what lies above it."""
    floor: float = 0.0
    """The cosine of unrelated texts, where that is far from 0: what lies above it counts, as a
    share of what can."""


E5 = ("passage: ", "query: ")
E5_FLOOR = 0.72
"""Measured with -small, in five languages (docs/recall.md); all are trained to lie in 0.7 to 1."""
E5_MIN_SCORE = 0.2
KNOWN_MODELS = (
    KnownModel("all-minilm", dimensions=384, min_score=0.2),  # measured (docs/performance.md)
    KnownModel("nomic-embed-text", "search_document: ", "search_query: ", 768),
    KnownModel("bge-m3", dimensions=1024),
    KnownModel("embeddinggemma", "title: none | text: ", "task: search result | query: ", 768),
    KnownModel("qwen3-embedding", query_prefix=f"{INSTRUCTION}Query:"),
    KnownModel("multilingual-e5-small", *E5, 384, E5_MIN_SCORE, E5_FLOOR),
    KnownModel("multilingual-e5-base", *E5, 768, E5_MIN_SCORE, E5_FLOOR),
    KnownModel("multilingual-e5-large", *E5, 1024, E5_MIN_SCORE, E5_FLOOR),
    KnownModel(
        "multilingual-e5-large-instruct",
        "",
        f"{INSTRUCTION}Query: ",
        1024,
        E5_MIN_SCORE,
        E5_FLOOR,
    ),
    KnownModel("text-embedding-3-small", dimensions=1536),
    KnownModel("text-embedding-3-large", dimensions=3072),
    KnownModel(
        "mxbai-embed-large",
        query_prefix="Represent this sentence for searching relevant passages: ",
        dimensions=1024,
    ),
)
"""Nobody has measured a `min_score` or a floor here but where a comment says so."""


def known(name: str) -> KnownModel:
    """What is known of a model, whatever vendor stands before its name and what tag behind."""
    fitting = [
        model
        for model in KNOWN_MODELS
        if re.search(rf"\b{re.escape(model.name)}(?![^\W_])", name.lower())
    ]
    return max(fitting, key=lambda model: len(model.name), default=KnownModel(name))
