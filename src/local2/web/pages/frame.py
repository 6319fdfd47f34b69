"""What all pages share: who looks, navigation, headings, empty states, times, notices, questions.

A page only shows what it has, and raises errors: whatever `Local2Error` a handler of an event
raises becomes a notice with its remedy. `assets/page.css` has the looks, `assets/page.js` the keys.
"""

import math
import time
from collections.abc import Awaitable, Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from datetime import UTC, datetime
from functools import partial
from typing import Any, Generic, NamedTuple, TypeVar
from urllib.parse import urlencode

import msgspec
from nicegui import Client, ui
from nicegui.element import Element
from nicegui.elements.mixins.text_element import TextElement
from nicegui.events import GenericEventArguments

from local2._version import __version__
from local2.client.memory import Memory
from local2.client.stack_tools import StackTools
from local2.errors import ForbiddenError, Local2Error, UnavailableError
from local2.protocol.browsing import BrowsedPage, Rights, SessionsPage
from local2.protocol.envelope import Sender, utc_now
from local2.protocol.memory_tools import MAX_REASON, UNDO, Undo
from local2.protocol.payloads import Empty
from local2.protocol.services import RIGHTS
from local2.settings import Settings
from local2.web.callers import claims_of
from local2.web.pages.signing_in import ASSETS_PATH, EXPIRED_PATH, SIGN_OUT_PATH

NOTICES = "notices"
"""Where each client's storage keeps the place of its notices."""
RIGHTS_SECONDS = 2.0
"""Seconds for which a page waits for what its viewer's role permits."""
WATCH_SECONDS = 1.0
"""Seconds between two looks at whether the stack is reached."""
NOTICE_SECONDS = 8
"""Seconds for which a notice stays, and with it the button that undoes what was done."""
READING_SECONDS = 2.0
"""Seconds after which a page is shown although nothing that was read so far belongs on it."""
TEXT_CHARACTERS = 400
"""Maximum characters of a text in a table, which shows two lines of it."""
DEFAULT_REASON = "Decided on the page."
UNEXPECTED = "Something went wrong here; the log of the page says what."
HEAD = f"""
<link rel="stylesheet" href="{ASSETS_PATH}/page.css?{__version__}" />
<script defer src="{ASSETS_PATH}/page.js?{__version__}"></script>
"""
SHORTCUTS = (
    ("/", "Search"),
    ("↑ ↓", "Move in a table"),
    ("Enter", "Open"),
    ("Esc", "Close"),
    ("n", "Newest notice, such as to undo"),
    ("t", "Light or dark"),
    ("?", "These keys"),
)

C = TypeVar("C", bound=int | str)
K = TypeVar("K")
P = TypeVar("P", BrowsedPage, SessionsPage)
R = TypeVar("R")
Row = dict[str, Any]
"""What the template of a table shows of a row, always as text."""
Handler = Callable[[GenericEventArguments], Awaitable[None] | None]


class Viewer:
    """The one for whom a page is built.

    `query`: the parameters of the page's address, by which a page can be bookmarked and sent.
    `memory` has a method for most tools; `calls` makes any other request. `on_return`: what the
    page reads anew when the stack was gone and is back, so that what was typed and opened on it
    stays; without it, the page is shown anew.
    """

    on_return: Callable[[], Awaitable[None]] | None = None

    def __init__(
        self,
        link: StackTools,
        settings: Settings,
        caller: Sender,
        rights: Rights,
        query: dict[str, str],
    ) -> None:
        self.link = link
        self.settings = settings
        self.caller = caller
        self.rights = rights
        self.query = query
        self.calls = link.calls(caller, settings.http.timeout)
        self.memory = Memory(self.calls)

    @property
    def has_accounts(self) -> bool:
        return self.caller.token is not None

    async def learn_rights(self) -> None:
        """Ask the stack what the viewer's role permits; without accounts, everything.

        Raises:
            Local2Error: The stack does not answer, or does not accept the token.
        """
        if self.has_accounts:
            calls = self.link.calls(self.caller, RIGHTS_SECONDS)
            self.rights = await calls.ask_service(RIGHTS, Empty())

    def may(self, action: str) -> bool:
        """Whether the viewer may use a tool or a service; the stack decides in any case."""
        return self.rights.actions is None or action in self.rights.actions

    def set_address(self, **parameters: str | None) -> None:
        """Write what a page shows into its address: for bookmarks, and for showing it again."""
        self.query.clear()
        self.query |= {name: value for name, value in parameters.items() if value}
        path = ui.context.client.request.url.path
        ui.navigate.history.replace(f"{path}?{urlencode(self.query)}" if self.query else path)

    def looking_as(self, user: str | None) -> "Viewer":
        """The viewer as a user's memories are seen and changed; None: as they are.

        With accounts, nobody sees more than the own token allows.
        """
        if user is None or user == self.caller.user:
            return self
        caller = msgspec.structs.replace(self.caller, user=user)
        return Viewer(self.link, self.settings, caller, self.rights, self.query)


