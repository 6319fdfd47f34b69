"""Documents: what was stored for everybody, and the chunks in which searches find it."""

import re
from functools import partial

from nicegui import ui

from local2.protocol.documents import (
    MAX_DOCUMENTS,
    DocumentEntry,
    DocumentsPage,
    ListChunks,
    ListDocuments,
)
from local2.protocol.services import LIST_CHUNKS, LIST_DOCUMENTS
from local2.web.pages.frame import (
    ChoiceList,
    Pager,
    Viewer,
    counted,
    empty,
    opener,
    section,
    text,
    when,
)
from local2.web.pages.memory_drawer import open_memory

PAGE_SIZE = 50


async def show(viewer: Viewer) -> None:
    await DocumentsView(viewer).show()


class DocumentsView:
    """The list of documents, and the chunks of one of them."""

    def __init__(self, viewer: Viewer) -> None:
        self._viewer = viewer

    async def show(self) -> None:
        page = await self._documents(None)
        if not page.documents:
            empty(
                "o_description",
                "There are no documents yet.",
                "Add some with `local2 add-document FILE`, or let an agent do it (`add_document`).",
            )
            return
        with ui.element("div").classes("list-and-detail"):
            self._list = ChoiceList[str]()
            self._place = ui.element("div").classes("page-content").props("data-rows")
        self._add_documents(page)
        await self._open(self._viewer.query.get("source") or page.documents[0].source)
        self._viewer.on_return = self._load

    async def _documents(self, after: str | None) -> DocumentsPage:
        """As many documents as a page has, in the order in which people count: 2 before 10."""

        def with_long_numbers(document: DocumentEntry) -> str:
            return re.sub(r"\d+", lambda number: number[0].zfill(20), document.source.casefold())

        wanted = ListDocuments(limit=MAX_DOCUMENTS, after=after)
        page = await self._viewer.calls.ask_service(LIST_DOCUMENTS, wanted)
        page.documents.sort(key=with_long_numbers)
        return page

    def _add_documents(self, page: DocumentsPage) -> None:
        with self._list.element:
            for document in page.documents:
                with self._list.add(document.source, partial(self._open, document.source)):
                    text("span", document.title).classes("cut-text")
                    if document.source != document.title:
                        text("span", document.source).classes("cut-text quiet")
                    with ui.element("span").classes("row-of quiet"):
                        when(document.newest)
                        text("span", counted(document.chunks, "chunk"))
            if page.next is not None:

                async def add_more() -> None:
                    more.delete()
                    self._add_documents(await self._documents(page.next))

                more = ui.button("More", on_click=add_more).props("flat")

    async def _open(self, source: str) -> None:
        self._source = source
        self._pager = Pager[int](self._load, before="Before", after="After")
        self._viewer.set_address(source=source)
        await self._load()

    async def _load(self) -> None:
        offset = self._pager.cursor or 0
        self._wanted = wanted = ListChunks(source=self._source, offset=offset, limit=PAGE_SIZE)
        page = await self._viewer.calls.ask_service(LIST_CHUNKS, wanted)
        if wanted is not self._wanted:  # something else was chosen meanwhile
            return
        self._list.choose(self._source)
        self._place.clear()
        with self._place, section(self._source, counted(page.total, "chunk")):
            if not page.chunks:
                text("p", "There is no such document any more.")
            for number, chunk in enumerate(page.chunks, start=offset + 1):
                with ui.element("article").classes("chunk").props("data-place"):
                    with ui.element("div").classes("row-of quiet"):
                        text("span", f"{number}.")
                        text("span", chunk.label or "")
                        when(chunk.event_time)
                    opened = partial(open_memory, self._viewer, chunk.id, self._load)
                    opener(chunk.content, "whole-text", opened)
            end = offset + len(page.chunks)
            self._pager.show(end if end < page.total else None)
