"""Extraction without a model."""

from local.memory.extraction.items import Item, Passage


class RulesExtractor:
    """Finds what is plainly stated; the same text always gives the same items."""

    async def extract(self, passage: Passage) -> list[Item]:  # noqa: ARG002 - its rules come next
        return []
