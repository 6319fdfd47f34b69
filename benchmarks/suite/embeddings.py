"""Texts embedded a second by an OpenAI-compatible endpoint, against the endpoint alone.

The endpoint is the tests' stand-in in a separate process. For the baseline, the same batches are
sent to it over one connection, and its answers are received and discarded.
"""

import asyncio
import tempfile
import time
from functools import partial
from pathlib import Path

import httpx
import msgspec

from harness.client import alternating
from harness.processes import BENCHMARKS, IMPORTS, POLL, child
from harness.report import Figure, a_second, ratio, run
from harness.texts import notes
from local2.endpoint.address import Endpoint
from local2.vectors.served import OpenAIEmbedder

SERVER = BENCHMARKS / "harness" / "endpoint_server.py"
MODEL = "nomic-embed-text"
BLOCKS = 15
TEXTS = 320
BATCH = 32


async def measure() -> list[Figure]:
    texts = sorted(notes(TEXTS, seed=1), key=len)
    with tempfile.TemporaryDirectory() as folder:
        log = Path(folder) / "endpoint.log"
        async with child(SERVER, "0", log=log, environment=IMPORTS) as server:
            while not (url := log.read_text(encoding="utf-8").strip()):
                assert server.returncode is None
                await asyncio.sleep(POLL)
            embedder = OpenAIEmbedder(Endpoint(url=url, settings="none"), MODEL, batch=BATCH)
            with httpx.Client() as bare:
                ours, base = await alternating(
                    BLOCKS,
                    partial(asyncio.to_thread, by_embedder, embedder, texts),
                    partial(asyncio.to_thread, alone, bare, url, texts),
                )
            embedder.close()
    return [
        ratio("rate_ratio", "texts a second: embedder / endpoint", ours, base, at_least=0.9),
        a_second("embedder_per_second", "embedder", ours),
        a_second("endpoint_per_second", "endpoint alone", base),
    ]


def by_embedder(embedder: OpenAIEmbedder, texts: list[str]) -> float:
    begun = time.perf_counter()
    embedded = sum(len(positions) for positions, _ in embedder.embed_documents(texts))
    assert embedded == len(texts)
    return len(texts) / (time.perf_counter() - begun)


def alone(client: httpx.Client, url: str, texts: list[str]) -> float:
    """Send the same requests directly, with the prefix that the embedder adds."""
    begun = time.perf_counter()
    for start in range(0, len(texts), BATCH):
        batch = [f"search_document: {text}" for text in texts[start : start + BATCH]]
        body = {"model": MODEL, "input": batch, "encoding_format": "base64"}
        answer = client.post(f"{url}/embeddings", content=msgspec.json.encode(body))
        assert answer.is_success
    return len(texts) / (time.perf_counter() - begun)


def main() -> None:
    run(__doc__, measure)
