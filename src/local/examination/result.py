"""What a check has found."""

from typing import Literal

import msgspec

from local.errors import Local2Error

Verdict = Literal["ok", "note", "broken"]


class CheckResult(msgspec.Struct, omit_defaults=True):
    """The result of one check. A `note` is no fault, because the stack does without it."""

    name: str
    verdict: Verdict
    detail: str
    remedy: str | None = None


def broken(name: str, error: Local2Error) -> CheckResult:
    return CheckResult(name, "broken", error.message, remedy=error.remedy)