class Page(NamedTuple):
    """A page of the navigation.

    `about`: what is on it, in a sentence. `icon`: of Material Icons. `key`: opens it after `g`.
    `needs`: what the viewer's role must permit. `show`: adds the content below the heading; it is
    called again after the stack was gone, unless it sets the viewer's `on_return`.
    """

    path: str
    title: str
    about: str
    icon: str
    key: str
    needs: str
    show: Callable[[Viewer], Awaitable[None]]


def show_page(page: Page, pages: Sequence[Page], viewer: Viewer) -> None:
    """Show the frame at once, and the content as soon as the stack has answered."""
    ui.add_head_html(HEAD)
    ui.on_exception(notify_of_error)
    _show_navigation(page, pages, viewer)
    client = ui.context.client
    with client.layout:
        notices = ui.element("div").classes("notices").props("role=status aria-live=polite")
    client.storage[NOTICES] = notices
    with ui.element("div").props("role=status"), ui.element("div").classes("banner") as lost:
        ui.icon("o_cloud_off").props("aria-hidden=true")
        text("span", "The memory is not running. This page goes on as soon as it is back.")
    lost.visible = False
    with ui.element("header").classes("page-head"):
        text("h1", page.title)
        text("p", page.about).classes("quiet")
    content = ui.element("div").classes("page-content")

    is_waiting = True
    """Whether the content is to come: also when the stack was gone, or does not serve yet."""
    is_shown = False

    async def show() -> None:
        await viewer.learn_rights()  # the page may listen as its own agent, like Live
        if not viewer.may(page.needs):
            raise ForbiddenError(
                "Your role does not permit this page.",
                remedy=f"It needs more than the role {viewer.rights.role}: sign in with a "
                "token of a higher one, which the operator makes.",
            )
        if is_shown and viewer.on_return is not None:
            await viewer.on_return()
        else:
            content.clear()
            viewer.on_return = None
            await page.show(viewer)

    async def fill() -> None:
        nonlocal is_waiting, is_shown
        is_waiting = False
        with content:
            try:
                await show()
                is_shown = True
            except Local2Error as error:
                is_waiting = isinstance(error, UnavailableError)
                if not is_waiting or not is_shown:
                    is_shown = False
                    content.clear()
                    with empty("o_cloud_off", error.message, error.remedy or ""):
                        ui.button("Try again", on_click=fill).props("outline")
        content.classes("ready")

    token = viewer.caller.token
    expires = claims_of(token).exp if token is not None else math.inf

    async def watch() -> None:
        nonlocal is_waiting
        is_open = is_dialog_open(client)
        if time.time() > expires and not is_open:
            ui.navigate.to(EXPIRED_PATH)
            return
        is_gone = not viewer.link.is_reached
        is_waiting = is_waiting or is_gone
        # A dialog would go with the content that has opened it, and what is written there.
        if is_waiting and not is_gone and not is_open:
            await fill()
            is_gone = is_waiting and is_shown
        lost.visible = is_gone

    # It waits for the browser, and ends with it: nothing is read for one that never came.
    ui.timer(WATCH_SECONDS, watch)


