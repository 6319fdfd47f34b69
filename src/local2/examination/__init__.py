"""The checks of `local2 doctor`: what works, what is missing, and how to repair it."""

import asyncio

import msgspec

from local2.examination.installation import (
    check_e5,
    check_folder,
    check_hooks,
    check_key,
    check_memory,
    check_minilm,
    check_package,
    check_server,
)
from local2.examination.models import START_OLLAMA, check_models
from local2.examination.stack import check_stack
from local2.protocol.maintenance import CheckResult
from local2.settings import Settings


async def run_checks(settings: Settings, *, deep: bool = False) -> list[CheckResult]:
    """Run all checks. `deep` also reads the whole ledger, which is slow."""
    findings = [
        check_package(),
        *check_memory(settings),
        await check_server(),
        check_folder(settings.memory.data_dir),
        *([check_folder(settings.memory.chroma_path)] if settings.memory.ledger is None else []),
        *check_key(settings.memory),
        check_minilm(settings.memory),
        *check_e5(settings.memory),
        *check_hooks(settings.memory.data_dir),
    ]
    models = await asyncio.gather(*check_models(settings))
    # Only one of them says how to start Ollama, preferably a broken one.
    advising = [finding for finding in models if finding.remedy == START_OLLAMA]
    kept = min(advising, key=lambda finding: finding.verdict != "broken", default=None)
    findings += [
        msgspec.structs.replace(finding, remedy=None)
        if finding in advising and finding is not kept
        else finding
        for finding in models
    ]
    findings += [finding async for finding in check_stack(settings, deep=deep)]
    return findings
