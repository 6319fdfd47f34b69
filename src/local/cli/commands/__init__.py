"""The arguments of all commands, in groups. Their implementations are imported when they run.

This module has the options that several commands share. Whatever the commands' modules import is
imported for each command, even for `local2 version`.
"""

from pathlib import Path

import click

PATH = click.Path(path_type=Path)
json_option = click.option("--json", is_flag=True, help="Print JSON for programs.")
session_option = click.option("--session", help="Continue this session. Default: a new session.")
user_option = click.option("--user", help="Ask as this user.")
agent_option = click.option("--agent", default="cli", help="Ask as this agent.")
yes_option = click.option("--yes", is_flag=True, help="Do not ask for confirmation.")
