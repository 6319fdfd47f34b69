"""All pages, and the app that serves them: NiceGUI behind the door."""

import logging
from collections.abc import Awaitable, Callable
from http import HTTPStatus
from pathlib import Path

from fastapi import FastAPI
from nicegui import app as nicegui_app
from nicegui import ui
from starlette.requests import Request
from starlette.responses import RedirectResponse
from starlette.staticfiles import StaticFiles
from starlette.types import ASGIApp

from local2.client.stack_tools import StackTools
from local2.errors import Local2Error
from local2.logs import get_logger
from local2.protocol.envelope import Sender
from local2.settings import Settings
from local2.web.callers import claims_of
from local2.web.pages import ask, facts, imports, memories, overview, sessions, upkeep
from local2.web.pages.frame import Page, show_page
from local2.web.pages.signing_in import ASSETS_PATH, SIGN_IN_PATH, SIGN_OUT_PATH, Door, SignIn
from local2.web.pages.viewer import Viewer

PAGES: tuple[Page, ...] = (
    Page("/overview", "Overview", icon="o_speed", key="o", needs="status", show=overview.show),
    Page("/memories", "Memories", icon="o_notes", key="m", needs="browse", show=memories.show),
    Page("/ask", "Ask", icon="o_manage_search", key="a", needs="explain", show=ask.show),
    Page("/sessions", "Sessions", icon="o_forum", key="s", needs="browse", show=sessions.show),
    Page("/facts", "Facts", icon="o_fact_check", key="f", needs="browse", show=facts.show),
    Page("/import", "Import", icon="o_upload_file", key="i", needs="ingest", show=imports.show),
    Page("/upkeep", "Upkeep", icon="o_build", key="u", needs="audit", show=upkeep.show),
)
"""Every page, in the order of the navigation. The first one that a viewer may see is the front."""
ASSETS = Path(__file__).parent / "assets"
ACCENT = "#0f766e"
RECONNECT_SECONDS = 30.0
"""Seconds for which a page waits for its browser, for example while a laptop sleeps."""

log = get_logger()


def pages_app(link: StackTools, settings: Settings, sign_in: SignIn) -> ASGIApp:
    """The app with all pages, for those who have signed in."""

    def viewer_of(request: Request) -> Viewer:
        caller: Sender = request.scope["caller"]
        role = claims_of(caller.token).role or "writer" if caller.token else None
        return Viewer(link, settings, caller, role, dict(request.query_params))

    async def open_front(request: Request) -> RedirectResponse:
        shown = pages_for(viewer_of(request))
        return RedirectResponse(shown[0].path, HTTPStatus.SEE_OTHER)

    def builder_of(page: Page) -> Callable[[Request], Awaitable[None]]:
        async def build(request: Request) -> None:
            viewer = viewer_of(request)
            await show_page(page, pages_for(viewer), viewer)

        return build

    app = FastAPI(openapi_url=None)
    app.add_api_route("/", open_front)
    app.add_api_route(SIGN_IN_PATH, sign_in.sign_in, methods=["GET", "POST"])
    app.add_api_route(SIGN_OUT_PATH, sign_in.sign_out, methods=["POST"])
    app.mount(ASSETS_PATH, StaticFiles(directory=ASSETS))
    for page in PAGES:
        ui.page(page.path, title=f"{page.title} · local2")(builder_of(page))
    nicegui_app.config.quasar_config["loadingBar"] = {"skipHijack": True}  # it has no name
    logging.getLogger("nicegui").disabled = True  # it would also log what viewers are told
    nicegui_app.on_exception(_log_unexpected)
    nicegui_app.colors(primary=ACCENT)
    ui.button.default_props("unelevated no-caps")
    ui.run_with(
        app,
        title="local2",
        favicon=ASSETS / "mark.svg",
        dark=None,
        language="en-US",
        tailwind=False,
        reconnect_timeout=RECONNECT_SECONDS,
        gzip_middleware_factory=None,  # the browser is on this machine
        show_welcome_message=False,
    )
    return Door(app, sign_in)


def pages_for(viewer: Viewer) -> list[Page]:
    """The pages that a viewer may see."""
    return [page for page in PAGES if viewer.may(page.needs)]


def _log_unexpected(error: Exception) -> None:
    if not isinstance(error, Local2Error):  # viewers are told of those
        log.error("page_failed", exc_info=error)
