"""`local2 up`: run the whole stack in one process, with a chat if there is a terminal.

Three settings keep the event loop responsive, besides the one in `local2/__main__.py`. All objects
that exist once the stack is open are frozen, because a full garbage collection, which a large
document triggers, would otherwise visit all modules. Only one thread reads long texts, and threads
release the interpreter sooner than by default: several threads would each block the loop for 5 ms
at a time. A fourth setting, of malloc, has large messages leave little memory behind.
"""

import asyncio
import gc
import signal
import sys
from concurrent.futures import ThreadPoolExecutor
from contextlib import AsyncExitStack, suppress
from pathlib import Path

import click

import local2.cli.plain_libraries  # noqa: F401 - before the others import these
from local2.cli.commands import command
from local2.cli.output import Output, run_async, shown
from local2.client.shared_stack import StackUsage
from local2.errors import ConfigError, FolderLockedError
from local2.examination.installation import check_minilm, check_reranker_files
from local2.home import asking_user, current_folder, exposed_memories, is_running, other_homes
from local2.logs import logging_to
from local2.malloc import M_MMAP_THRESHOLD, set_malloc_option
from local2.settings import MemorySettings, Settings
from local2.stack.app import Stack, open_stack

SWITCH_INTERVAL = 0.0005
"""Seconds that a thread may keep the interpreter while the loop waits for it. Python's default is
5 ms; a shorter interval would cost more in switching."""
LARGE_BLOCK = 128 * 1024
"""Bytes from which malloc gives a block back as soon as it is freed, so that large messages leave
little behind. glibc begins with this limit, but raises it to the largest block that was freed."""
POLL = 0.2
"""Seconds between two checks whether the stack is still used."""
CHAT_NEEDS_TENANT = (
    "The stack has accounts, so chat as a tenant: `local2 --tenant NAME chat` in another terminal. "
    "[dim]Ctrl-C stops the stack.[/]"
)


@command(json=False)
@click.option(
    "--while-used",
    metavar="SECONDS",
    type=click.FloatRange(min=0),
    help="Run without a chat; stop after this long without clients.",
)
def up(settings: Settings, output: Output, *, while_used: float | None) -> None:
    set_malloc_option(M_MMAP_THRESHOLD, LARGE_BLOCK)
    if while_used is not None:
        with logging_to():
            run_async(_while_used(settings, while_used))
    elif sys.stdin.isatty() and sys.stdout.isatty():
        with logging_to(settings.memory.data_dir / "logs" / "local2.log"):
            run_async(_interactive(settings))
    else:
        with logging_to():
            run_async(_service(settings, output))


def _favour_event_loop() -> None:
    sys.setswitchinterval(SWITCH_INTERVAL)
    asyncio.get_running_loop().set_default_executor(ThreadPoolExecutor(1, "texts"))


async def _interactive(settings: Settings) -> None:
    """Chat until the user leaves; SIGTERM, or Ctrl-C where no chat runs, stops cleanly."""
    _favour_event_loop()
    chatting = asyncio.create_task(_with_chat(settings))
    for number in (signal.SIGINT, signal.SIGTERM):
        asyncio.get_running_loop().add_signal_handler(number, chatting.cancel)
    with suppress(asyncio.CancelledError):
        await chatting


async def _with_chat(settings: Settings) -> None:
    output = Output()
    announce_models(output, settings.memory)
    async with AsyncExitStack() as resources:
        with output.console.status("Starting …"):
            logs = settings.memory.data_dir / "logs"
            stack = await resources.enter_async_context(open_stack(settings, log_folder=logs))
            gc.freeze()
        greet(output, settings, stack)
        user = asking_user(settings.bus, None)
        await _start_page(resources, output, settings, stack, log_folder=logs)
        try:
            # Imported here because a service needs no line editor.
            from local2.cli.talk import chatting, converse  # noqa: PLC0415

            if not stack.bus.by_tenant:
                await converse(stack.bus, output, user=user)
            # With accounts, the chat is of the tenant that the settings name: the stack is none.
            elif settings.bus.tenant is not None or settings.bus.credentials is not None:
                await chatting(settings, user=user)
            else:
                output.console.print(CHAT_NEEDS_TENANT)
                await asyncio.Event().wait()
        finally:
            output.console.print("[dim]Stopping …[/]")


