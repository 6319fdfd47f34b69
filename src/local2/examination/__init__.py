"""The checks of `local2 doctor`: what works, what is missing, and how to repair it."""

import asyncio
from collections.abc import Iterator, Sequence

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
    findings += _say_once(START_OLLAMA, await asyncio.gather(*check_models(settings)))
    findings += [finding async for finding in check_stack(settings, deep=deep)]
    return findings


def _say_once(remedy: str, findings: Sequence[CheckResult]) -> Iterator[CheckResult]:
    """Yield the findings with this remedy in only one of them, preferably a broken one."""
    having = [finding for finding in findings if finding.remedy == remedy]
    kept = next(
        (finding for finding in having if finding.verdict == "broken"),
        having[0] if having else None,
    )
    for finding in findings:
        drop = finding in having and finding is not kept
        yield msgspec.structs.replace(finding, remedy=None) if drop else finding