def _show_navigation(shown: Page, pages: Sequence[Page], viewer: Viewer) -> None:
    client = ui.context.client
    ui.skip_link(target=client.content)
    with client.layout, ui.element("div").classes("side").move(target_index=1):
        with ui.element("div").classes("brand"):
            Element("img").props(f'src={ASSETS_PATH}/mark.svg alt="" width=28 height=28')
            text("span", "local2")
            menu = Element("button").classes("menu-button").props("type=button data-menu")
            menu.props('aria-label="Menu" aria-expanded=false aria-controls=navigation')
            with menu:
                ui.icon("o_menu")
        with ui.element("nav").props('id=navigation aria-label="Pages"'):
            for page in pages:
                link = Element("a").props(f"href={page.path} data-go={page.key}")
                if page is shown:
                    link.props("aria-current=page")
                with link:
                    ui.icon(page.icon).props("aria-hidden=true")
                    text("span", page.title)
        with ui.element("div").classes("side-foot"):
            if viewer.has_accounts:
                with Element("form").props(f"method=post action={SIGN_OUT_PATH}"):
                    text("button", "Sign out").classes("plain")
            else:
                text("span", viewer.caller.user or "").classes("quiet")
            theme = text("button", "Theme").classes("plain").props("type=button data-theme")
            theme.props('title="Light, dark, or as the system (t)"')
            keys = text("button", "Keys").classes("plain").props("type=button data-keys")
            keys.props('title="All keys (?)"')

    def show_keys() -> None:
        with client.content, dialog("Keys") as keys_dialog, ui.card().classes("dialog"):
            text("h2", "Keys")
            with ui.element("dl").classes("keys"):
                pages_by_key = ((f"g {page.key}", page.title) for page in pages)
                for pressed, does in (*SHORTCUTS, *pages_by_key):
                    with ui.element("dt"):
                        for key in pressed.split():
                            text("kbd", key)
                    text("dd", does)
        keys_dialog.open()

    ui.on("keys", show_keys)


# What pages are made of


def text(tag: str, content: str) -> TextElement:
    """An element with a text, which is never read as HTML."""
    return TextElement(tag=tag, text=content)


def opener(content: str, look: str, open_: Callable[[], Awaitable[None]]) -> TextElement:
    """A text that opens something when it is clicked."""
    element = text("button", content).props("type=button").classes(f"plain-text {look}")
    return element.on("click", open_)


def link(content: str, path: str, **parameters: str) -> TextElement:
    """A link to a page, and to what the parameters of its address name there."""
    element = text("a", content)
    element.props["href"] = f"{path}?{urlencode(parameters)}"
    return element


def prose(content: str) -> Element:
    """A paragraph, of which the parts between backticks are shown as code."""
    with ui.element("p") as element:
        for number, part in enumerate(content.split("`")):
            text("code" if number % 2 else "span", part)
    return element


def facts(entries: Mapping[str, str]) -> Element:
    """A list of names with their values."""
    with ui.element("dl").classes("facts") as element:
        for name, value in entries.items():
            text("dt", name)
            text("dd", value)
    return element


def tag(name: str, look: str = "") -> TextElement:
    """A word about something; `look`: accent, warning or danger."""
    return text("span", name).classes(f"tag {look}")


def section(title: str, hint: str = "") -> Element:
    """Begin a part of a page under its own heading; its content follows within `with`."""
    with ui.element("section").classes("section") as element:
        text("h2", title)
        if hint:
            text("p", hint).classes("quiet")
    return element


def empty(icon: str, title: str, hint: str) -> Element:
    """Say that there is nothing to show, and what to do about it."""
    with ui.element("div").classes("empty") as element:
        ui.icon(icon).props("aria-hidden=true")
        text("p", title).classes("empty-title")
        if hint:
            prose(hint).classes("quiet")
    return element


