"""Checkpoints of LangGraph on local2: its own conformance suite, sizes, users, delta channels."""

from collections.abc import AsyncGenerator

from langgraph.checkpoint.conformance import checkpointer_test, validate
from langgraph.checkpoint.conformance.capabilities import ALL_CAPABILITIES

from local.integrations.langgraph import LocalSaver


async def test_the_conformance_suite_passes_with_every_capability(saver: LocalSaver) -> None:
    async def made() -> AsyncGenerator[LocalSaver, None]:
        yield saver

    report = await validate(checkpointer_test(name="LocalSaver")(made))

    failures = [failure for result in report.results.values() for failure in result.failures]
    assert failures == []
    passed = {name for name, result in report.results.items() if result.passed}
    assert passed == {capability.value for capability in ALL_CAPABILITIES}
