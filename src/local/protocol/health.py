"""What the memory says of itself to whoever watches it."""

from typing import Literal

import msgspec

HealthStatus = Literal["ok", "degraded", "unavailable"]


class Readiness(msgspec.Struct, kw_only=True):
    """The answer to `memory.ready`: whether tools are served, and if not, why."""

    ready: bool
    reasons: list[str] = []


class Health(msgspec.Struct, kw_only=True):
    """The answer to `memory.health`.

    `degraded`: everything is served, and something is missing or waits that should not.
    `unavailable`: not ready.
    """

    status: HealthStatus
    reasons: list[str] = []
