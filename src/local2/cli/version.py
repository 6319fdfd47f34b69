"""`local2 version`: print the version, also if the settings are wrong."""

import click

from local2._version import __version__
from local2.cli.output import Output


@click.command()
@click.option("--json", is_flag=True, help="Print JSON for programs.")
def version(*, json: bool) -> None:
    output = Output(json=json)
    output.data({"version": __version__})
    output.text(__version__)
