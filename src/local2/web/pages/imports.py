"""Import: what people bring from elsewhere, by uploading a file."""

import asyncio
from contextlib import AsyncExitStack
from pathlib import Path
from tempfile import TemporaryDirectory

from nicegui import ui
from nicegui.events import UploadEventArguments

from local2.errors import InvalidArgumentsError, Local2Error
from local2.sources.importer import Importer
from local2.sources.opening import TITLES, opened
from local2.web.pages.frame import Disclosure, Viewer, notify_of_error, section, stay, text
from local2.web.pages.signing_in import MAX_UPLOAD

SHOWN_SECONDS = 0.5
"""Seconds between two looks at the progress."""
SHOWN_NAMES = 20
WHAT = (
    "The export of ChatGPT, Claude, mem0 or Hindsight, as you downloaded it; messages in JSON "
    "lines; or a document: Markdown, text, HTML, PDF, DOCX, or a zip archive of them."
)
AGAIN = "Importing a file again stores nothing twice, so a newer export adds only what is new."


async def show(viewer: Viewer) -> None:
    ImportPage(viewer).show()
    viewer.on_return = stay


class ImportPage:
    """One viewer's uploads, one at a time."""

    def __init__(self, viewer: Viewer) -> None:
        self._viewer = viewer

    def show(self) -> None:
        with section("Bring a file", WHAT):
            text("p", AGAIN).classes("quiet")
            # Quasar's own element cannot be used with a screen reader: it stays hidden.
            self._upload = ui.upload(
                max_file_size=MAX_UPLOAD,
                auto_upload=True,
                on_upload=self._receive,
                on_rejected=self._refuse,
            ).style("display: none")
            pick = f"() => runMethod({self._upload.id}, 'pickFiles', [])"
            with ui.element("div").classes("row-of"):
                self._choose = ui.button("Choose a file", icon="o_upload_file")
            self._choose.on("click", js_handler=pick)
        self._outcome = ui.element("div").props("role=status")

    def _refuse(self) -> None:
        notify_of_error(
            InvalidArgumentsError(
                f"The file has more than {MAX_UPLOAD // 1_000_000} MB.",
                remedy="Import it in a terminal: `local2 import FILE`.",
            )
        )

    async def _receive(self, event: UploadEventArguments) -> None:
        """Import an uploaded file. It goes on if the page is closed meanwhile."""
        file = event.file
        self._upload.reset()
        self._outcome.clear()
        self._choose.disable()
        name = Path(file.name).name or "upload"
        async with AsyncExitStack() as resources:
            resources.callback(self._choose.enable)
            folder = resources.enter_context(TemporaryDirectory(prefix="local2-"))
            path = Path(folder) / name
            await file.save(path)
            source = await asyncio.to_thread(
                resources.enter_context, opened(path, place=f"upload/{name}")
            )
            if source.format == "local2":
                raise InvalidArgumentsError(
                    "This is an export of local2 itself.",
                    remedy="Import it in a terminal: `local2 import FILE`.",
                )
            sent = 0

            def count(number: int) -> None:
                nonlocal sent
                sent += number

            caller = await self._viewer.calls.caller_with_token()
            importer = Importer(source, caller, mine=True, on_sent=count)
            with self._outcome, section(f"{name}: {TITLES[source.format]}") as place:
                bar = ui.linear_progress(show_value=False).props('aria-label="Progress"')
                told = text("p", "Reading …").classes("quiet")

            def look() -> None:
                bar.value = source.bytes_read / max(source.total_bytes, 1)
                told.text = f"{sent:,} stored"

            with place:
                timer = ui.timer(SHOWN_SECONDS, look)
            problem: Local2Error | None = None
            try:
                await importer.run(await self._viewer.calls.bus())
            except Local2Error as error:
                problem = error
            timer.cancel()
            bar.delete()
            told.text = importer.report.summary()
            with place:
                if problem is not None:
                    text("p", str(problem)).props("role=alert")
                    text("p", "Import the file again to continue: nothing is stored twice.")
                for group in importer.report.left_out:
                    title = f"Left out: {group.count:,} ({group.reason})"
                    with Disclosure(title).content:
                        for left_out in group.names[:SHOWN_NAMES]:
                            text("p", left_out)
                        if (more := len(group.names) - SHOWN_NAMES) > 0:
                            text("p", f"… and {more:,} more.").classes("quiet")