def greet(output: Output, settings: Settings, stack: Stack) -> None:
    """Say what is running, with what, and on which memory."""
    from rich.markup import escape  # noqa: PLC0415 - a service prints nothing

    print_line = output.console.print
    print_line(f"[bold]local2[/] is running. Bus: [cyan]{escape(stack.bus.url)}[/]")
    if stack.model is not None:
        print_line(f"[dim]Model: {escape(stack.model.name)}.[/]")
    for served in () if stack.bus.by_tenant else stack.memories:
        print_line(f"[dim]{shown(f'In the memory: {served.models.status()}.')}[/]")
    user = asking_user(settings.bus, None)
    whose = f"of {user}, in " if user and not stack.bus.by_tenant else ""
    print_line(f"[dim]{shown(f'Memory: {whose}{settings.memory.data_dir}.')}[/]")
    for home in other_homes(settings.memory.data_dir, current_folder()):
        print_line(f"[dim]{shown(f'There is another memory in {home}; --home uses it.')}[/]")
    for memory in exposed_memories(settings):
        print_line(f"[dim]{shown(f'{memory} is not used: others can enter it.')}[/]")
    commands = "`local2 web`, `local2 tools`, `local2 doctor`; in a clone, `uv run local2 web` …"
    print_line(f"[dim]In another terminal: {commands}[/]")


def announce_models(output: Output, settings: MemorySettings) -> None:
    """Say what the start will download, and which files are broken; a service logs both."""
    weights = check_minilm(settings)
    if weights.verdict != "ok":
        output.console.print(f"[dim]{shown(f'{weights.name}: {weights.detail}')}[/]")
    for finding in check_reranker_files(settings):
        output.console.print(f"[yellow]{shown(f'{finding.detail} {finding.remedy}')}[/]")


async def _start_page(
    resources: AsyncExitStack,
    output: Output,
    settings: Settings,
    stack: Stack,
    *,
    log_folder: Path | None = None,
) -> None:
    """Start the page if the settings say so, and print its link, or why there is none."""
    if not settings.http.web:
        return
    from local2.cli.page import page_beside  # noqa: PLC0415 - other stacks need no HTTP

    try:
        page = page_beside(settings, by_tenant=stack.bus.by_tenant, log_folder=log_folder)
        link = await resources.enter_async_context(page)
    except ConfigError as error:
        output.error(error)
    else:
        output.text(f"Page: {link}", as_it_is=True)


async def _service(settings: Settings, output: Output) -> None:
    _favour_event_loop()
    stop = _stop_event()
    async with AsyncExitStack() as resources:
        stack = await resources.enter_async_context(open_stack(settings))
        gc.freeze()
        await _start_page(resources, output, settings, stack)
        await stop.wait()


async def _while_used(settings: Settings, linger: float) -> None:
    """Serve until no client has used the stack for `linger` seconds; end if another one serves."""
    _favour_event_loop()
    stop = _stop_event()
    with StackUsage(settings.memory.data_dir) as usage:

        def is_needed() -> bool:
            return not (stop.is_set() or usage.is_over(linger))

        while is_needed():
            with suppress(FolderLockedError):  # another stack starts, serves or stops
                async with open_stack(settings, for_clients=True):
                    gc.freeze()
                    while is_needed():
                        await _wait_briefly(stop)
                return
            if is_running(settings):
                return
            await _wait_briefly(stop)


async def _wait_briefly(stop: asyncio.Event) -> None:
    """Wait until the next check, or until `stop` is set."""
    with suppress(TimeoutError):
        await asyncio.wait_for(stop.wait(), POLL)


def _stop_event() -> asyncio.Event:
    """Make an event that SIGTERM and Ctrl-C set."""
    stop = asyncio.Event()
    for number in (signal.SIGINT, signal.SIGTERM):
        asyncio.get_running_loop().add_signal_handler(number, stop.set)
    return stop
