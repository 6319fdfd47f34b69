"""`read_document` returns the current version of whole documents by source, in pieces."""

import msgspec
import pytest

from calling import RICHARD, ask, call
from local2.bus.connection import Connection

PARAGRAPH = "Osmium is the densest of the metals that are found on Earth, and it is rare. " * 9
TEXT = "\n\n".join(f"# Part {number}\n\n{PARAGRAPH}" for number in range(12))
SOURCE = "docs/metals.md"
EVE = msgspec.structs.replace(RICHARD, user="eve")

pytestmark = pytest.mark.usefixtures("tools")


async def store(bus: Connection, content: str = TEXT, source: str = SOURCE) -> None:
    await call(bus, "add_document", {"title": "Metals", "source": source, "content": content})


async def test_pieces_add_up_to_the_whole_document_for_every_user(bus: Connection) -> None:
    await store(bus)
    read, offset = "", 0
    while True:
        args = {"source": SOURCE, "offset": offset, "limit": 2_000}
        piece = await call(bus, "read_document", args, EVE)
        assert piece["title"] == "Metals"
        read += piece["content"]
        if (offset := piece["next_offset"]) is None:
            break

    assert len(read) == piece["total_chars"]
    assert read.split() == TEXT.split()


async def test_a_document_is_read_on_behind_a_nul(bus: Connection) -> None:
    await store(bus, "A page\0break, and then more.")

    piece = await call(bus, "read_document", {"source": SOURCE})

    assert piece["content"] == "A page\0break, and then more."


async def test_the_current_version_is_read(bus: Connection) -> None:
    await store(bus)
    await store(bus, "Only this is left.")
    await store(bus, "Another.", source=f"{SOURCE}#2")

    assert (await call(bus, "read_document", {"source": SOURCE}))["content"] == "Only this is left."


async def test_past_the_end_there_is_nothing(bus: Connection) -> None:
    await store(bus, "Short.")
    piece = await call(bus, "read_document", {"source": SOURCE, "offset": 100})

    assert (piece["content"], piece["next_offset"]) == ("", None)


@pytest.mark.parametrize("source", ["elsewhere", "docs/metals", "docs/%", f"{SOURCE}#1"])
async def test_an_unknown_source_is_refused(bus: Connection, source: str) -> None:
    await store(bus)
    refused = await ask(bus, "read_document", {"source": source})

    assert refused.error is not None
    assert refused.error.code == "invalid_arguments"
    assert "there is no document" in refused.error.message
