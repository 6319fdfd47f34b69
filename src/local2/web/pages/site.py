"""All pages, and the app that serves them: NiceGUI behind the door."""

import logging
from collections.abc import Awaitable, Callable
from contextlib import suppress
from http import HTTPStatus
from pathlib import Path

from fastapi import FastAPI
from nicegui import app as nicegui_app
from nicegui import ui
from starlette.requests import Request
from starlette.responses import PlainTextResponse, RedirectResponse, Response
from starlette.staticfiles import StaticFiles
from starlette.types import ASGIApp

from local2.client.stack_tools import StackTools
from local2.errors import Local2Error
from local2.logs import get_logger
from local2.protocol.browsing import Rights
from local2.protocol.envelope import DEFAULT_TENANT, Sender
from local2.settings import Settings
from local2.web.pages import (
    accounts,
    ask,
    documents,
    facts,
    graph,
    imports,
    live,
    memories,
    overview,
    sessions,
    upkeep,
)
from local2.web.pages.frame import Page, Viewer, show_page
from local2.web.pages.links import SIGN_IN_PATH
from local2.web.pages.signing_in import (
    ASSETS_PATH,
    SIGN_OUT_PATH,
    Door,
    SignIn,
    plain_page,
)

PAGES: tuple[Page, ...] = (
    Page(
        "/overview",
        "Overview",
        "Whether the memory works, what it holds, and how it grows.",
        icon="o_speed",
        key="o",
        needs="status",
        show=overview.show,
    ),
    Page(
        "/memories",
        "Memories",
        "All that is remembered. Open a memory to see where it came from, or to change it.",
        icon="o_notes",
        key="m",
        needs="browse",
        show=memories.show,
    ),
    Page(
        "/ask",
        "Ask",
        "What a question finds when an agent asks it, and why.",
        icon="o_manage_search",
        key="a",
        needs="explain",
        show=ask.show,
    ),
    Page(
        "/sessions",
        "Sessions",
        "Conversations as they were, with what was recalled before each answer.",
        icon="o_forum",
        key="s",
        needs="browse",
        show=sessions.show,
    ),
    Page(
        "/facts",
        "Facts",
        "What holds about somebody, in the order of time, and what it replaced.",
        icon="o_fact_check",
        key="f",
        needs="browse",
        show=facts.show,
    ),
    Page(
        "/graph",
        "Graph",
        "How people, things and memories are related.",
        icon="o_hub",
        key="r",
        needs="browse",
        show=graph.show,
    ),
    Page(
        "/documents",
        "Documents",
        "Texts for everybody, and the chunks in which searches find them.",
        icon="o_description",
        key="d",
        needs="browse",
        show=documents.show,
    ),
    Page(
        "/import",
        "Import",
        "Bring conversations and documents from elsewhere.",
        icon="o_upload_file",
        key="i",
        needs="ingest",
        show=imports.show,
    ),
    Page(
        "/upkeep",
        "Upkeep",
        "Facts put in order, changes undone, failures settled, backups made.",
        icon="o_build",
        key="u",
        needs="audit",
        show=upkeep.show,
    ),
    Page(
        "/live",
        "Live",
        "What passes by at this moment: questions, results of tools, answers, changes.",
        icon="o_sensors",
        key="l",
        needs="browse_all",
        show=live.show,
    ),
    Page(
        "/accounts",
        "Accounts",
        "Who has access, and how much may be stored.",
        icon="o_group",
        key="c",
        needs="tenant",
        show=accounts.show,
    ),
)
"""Every page, in the order of the navigation. The first one that a viewer may see is the front."""
NO_SUCH_PAGE = '<p>There is no such page.</p><p><a href="/">To the memory</a></p>'
ASSETS = Path(__file__).parent / "assets"
ACCENT = "#0f766e"
ALL_RIGHTS = Rights(tenant=DEFAULT_TENANT)
"""Those of everybody on a stack without accounts, and what pages assume while none answers: the
stack decides about each request in any case."""
RECONNECT_SECONDS = 30.0
"""Seconds for which a page waits for its browser, for example while a laptop sleeps."""

log = get_logger()


def pages_app(link: StackTools, settings: Settings, sign_in: SignIn) -> ASGIApp:
    """The app with all pages, for those who have signed in."""

    async def viewer_of(request: Request) -> Viewer:
        caller: Sender = request.scope["caller"]
        viewer = Viewer(link, settings, caller, ALL_RIGHTS, dict(request.query_params))
        if link.is_reached:
            with suppress(Local2Error):  # the page itself shows why it gets no answer
                await viewer.learn_rights()
        return viewer

    async def open_front(request: Request) -> Response:
        shown = pages_for(await viewer_of(request))
        if not shown:
            return PlainTextResponse("Your role permits no page.", HTTPStatus.FORBIDDEN)
        return RedirectResponse(shown[0].path, HTTPStatus.SEE_OTHER)

    def builder_of(page: Page) -> Callable[[Request], Awaitable[None]]:
        async def build(request: Request) -> None:
            viewer = await viewer_of(request)
            show_page(page, pages_for(viewer), viewer)

        return build

    app = FastAPI(openapi_url=None)
    app.add_api_route("/", open_front, response_model=None)
    app.add_api_route(SIGN_IN_PATH, sign_in.sign_in, methods=["GET", "POST"])
    app.add_api_route(SIGN_OUT_PATH, sign_in.sign_out, methods=["POST"])
    app.mount(ASSETS_PATH, StaticFiles(directory=ASSETS))
    for page in PAGES:
        ui.page(page.path, title=f"{page.title} · local2")(builder_of(page))
    nicegui_app.config.quasar_config["loadingBar"] = {"skipHijack": True}  # it has no name
    logging.getLogger("nicegui").disabled = True  # it would also log what viewers are told
    nicegui_app.on_exception(_log_unexpected)
    nicegui_app.add_exception_handler(HTTPStatus.NOT_FOUND, _refuse_path)
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


async def _refuse_path(_: Request, __: Exception) -> Response:
    return plain_page(NO_SUCH_PAGE, HTTPStatus.NOT_FOUND)


def _log_unexpected(error: Exception) -> None:
    if not isinstance(error, Local2Error):  # viewers are told of those
        log.error("page_failed", exc_info=error)
