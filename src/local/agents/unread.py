"""What could not be read of messages that were read in part, logged once a source."""

from collections.abc import Sequence

import structlog

from local.errors import echoed

MOST_SOURCES = 1_000
MOST_LINES = 10
"""Of what could not be read of a message."""
log = structlog.get_logger()


class Unread:
    """Remembers whose messages it has logged: a source publishes more of the same."""

    def __init__(self) -> None:
        self._sources: set[str] = set()

    def tell(self, subject: str, source: str, unread: Sequence[str]) -> None:
        """Log what could not be read, if it is the first of its source."""
        if unread and source not in self._sources and len(self._sources) < MOST_SOURCES:
            self._sources.add(source)
            first = [echoed(line) for line in unread[:MOST_LINES]]
            log.warning(
                "read_in_part", subject=subject, source=source, unread=first, count=len(unread)
            )
