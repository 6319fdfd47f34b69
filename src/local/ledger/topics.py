"""Standing facts kept in memory: agents ask for the same few again and again."""

from collections import OrderedDict

from local.ledger.records import NewRecord, Record, folded

Key = tuple[str, str, str]

KEPT = 4_096
LARGEST = 4_096
"""Characters of a fact worth keeping."""


class RecentTopics:
    """The facts asked for lately, as the ledger has them; only one process writes the ledger.

    `version` changes with every write. Who reads the ledger keeps what it found only if the version
    is still the same: otherwise an older value could be kept after a newer one was committed.
    """

    def __init__(self) -> None:
        self.version = 0
        self._records: OrderedDict[Key, Record] = OrderedDict()

    def get(self, key: Key) -> Record | None:
        """The fact under (scope, owner, folded topic), if it is kept."""
        record = self._records.get(key)
        if record is not None:
            self._records.move_to_end(key)
        return record

    def keep(self, record: Record) -> None:
        if len(record.content) > LARGEST:
            return
        self._records[_key(record)] = record
        if len(self._records) > KEPT:
            self._records.popitem(last=False)

    def forget(self, record: NewRecord) -> None:
        """This fact was replaced, or another took its place."""
        self.version += 1
        self._records.pop(_key(record), None)


def _key(record: NewRecord) -> Key:
    return record.scope, record.owner, folded(record.topic or "")
