"""Write docs/commands.md from the declarations of the commands; run this file for it."""

from collections.abc import Iterator
from pathlib import Path

import click

from local2.cli import COMMANDS, app

PAGE = Path(__file__).parents[1] / "docs" / "commands.md"
HEAD = """\
# Commands

`uv run --group dev tests/command_page.py` writes this page from the commands in `cli/`.

In a clone, run `uv run local2 …`. Commands use the stack of the nearest folder upwards with a
`.local2/`, else that of your own folder ([which memory](ways-in.md)); `local2 --home DIR …` names
another. All commands that print data take `--json`; a failure is then JSON, too.

**Exit status:** 0, also for a search or list that finds nothing; 1 for a failure, also if the
memory, run or letter that is named is not there; 2 for a wrong command line; 130 after Ctrl-C.

With accounts, `local2 --tenant acme recall --user ada QUERY` asks as that tenant, for one of its
users. Without accounts, `--user ""` asks without a user.

More about some of them: [hooks](hooks.md), [mcp](mcp.md), [stories](stories.md),
[export](export.md), [import](import.md), [backup, restore, reindex, doctor and
tenants](operations.md).
"""


def page() -> str:
    """The text of the page: a table of all commands, then the options of each."""
    context = click.Context(app)
    commands = {name: app.get_command(context, name) for name in COMMANDS}
    shown = {name: command for name, command in commands.items() if command and not command.hidden}
    lines = [HEAD, "| `local2 …` | |", "|---|---|"]
    lines += [
        f"| [`{name}`](#{name}) | {_in_a_cell(command.help)} |" for name, command in shown.items()
    ]
    for name, command in shown.items():
        lines += ["", f"## {name}", ""]
        if isinstance(command, click.Group):
            for number, (verb, part) in enumerate(command.commands.items()):
                lines += ["", f"### {name} {verb}", ""] if number else [f"### {name} {verb}", ""]
                lines += [_in_a_cell(part.help), *_parameters(part, context)]
        else:
            lines += [_in_a_cell(command.help), *_parameters(command, context)]
    return "\n".join(lines) + "\n"


def _parameters(command: click.Command, context: click.Context) -> Iterator[str]:
    """Yield a table of what the command takes, without `--json`, which all have."""
    rows = []
    for parameter in command.params:
        about = getattr(parameter, "help", None) or ""
        if isinstance(parameter, click.Option):
            if parameter.name == "json":
                continue
            names = " / ".join(f"`{name}`" for name in (*parameter.opts, *parameter.secondary_opts))
            value = "" if parameter.is_flag else parameter.make_metavar(context)
            default = parameter.default
            if isinstance(default, str | int | float) and not parameter.is_flag:
                about += f" Default: {default}."
            taken = f"{names} {_in_a_cell(value)}".rstrip()
            rows.append(f"| {taken} | {_in_a_cell(about)} |")
        else:
            rows.append(f"| {_in_a_cell(parameter.make_metavar(context))} | {_in_a_cell(about)} |")
    if rows:
        yield from ("", "| argument or option | |", "|---|---|", *rows)


def _in_a_cell(text: str | None) -> str:
    words = " ".join((text or "").split())
    return words.replace("|", "\\|").replace("*", "\\*").replace("<", "&lt;")


if __name__ == "__main__":
    PAGE.write_text(page(), encoding="utf-8")