class Disclosure(Element):
    """A line, its `title`, that opens its `content`.

    The browser opens it at once: what stands below would else move under the pointer, as late as
    the server answers, and a click that had begun there would be lost.
    """

    def __init__(self, title: str, *, is_open: bool = False) -> None:
        super().__init__("details")
        self.props["open"] = is_open
        with self:
            self.title = text("summary", title)
            self.content = ui.element("div").classes("disclosed")


class Table(Element, component="assets/table.js"):
    """Rows with the cells of a template, `body`, whose events the handlers take.

    `columns`: their headings. A row is identified by what it has as `key`.
    """

    def __init__(
        self,
        columns: Sequence[str],
        body: str,
        rows: Sequence[Row],
        /,
        **handlers: Handler,
    ) -> None:
        super().__init__()
        self.props["columns"] = list(columns)
        self.props["body"] = body
        self.show(rows)
        for event, handler in handlers.items():
            self.on(event, handler)

    def show(self, rows: Sequence[Row]) -> None:
        """Show these rows; those that were there before stay the same elements."""
        self.props["rows"] = list(rows)


class ChoiceList(Generic[K]):
    """A list of which one entry is chosen, and shown beside it; `element` holds the entries."""

    def __init__(self) -> None:
        self.element = ui.element("div").classes("list").props("data-rows")
        self._rows: dict[K, Element] = {}
        self._chosen: K | None = None

    def add(self, key: K, on_choose: Callable[[], Awaitable[None]]) -> Element:
        """Add an entry, whose content follows within `with`.

        What is shown stays as it is, and as far as it was opened, if its entry is chosen again.
        """

        async def choose() -> None:
            if key != self._chosen:
                await on_choose()

        row = ui.element("div").classes("list-row").props("tabindex=0 role=button data-row")
        row.on("click", choose)
        self._rows[key] = row
        self._mark(row, is_chosen=key == self._chosen)
        return row

    def choose(self, key: K) -> None:
        """Mark an entry, which need not be in the list yet."""
        self._chosen = key
        for named, row in self._rows.items():
            self._mark(row, is_chosen=named == key)

    def clear(self) -> None:
        self._rows = {}
        self.element.clear()

    @staticmethod
    def _mark(row: Element, *, is_chosen: bool) -> None:
        row.props["aria-current"] = "true" if is_chosen else "false"


class Pager(Generic[C]):
    """Turns the pages of a list; `load` reads and shows the page at `cursor`.

    `before` and `after`: what its buttons are called, by default those of a list whose newest
    entries come first.
    """

    def __init__(
        self,
        load: Callable[[], Awaitable[None]],
        *,
        before: str = "Newer",
        after: str = "Older",
    ) -> None:
        self._load = load
        self._before = before
        self._after = after
        self._cursors: list[C | None] = [None]

    @property
    def cursor(self) -> C | None:
        """Where the page begins that is shown; None for the first one."""
        return self._cursors[-1]

    @property
    def is_first(self) -> bool:
        return len(self._cursors) == 1

    def restart(self) -> None:
        """Begin anew, since the list is another one."""
        self._cursors = [None]

    def show(self, following: C | None) -> None:
        """Add the buttons; `following`: where the next page begins, if there is one."""
        self._list = ui.context.slot.parent
        if self.is_first and following is None:
            return
        with ui.element("div").classes("row-of pages"):
            if not self.is_first:
                back = ui.button(self._before, icon="o_chevron_left", on_click=self._go_back)
                back.props("outline")
            if following is not None:
                on = ui.button(self._after, on_click=partial(self._go_on, following))
                on.props("outline icon-right=o_chevron_right")

    async def _go_back(self) -> None:
        self._cursors.pop()
        await self._turn()

    async def _go_on(self, cursor: C) -> None:
        if cursor != self.cursor:  # a double click goes on once
            self._cursors.append(cursor)
        await self._turn()

    async def _turn(self) -> None:
        await self._load()
        with self._list:
            ui.run_javascript(f"goToTop({self._list.id})")


