"""Pairs for texts without spaces: added to older ledgers, without effect on other scores."""

from functools import partial
from pathlib import Path

from local2.language.features import Features
from local2.ledger.door import Ledger
from local2.ledger.sqlite.database import Database, SqlConnection
from local2.ledger.sqlite.sql import migrations

CHINESE, ENGLISH = "我喜欢深色主题。", "Richard prefers dark themes — in every editor."
FEATURES = Features(" 主题=1 ", 8, 0.5, 0, timed=False, wish=False)
TEXTS = (
    "The staging server runs on port 8443.",
    "The server of the database runs on another port, and another server beside it.",
    "Dark themes are easier on the eyes.",
    ENGLISH,
)
QUERIES = ("server", "server OR port", "dark OR themes OR port", '"staging server"', "editor")
BEFORE = [file for file in migrations() if file.name < "0016"]


def insert(connection: SqlConnection, *texts: str) -> int:
    """Insert records as an older local2 did: with features of whole runs, and without pairs."""
    for number, text in enumerate(texts):
        connection.execute(
            "INSERT INTO record (tenant, id, kind, scope, owner, content, event_time)"
            " VALUES ('default', ?, 'fact', 'user', 'ada', ?, '2026-05-02T14:23:01.000+00:00')",
            (f"f{number}", text),
        )
    return connection.execute(
        "INSERT INTO feature SELECT row, ' old=1 | ', length(content), 0.5, 0, 0, 0 FROM record"
    ).rowcount


def scores(connection: SqlConnection, query: str) -> list[tuple[int, float]]:
    """Return the scores that `search_text` uses."""
    return [
        (row, score)
        for row, score in connection.execute(
            "SELECT rowid, bm25(record_text, 1, 1, 1, 1, 0) FROM record_text"
            " WHERE record_text MATCH ? ORDER BY rowid",
            (query,),
        )
    ]


async def test_an_older_ledger_gets_its_pairs_when_its_features_are_recomputed(
    tmp_path: Path,
) -> None:
    file = tmp_path / "old.sqlite3"
    async with Database.open(file, BEFORE) as old:
        await old.write(lambda c: insert(c, CHINESE, ENGLISH))
    async with Database.open(file, migrations()) as database:
        ledger = Ledger(database, "default")
        await ledger.backfill()

        found = await database.read(lambda c: scores(c, "主题"))
        stems = await database.read(
            lambda c: [row[0] for row in c.execute("SELECT stems FROM feature ORDER BY record")]
        )

        assert [row for row, _ in found] == [1]
        assert " 主题=1 " in stems[0]
        assert stems[1] == " old=1 | "  # a dash is not a run, so its text is not read again
        assert await ledger.problems() == []


async def test_a_record_erased_during_the_update_gets_no_pairs(tmp_path: Path) -> None:
    async with Database.open(tmp_path / "new.sqlite3", migrations()) as database:
        await database.write(lambda c: insert(c, CHINESE))
        rows = Ledger(database, "default")._rows
        erased = {"record": 1, "content": "Another text.", "pairs": "深色"}

        assert await rows.change("keep_pairs", **erased) == 0


async def test_a_record_erased_during_the_update_gets_no_features(tmp_path: Path) -> None:
    async with Database.open(tmp_path / "new.sqlite3", migrations()) as database:
        await database.write(lambda c: insert(c, CHINESE))
        rows = Ledger(database, "default")._rows
        await database.write(lambda c: c.execute("DELETE FROM feature"))
        [row] = await rows.all("without_features", after=0, limit=1)
        read = {"record": row["row"], "content": row["content"], **FEATURES._asdict()}
        erased = {**read, "content": "Another text."}

        assert await rows.change("keep_features", **erased) == 0
        assert await rows.change("keep_features", **read) == 1


async def test_scores_of_texts_with_spaces_are_unchanged(tmp_path: Path) -> None:
    async with (
        Database.open(tmp_path / "old.sqlite3", BEFORE) as old,
        Database.open(tmp_path / "new.sqlite3", migrations()) as new,
    ):
        for database in (old, new):
            await database.write(lambda c: insert(c, *TEXTS))

        for query in QUERIES:
            query_scores = partial(scores, query=query)
            before, after = [await database.read(query_scores) for database in (old, new)]
            assert before, query
            assert after == before
