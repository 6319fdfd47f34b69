"""The checks of `local2 doctor`: what works, what is missing, and how to repair it."""

import asyncio

from local.examination.installation import (
    check_folder,
    check_hooks,
    check_key,
    check_memory,
    check_minilm,
    check_package,
    check_server,
)
from local.examination.models import check_models
from local.examination.stack import check_stack
from local.protocol.maintenance import CheckResult
from local.settings import Settings


async def run_checks(settings: Settings, *, deep: bool = False) -> list[CheckResult]:
    """Run all checks. `deep` also reads the whole ledger, which is slow."""
    findings = [
        check_package(),
        check_memory(settings),
        await check_server(),
        *[check_folder(path) for path in (settings.memory.data_dir, settings.memory.chroma_path)],
        *check_key(settings.memory),
        check_minilm(settings.memory),
        *check_hooks(settings.memory.data_dir),
    ]
    findings += await asyncio.gather(*check_models(settings))
    findings += [finding async for finding in check_stack(settings, deep=deep)]
    return findings
