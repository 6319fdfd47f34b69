"""`local2 up`: the whole stack in one process, with a chat if there is a terminal.

Three settings of the interpreter keep the event loop responsive. Objects that exist once the stack
is open are frozen, because a full garbage collection, which a large document triggers, would
otherwise visit all modules. Long texts are read by one thread only, and a thread gives up the
interpreter sooner than by default: several threads would each hold up the loop for 5 ms a step.
"""

import asyncio
import gc
import signal
import sys
from concurrent.futures import ThreadPoolExecutor
from contextlib import AsyncExitStack, suppress

from rich.markup import escape

from local.app import Stack, open_stack
from local.cli.output import Output, run_async, shown
from local.client.embedded import Usage
from local.errors import FolderLockedError
from local.examination.installation import check_minilm
from local.home import is_running
from local.logs import logging_to
from local.settings import MemorySettings, Settings

SWITCH_INTERVAL = 0.0005
"""Seconds that a thread may go on while the loop waits for the interpreter; Python's default is 5
ms. Less would cost more in switching."""
LOOK = 0.2
"""Seconds between two checks whether a stack is still used, or still wanted."""
ACCOUNTS = (
    "There are accounts, so a chat is a tenant's: `local2 --tenant NAME chat` in another terminal. "
    "[dim]Ctrl-C stops the stack.[/]"
)


def up(settings: Settings, *, while_used: float | None = None) -> None:
    if while_used is not None:
        with logging_to():
            run_async(_while_used(settings, while_used))
    elif sys.stdin.isatty() and sys.stdout.isatty():
        with logging_to(settings.memory.data_dir / "logs" / "local2.log"):
            run_async(_interactive(settings))
    else:
        with logging_to():
            run_async(_service(settings))


def _favour_event_loop() -> None:
    sys.setswitchinterval(SWITCH_INTERVAL)
    asyncio.get_running_loop().set_default_executor(ThreadPoolExecutor(1, "texts"))


async def _interactive(settings: Settings) -> None:
    """Chat until the user leaves; SIGTERM, or Ctrl-C during an answer, stops cleanly."""
    _favour_event_loop()
    chatting = asyncio.create_task(_with_chat(settings))
    for number in (signal.SIGINT, signal.SIGTERM):
        asyncio.get_running_loop().add_signal_handler(number, chatting.cancel)
    with suppress(asyncio.CancelledError):
        await chatting


async def _with_chat(settings: Settings) -> None:
    output = Output()
    _announce_download(output, settings.memory)
    async with AsyncExitStack() as resources:
        with output.console.status("Starting …"):
            logs = settings.memory.data_dir / "logs"
            stack = await resources.enter_async_context(open_stack(settings, log_folder=logs))
            gc.freeze()
        _greet(output, settings, stack)
        try:
            await _converse(settings, stack, output)
        finally:
            output.console.print("[dim]Stopping …[/]")


def _announce_download(output: Output, settings: MemorySettings) -> None:
    """Report what a start without the embedder's weights downloads; a service logs it."""
    weights = check_minilm(settings)
    if weights.verdict != "ok":
        output.console.print(f"[dim]{shown(f'{weights.name}: {weights.detail}')}[/]")


async def _converse(settings: Settings, stack: Stack, output: Output) -> None:
    """Chat as the tenant that the settings name, if there are accounts: the memory is no tenant."""
    from local.cli.talk import chatting, converse  # noqa: PLC0415 - a service needs no line editor

    if not stack.bus.by_tenant:
        await converse(stack.bus, output)
    elif settings.bus.tenant is not None or settings.bus.credentials is not None:
        await chatting(settings)
    else:
        output.console.print(ACCOUNTS)
        await asyncio.Event().wait()


def _greet(output: Output, settings: Settings, stack: Stack) -> None:
    print_line = output.console.print
    print_line(f"[bold]local2[/] is running. Bus: [cyan]{escape(stack.bus.url)}[/]")
    if stack.model is not None:
        print_line(f"[dim]Model: {escape(stack.model.name)}. Data: {settings.memory.data_dir}.[/]")
    print_line("[dim]In another terminal: `local2 tools`, `local2 doctor`.[/]")


async def _service(settings: Settings) -> None:
    _favour_event_loop()
    stop = _stopping()
    async with open_stack(settings):
        gc.freeze()
        await stop.wait()


async def _while_used(settings: Settings, linger: float) -> None:
    """Serve until nobody has used the stack for `linger` seconds, unless another one serves."""
    _favour_event_loop()
    stop = _stopping()
    with Usage(settings.memory.data_dir) as usage:

        def wanted() -> bool:
            return not (stop.is_set() or usage.is_over(linger))

        while wanted():
            with suppress(FolderLockedError):  # held by one that starts, serves or stops
                async with open_stack(settings, for_clients=True):
                    gc.freeze()
                    while wanted():
                        await _at_most(stop, LOOK)
                return
            if is_running(settings):
                return
            await _at_most(stop, LOOK)


async def _at_most(stop: asyncio.Event, seconds: float) -> None:
    """Wait until it is set, but not for longer."""
    with suppress(TimeoutError):
        await asyncio.wait_for(stop.wait(), seconds)


def _stopping() -> asyncio.Event:
    """Set by SIGTERM and Ctrl-C."""
    stop = asyncio.Event()
    for number in (signal.SIGINT, signal.SIGTERM):
        asyncio.get_running_loop().add_signal_handler(number, stop.set)
    return stop