async def stay() -> None:
    """What is shown stays as it was, whatever has become of the memory."""


async def read_on(
    read: Callable[[str | None], Awaitable[P]], is_empty: Callable[[P], bool], after: str | None
) -> P:
    """Read a page of the memory; those that have nothing are passed over, for a short while."""
    until = time.monotonic() + READING_SECONDS
    while True:
        page = await read(after)
        if not is_empty(page) or page.next is None or time.monotonic() > until:
            return page
        after = page.next


def dialog(name: str) -> ui.dialog:
    """A dialog with a name, which screen readers say when it opens.

    It is deleted once it is closed and the focus is where it was before.
    """
    made = ui.dialog()
    made.on("hide", made.delete)
    made.props["aria-label"] = name
    return made


def is_dialog_open(client: Client) -> bool:
    """Whether a dialog or a drawer is open on a page."""
    dialogs = (element for element in client.elements.values() if isinstance(element, ui.dialog))
    return any(shown.value for shown in dialogs)


@contextmanager
def drawer(name: str, title: str | None = None) -> Iterator[ui.dialog]:
    """Open a dialog from the side, with a title; its content follows within `with`."""
    with dialog(name).props("position=right full-height") as opened, ui.card().classes("drawer"):
        with ui.element("header").classes("drawer-head"):
            text("h2", title or name)
            close = ui.button(icon="o_close", on_click=opened.close)
            close.props('flat round dense aria-label="Close"')
        yield opened
    opened.open()


def counted(number: int, noun: str) -> str:
    """A number of things, such as "1 chunk" or "2,000 chunks"."""
    return f"{number:,} {noun}{'s'[: number != 1]}"


def when(moment: datetime) -> TextElement:
    """A time as people say it; the exact one shows on hover, and to screen readers."""
    shown = text("time", said(moment))
    shown.props["datetime"] = moment.isoformat()
    shown.props["title"] = exact(moment)
    return shown


def said(moment: datetime, now: datetime | None = None) -> str:
    """A time as people say it, such as "5 minutes ago", "yesterday", or a date."""
    now = now or utc_now()
    moment = moment if moment.tzinfo else moment.replace(tzinfo=UTC)
    seconds = (now - moment).total_seconds()
    if seconds < 0:
        return moment.astimezone().strftime("%-d %b %Y")
    for limit, unit, name in ((60, 1, ""), (3_600, 60, "minute"), (86_400, 3_600, "hour")):
        if seconds < limit:
            return f"{counted(int(seconds // unit), name)} ago" if name else "just now"
    days = (now.astimezone().date() - moment.astimezone().date()).days
    if days <= 1:
        return "yesterday"
    if days < 7:  # noqa: PLR2004 - a week
        return f"{days} days ago"
    is_this_year = moment.astimezone().year == now.astimezone().year
    return moment.astimezone().strftime("%-d %b" if is_this_year else "%-d %b %Y")


def exact(moment: datetime) -> str:
    """A time to the second, in the time zone of this machine."""
    return moment.astimezone().strftime("%A, %-d %B %Y, %H:%M:%S %Z")


def notify(message: str) -> None:
    """Say what was done."""
    _show_notice(message, "", None, classes="notice")


def notify_of_run(
    viewer: Viewer, message: str, run: str | None, on_change: Callable[[], Awaitable[None]]
) -> None:
    """Say what a run did; a button in the notice undoes it, if it changed anything."""

    async def undo() -> None:
        await undo_run(viewer, str(run), on_change)

    can_undo = run is not None and viewer.may(UNDO.name)
    _show_notice(message, "", undo if can_undo else None, classes="notice")


async def undo_run(viewer: Viewer, run: str, on_change: Callable[[], Awaitable[None]]) -> None:
    """Undo a run, and say what of it was undone."""
    report = await viewer.calls.ask(UNDO, Undo(run=run))
    said_of_run = [f"Undone: {counted(len(report.undone), 'change')}."]
    if report.not_done:
        said_of_run.append(f"Left, since they have changed: {len(report.not_done):,}.")
    if report.others:
        said_of_run.append(f"For others to undo: {report.others:,}.")
    notify(" ".join(said_of_run))
    await on_change()


