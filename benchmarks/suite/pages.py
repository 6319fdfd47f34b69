"""The pages in Chromium: until the front page is usable, a page of a large table, the memory.

The server of the pages runs in a process of its own beside a stack with 50,000 messages
(`--records N` sets another number).
"""

import asyncio
import os
import sys
import tempfile
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

from playwright.async_api import Browser, Page, async_playwright

from browsers import found_chromium
from harness.chat import messages
from harness.client import asking
from harness.fill import made_up_vectors
from harness.footprint import resident
from harness.processes import environment_of, running_stack
from harness.report import Figure, milliseconds, run
from local2.vectors.minilm import MiniLM
from suite.recall import conversation, fill

RECORDS = 50_000
BLOCKS = 5
OPEN_PAGES = 20
PATHS = ("/overview", "/memories", "/sessions", "/facts")
READY = ".page-content.ready"
HEALTH = ".finding"
"""What the front page says of the memory, once it has asked."""
ROW = "tr[data-row]"


async def measure(records: int = 0) -> list[Figure]:
    texts = messages(records or RECORDS, seed=1)
    vectors = made_up_vectors(MiniLM.load(Path("models")), texts)
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        await fill(folder, conversation(texts), vectors)
        async with (
            running_stack(folder) as bus,
            asking(bus) as asker,
            pages_of(folder) as (server, link),
            async_playwright() as playwright,
        ):
            await asker.all_indexed()
            browser = await playwright.chromium.launch(
                executable_path=found_chromium(), args=["--no-sandbox", "--disable-gpu"]
            )
            async with browser:
                return await look(browser, link, server, len(texts))


@asynccontextmanager
async def pages_of(folder: Path) -> AsyncIterator[tuple[int, str]]:
    """Run `local2 web` beside the stack of a folder; yield its process and its link."""
    server = await asyncio.create_subprocess_exec(
        *(sys.executable, "-m", "local2", "web", "--port", "0"),
        stdout=asyncio.subprocess.PIPE,
        env={**os.environ, **environment_of(folder)},
    )
    assert server.stdout is not None
    try:
        line = (await server.stdout.readline()).decode()
        yield server.pid, line.split()[-1]
    finally:
        server.terminate()
        await server.wait()


async def look(browser: Browser, link: str, server: int, records: int) -> list[Figure]:
    url = link.partition("/sign-in")[0]
    context = await browser.new_context()
    page = await context.new_page()
    await page.goto(link)
    await page.locator(READY).wait_for()
    cookies = await context.storage_state()
    first, told, fronts, tables = [], [], [], []
    for _ in range(BLOCKS):
        other = await browser.new_context(storage_state=cookies)  # it has nothing in its cache
        opened = await other.new_page()
        begun = time.perf_counter()
        first.append(await seconds_until_ready(opened, f"{url}/overview"))
        await opened.locator(HEALTH).first.wait_for()
        told.append(time.perf_counter() - begun)
        await other.close()
        fronts.append(await seconds_until_ready(page, f"{url}/overview"))
        await page.goto(f"{url}/memories")
        await page.locator(ROW).first.wait_for()
        tables.append(await seconds_to_turn(page))
    before = resident(server)
    for number in range(OPEN_PAGES - 1):
        opened = await context.new_page()
        await seconds_until_ready(opened, f"{url}{PATHS[number % len(PATHS)]}")
    return [
        milliseconds("front_ms", "front page until it is usable", fronts, at_most=1_500),
        milliseconds("first_ms", "the same in a browser that has never opened it", first),
        milliseconds("told_ms", "… until it says whether the memory works", told),
        milliseconds("table_ms", f"the next page among {records:,} memories", tables, at_most=200),
        Figure(key="one_mb", about="memory with one page", blocks=[before / 1e6], unit="MB"),
        Figure(
            key="open_mb",
            about=f"memory with {OPEN_PAGES} open pages",
            blocks=[resident(server) / 1e6],
            unit="MB",
            at_most=150,
        ),
    ]


async def seconds_until_ready(page: Page, address: str) -> float:
    begun = time.perf_counter()
    await page.goto(address, wait_until="commit")
    await page.locator(READY).wait_for()
    return time.perf_counter() - begun


async def seconds_to_turn(page: Page) -> float:
    """Turn to the next page of the table; return the time until its rows are there."""
    seconds: float = await page.evaluate(
        """async () => {
          const begun = performance.now();
          const first = document.querySelector("tr[data-row]").innerText;
          const turn = [...document.querySelectorAll(".pages button")].at(-1);
          turn.click();
          while (document.querySelector("tr[data-row]")?.innerText === first
                 || !document.querySelector("tr[data-row]")) {
            await new Promise(requestAnimationFrame);
          }
          return (performance.now() - begun) / 1000;
        }"""
    )
    return seconds


def main() -> None:
    run(__doc__, measure, "records")
