"""`local2 doctor`: what is there, what is missing, and how to mend it."""

import sys

from rich.table import Table

from local.cli.output import FAILED, Output, run_async, shown
from local.examination import Verdict, examined
from local.settings import Settings

MARKS: dict[Verdict, str] = {"ok": "[green]✓[/]", "note": "[yellow]•[/]", "broken": "[red]✗[/]"}


def doctor(settings: Settings, output: Output, *, deep: bool = False) -> None:
    findings = run_async(examined(settings, deep=deep))
    output.data(findings)
    table = Table("", "What", "Finding")
    table.add_column("What to do", overflow="fold")
    for finding in findings:
        mark = MARKS[finding.verdict]
        table.add_row(mark, *map(shown, (finding.name, finding.detail, finding.remedy or "")))
    output.table(table)
    if any(finding.verdict == "broken" for finding in findings):
        sys.exit(FAILED)