def notify_of_error(error: Exception) -> None:
    """Show an error and its remedy in a notice."""
    if isinstance(error, Local2Error):
        _show_notice(error.message, error.remedy or "", None, classes="notice wrong")
    else:
        _show_notice(UNEXPECTED, "", None, classes="notice wrong")


def _show_notice(
    message: str, remedy: str, undo: Callable[[], Awaitable[None]] | None, *, classes: str
) -> None:
    with (
        ui.context.client.storage[NOTICES],
        ui.element("div").classes(classes) as notice,
    ):
        with ui.element("div"):
            text("p", message)
            if remedy:
                prose(remedy).classes("quiet")
        if undo is not None:

            async def undo_it() -> None:
                notice.delete()
                await undo()

            ui.button("Undo", on_click=undo_it).props("flat dense")
        ui.button(icon="o_close", on_click=notice.delete).props(
            'flat round dense aria-label="Close"'
        )
        staying = ui.timer(NOTICE_SECONDS, notice.delete, once=True)

        def hold() -> None:
            staying.cancel()

        def let_go() -> None:
            nonlocal staying
            staying.cancel()
            with notice:
                staying = ui.timer(NOTICE_SECONDS, notice.delete, once=True)

        for event in ("mouseenter", "focusin"):
            notice.on(event, hold)
        for event in ("mouseleave", "focusout"):
            notice.on(event, let_go)


async def confirmed(title: str, explanation: str, action: str, *, destroys: bool = False) -> bool:
    """Ask before something is done; whatever is not the action's button means no."""
    with dialog(title) as question, ui.card().classes("dialog").props("role=alertdialog"):
        text("h2", title)
        text("p", explanation)
        with ui.row().classes("dialog-actions"):
            ui.button("Cancel", on_click=question.close).props("flat")
            colour = "negative" if destroys else "primary"
            ui.button(action, on_click=lambda: question.submit(result=True), color=colour)
    return bool(await question)


async def ask_reason(
    title: str, explanation: str, action: str, act: Callable[[str], Awaitable[R]]
) -> R | None:
    """Ask why something is done, which stays in its history, and do it; None: it was not done."""
    with dialog(title) as question, ui.card().classes("dialog"):
        text("h2", title)
        text("p", explanation)
        reason = ui.input("Why", value=DEFAULT_REASON).props(
            f"outlined dense autofocus maxlength={MAX_REASON}"
        )

        async def act_for_reason() -> R | None:
            given = (reason.value or "").strip()
            return await act(given) if given else None

        reason.on("keydown.enter", add_actions(question, action, act_for_reason))
    done: R | None = await question
    return done


def add_actions(
    form: ui.dialog, action: str, act: Callable[[], Awaitable[R | None]]
) -> Callable[[], Awaitable[None]]:
    """Add the buttons of a form, which is submitted once `act` has returned a result.

    Until then, and if it fails, what is written stays. While it acts, the form cannot be cancelled:
    it would be done all the same, and nobody would be told. What is returned does what its button
    does.
    """
    is_acting = False

    async def submit() -> None:
        nonlocal is_acting
        if is_acting:  # a double click acts once
            return
        is_acting = True
        button.props("loading")
        cancel.disable()
        form.props("no-esc-dismiss")
        try:
            done = await act()
        finally:
            is_acting = False
            button.props(remove="loading")
            cancel.enable()
            form.props(remove="no-esc-dismiss")
        if done is not None:
            form.submit(done)

    with ui.row().classes("dialog-actions"):
        cancel = ui.button("Cancel", on_click=form.close).props("flat")
        button = ui.button(action, on_click=submit)
    form.props("no-backdrop-dismiss")  # a click beside it would lose what is written
    return submit
