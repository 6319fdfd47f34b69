"""The result of a check."""

from typing import Literal

import msgspec

from local.errors import Local2Error

Verdict = Literal["ok", "note", "broken"]


class CheckResult(msgspec.Struct, kw_only=True, omit_defaults=True):
    """The result of one check. A `note` is no fault, because the stack does without it."""

    name: str
    verdict: Verdict
    detail: str
    remedy: str | None = None


def broken(name: str, error: Local2Error) -> CheckResult:
    return CheckResult(name=name, verdict="broken", detail=error.message, remedy=error.remedy)
