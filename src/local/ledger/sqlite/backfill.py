"""Reads the features of what an older local2 stored; until then ranking reads them itself."""

import asyncio

import structlog

from local.errors import StorageError
from local.ledger.sqlite.database import Row
from local.ledger.sqlite.rows import Parameters, TenantRows
from local.text.features import features_of

PAGE = 100

log = structlog.get_logger()


async def backfill(rows: TenantRows) -> None:
    """Keep the features of every record that has none."""
    try:
        lacking = await rows.one("lacks_features")
        if lacking is None or not lacking["lacking"]:
            return
        after = done = 0
        while page := await rows.all("without_features", after=after, limit=PAGE):
            await rows.change_each("keep_features", await asyncio.to_thread(_read, page))
            after, done = page[-1]["row"], done + len(page)
    except StorageError as error:  # the next start tries again
        log.warning("features_delayed", reason=str(error))
    else:
        log.info("features_read", records=done)


def _read(page: list[Row]) -> list[Parameters]:
    return [
        {
            "record": row["row"],
            **features_of(
                row["content"], topic=row["topic"], label=row["label"], event_time=row["event_time"]
            )._asdict(),
        }
        for row in page
    ]
