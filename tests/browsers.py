"""A real Chromium that looks at the page, and fails for what a reader would not notice."""

import os
import shutil
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from typing import Literal, ParamSpec, TypeVar
from urllib.parse import urlsplit

import pytest
from axe_playwright_python.sync_playwright import Axe
from playwright.sync_api import Browser, Page, Request, expect, sync_playwright

MUST_RUN = "BROWSER_TESTS_MUST_RUN"
"""The variable that `.ci/run` sets: without Chromium, the tests fail there."""
SERIOUS = {"serious", "critical"}
Theme = Literal["light", "dark"]
WIDE, NARROW = (1_280, 800), (360, 740)
PATIENCE = 20_000
"""Milliseconds in which a page reacts, also on a busy machine."""
Parameters = ParamSpec("Parameters")
Answer = TypeVar("Answer")
axe = Axe()
expect.set_options(timeout=PATIENCE)


def found_chromium() -> str | None:
    """Debian's Chromium, if possible the one without windows."""
    return shutil.which("chromium-headless-shell") or shutil.which("chromium")


@contextmanager
def chromium() -> Iterator[Browser]:
    """Start Chromium; skip the tests without any.

    The tests that use it must not be async: Playwright runs an event loop in their thread.
    """
    executable = found_chromium()
    if executable is None:
        reason = "There is no Chromium here: `apt-get install chromium-headless-shell`."
        if os.environ.get(MUST_RUN):
            pytest.fail(reason)
        pytest.skip(reason)
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(
            executable_path=executable,
            # What nobody sees is painted in the browser's own process, which saves another's work.
            args=["--no-sandbox", "--disable-dev-shm-usage", "--disable-gpu", "--in-process-gpu"],
        )
        try:
            yield browser
        finally:
            browser.close()


def in_another_thread(
    function: Callable[Parameters, Answer], *args: Parameters.args, **options: Parameters.kwargs
) -> Answer:
    """Call what runs an event loop, like a command: Playwright's runs in the tests' thread."""
    with ThreadPoolExecutor(max_workers=1) as threads:
        return threads.submit(function, *args, **options).result()


class Reader:
    """Somebody who looks at pages; `problems` are errors, and requests to anywhere else."""

    def __init__(self, page: Page, url: str) -> None:
        self.page = page
        self.problems: list[str] = []
        self._url = url
        page.set_default_timeout(PATIENCE)
        page.on("console", lambda message: self._note_console(message.type, message.text))
        page.on("pageerror", lambda error: self.problems.append(f"error: {error}"))
        page.on("dialog", lambda dialog: self.problems.append(f"a script runs: {dialog.message}"))
        page.on("request", self._note_request)

    def open(self, path: str) -> None:
        """Open a page, and wait until its content is there."""
        self.page.goto(f"{self._url}{path}")
        self.page.locator(".page-content.ready").wait_for()

    def show(self, theme: Theme, size: tuple[int, int]) -> None:
        """Prefer light or dark from now on, on a screen of this size, without motion.

        Painting what moves is much of a browser's work; a reader that `show` is not called for, as
        in tests with accounts, sees it move.
        """
        width, height = size
        self.page.set_viewport_size({"width": width, "height": height})
        self.page.emulate_media(color_scheme=theme, reduced_motion="reduce")

    def leave(self) -> None:
        """Leave the page and forget what was chosen there; fail for the problems it has had."""
        self.page.evaluate("localStorage.clear()")
        # Of the same server: for another's page, Chromium would start a process, twice a test.
        self.page.goto(f"{self._url}/assets/page.css")
        problems, self.problems = self.problems, []
        assert not problems, "\n".join(problems)

    def settle(self) -> None:
        """Wait until everything has stopped moving, such as a drawer that opens."""
        self.page.wait_for_function(
            "document.querySelector('.q-dialog__inner--animating') === null"
            " && document.getAnimations().every((a) => a.playState !== 'running')"
        )

    def check_accessibility(self) -> None:
        """Fail for what axe-core calls serious or critical."""
        self.settle()
        found = axe.run(self.page).response["violations"]
        serious = [
            f"{violation['id']}: {node['html'][:300]}"
            for violation in found
            if violation["impact"] in SERIOUS
            for node in violation["nodes"]
        ]
        assert not serious, "\n".join(serious)

    def check_width(self) -> None:
        """Fail if the page has to be scrolled sideways."""
        wider = self.page.evaluate(
            "document.documentElement.scrollWidth - document.documentElement.clientWidth"
        )
        assert wider <= 0

    def _note_console(self, kind: str, text: str) -> None:
        if kind in {"error", "warning"}:
            self.problems.append(f"{kind}: {text}")

    def _note_request(self, request: Request) -> None:
        address = urlsplit(request.url)
        if address.scheme not in {"data", "blob"} and address.netloc != urlsplit(self._url).netloc:
            self.problems.append(f"foreign request: {request.url}")
