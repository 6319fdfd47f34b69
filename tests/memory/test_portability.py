"""What an export of one scope restores, as its caller sees it."""

import msgspec

from local2.memory.service import MemoryService
from local2.protocol.items import ItemPut, PutItems, SearchItems
from local2.protocol.maintenance import ExportRequest


async def test_the_items_of_an_exported_session_are_found_where_it_is_imported(
    richard: MemoryService,
) -> None:
    text = "Osmium is the densest metal."
    put = ItemPut(namespace=("metals",), key="one", value=msgspec.Raw(b"1"), text=text)
    await richard.items.put(PutItems(collection="app", items=[put]))
    lines: list[bytes] = []
    cursor = None
    while not lines or cursor is not None:
        page = await richard.portability.export(ExportRequest(scope="session", cursor=cursor))
        lines += [bytes(line) for line in page.lines]
        cursor = page.cursor
    every = richard.erasure.selection(everything=True)
    await richard.erasure.erase(every, allow_again=True)

    await richard.portability.import_lines(lines)

    found = await richard.items.search(SearchItems(collection="app", query="densest metal"))
    assert [(item.key, item.score is not None) for item in found.items] == [("one", True)]
