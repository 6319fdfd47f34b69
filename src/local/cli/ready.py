"""`local2 doctor --ready`: whether the stack serves, for health checks, which ask for ever."""

import sys

from local.cli.output import FAILED, Output, run_async
from local.client.maintenance import readiness
from local.settings import Settings


def ready(settings: Settings, output: Output) -> None:
    answer = run_async(readiness(settings))
    output.data(answer)
    output.text("ready" if answer.ready else " ".join(answer.reasons))
    if not answer.ready:
        sys.exit(FAILED)
