"""How many questions in other languages find their fact: by words alone, and with an embedder.

`data/languages.yaml` has the same 32 facts and questions in five languages. Each language has its
own user, who is asked in it; then the English user is asked in the others. Words alone are what
remains when the embedder cannot be reached. Any embedder other than MiniLM runs in Ollama.
"""

import argparse
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path

import msgspec
import uvloop

from harness.client import Asker, asking, request_as
from harness.processes import BENCHMARKS, running_stack
from harness.report import Figure, print_figures
from local2.config_files import read_yaml_file

DATA = BENCHMARKS / "data" / "languages.yaml"
MODEL = "multilingual-e5-small"
NOBODY = "http://127.0.0.1:9"
TOP_K = 20
ENGLISH = "en"
BY_WORDS = 0.6
"""Minimum share of a language's questions with their fact in the first five, by words alone."""

Facts = list[dict[str, tuple[str, str]]]
"""A fact, and a question that it answers, by language."""


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--ollama", metavar="URL", help="also ask with an embedder of this server")
    parser.add_argument("--model", default=MODEL, help="which")
    parser.add_argument("--json", action="store_true", help="print one JSON object")
    chosen = parser.parse_args()
    facts = msgspec.convert(read_yaml_file(DATA), Facts)
    figures: list[Figure] = []
    for finder, environment in environments(chosen.ollama, chosen.model).items():
        figures += uvloop.run(measure(finder, environment, facts))
    print_figures(__doc__, figures, as_json=chosen.json)


def environments(ollama: str | None, model: str) -> dict[str, Mapping[str, str]]:
    """Return the ways to search, and the environment of a stack for each."""
    of_ollama = {"LOCAL2_MEMORY__EMBEDDER": "ollama", "LOCAL2_MEMORY__EMBEDDING_MODEL": model}
    found: dict[str, Mapping[str, str]] = {
        "words": {**of_ollama, "LOCAL2_MEMORY__OLLAMA_URL": NOBODY},
        "minilm": {"LOCAL2_MEMORY__EMBEDDER": "minilm"},
        "minilm+e5": {"LOCAL2_MEMORY__EMBEDDER": "minilm+e5"},
    }
    if ollama:
        found[model] = {**of_ollama, "LOCAL2_MEMORY__OLLAMA_URL": ollama}
    return found


async def measure(finder: str, environment: Mapping[str, str], facts: Facts) -> list[Figure]:
    alone = finder == "words"
    with tempfile.TemporaryDirectory() as folder:
        async with (
            running_stack(Path(folder), environment=environment) as url,
            asking(url) as asker,
        ):
            for fact in facts:
                for language, (text, _) in fact.items():
                    args = {"content": text, "scope": "user"}
                    await asker.tool("remember_fact", request_as(language, **args))
            if not alone:
                await asker.all_indexed()
            pairs = [(language, language) for language in facts[0]]
            if not alone:
                pairs += [(ENGLISH, language) for language in facts[0] if language != ENGLISH]
            figures: list[Figure] = []
            for told, asked in pairs:
                places = [await place(asker, told, fact[told][0], fact[asked][1]) for fact in facts]
                figures += figures_of(finder, told, asked, places)
    return figures


async def place(asker: Asker, user: str, fact: str, question: str) -> int:
    """Return the rank of the fact, from 0; TOP_K if it was not found."""
    found = [item.content for item in await asker.recall(question, user=user, top_k=TOP_K)]
    return found.index(fact) if fact in found else TOP_K


def figures_of(finder: str, told: str, asked: str, places: Sequence[int]) -> list[Figure]:
    about = f"{finder}: {asked}" if told == asked else f"{finder}: {told} asked in {asked}"
    key = f"{finder}_{told}_{asked}"
    at = {k: [sum(place < k for place in places) / len(places)] for k in (1, 5)}
    return [
        Figure(key=f"{key}_at_1", about=f"{about}, first", blocks=at[1]),
        Figure(
            key=f"{key}_at_5",
            about=f"{about}, in the first 5",
            blocks=at[5],
            at_least=BY_WORDS if finder == "words" else None,
        ),
    ]
