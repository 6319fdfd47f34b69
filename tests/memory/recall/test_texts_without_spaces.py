"""Texts without spaces between words are found by words, without a vector worker.

The tests run over the bus, in a memory that is searched in full and in one that is not.
"""

from collections.abc import Sequence

import pytest

from calling import RICHARD, answer
from local2.bus.connection import Connection
from local2.client.tools import call_tool
from local2.ledger.engines.sqlite.database import Database
from stored import records, select

pytestmark = pytest.mark.usefixtures("either_size", "tools")

CHINESE = (
    "测试服务器运行在8443端口。",
    "我在所有编辑器里都喜欢深色主题。",
    "数据库密码保存在保险库里。",
    "我养了一只猫。它喜欢睡觉。",
    "团队每周二上午十点开会。",
)
JAPANESE = (
    "テストサーバーはポート8443で動いています。",
    "どのエディタでも暗いテーマが好きです。",
    "経理の担当は田中さんです。",
    "会議は毎週火曜日に始まります。",
)


async def remember(bus: Connection, facts: Sequence[str]) -> None:
    for fact in facts:
        args = {"content": fact, "scope": "user"}
        result = await call_tool(bus, "remember_fact", args, caller=RICHARD)
        assert result.ok, result.content


async def found(bus: Connection, query: str) -> list[str]:
    result = await call_tool(bus, "recall", {"query": query}, caller=RICHARD)
    assert result.ok, result.content
    assert result.data["degraded"]
    return [item["content"] for item in result.data["items"]]


@pytest.mark.parametrize(
    ("facts", "asked"),
    [
        pytest.param(
            CHINESE,
            [
                ("测试服务器用哪个端口?", CHINESE[0]),
                ("主题 编辑器", CHINESE[1]),  # words in another order
                ("密码在数据库的什么地方保存", CHINESE[2]),  # a sentence in another order
                ("猫", CHINESE[3]),  # a single character within a sentence
                ("我的猫呢?", CHINESE[3]),  # one between words of grammar
                ("team meeting 团队", CHINESE[4]),  # mixed scripts
                ("8443 端口", CHINESE[0]),
            ],
            id="Chinese",
        ),
        pytest.param(
            JAPANESE,
            [
                ("サーバーはどのポートを使っていますか?", JAPANESE[0]),
                ("テーマ エディタ", JAPANESE[1]),  # words in another order
                ("経理は誰ですか?", JAPANESE[2]),  # characters and particles
                ("火曜日の会議", JAPANESE[3]),  # two words in another order
            ],
            id="Japanese",
        ),
        pytest.param(
            ["회의는 화요일에 시작합니다.", "고양이를 키웁니다."],
            [("고양이가 있나요?", "고양이를 키웁니다.")],
            id="Korean, with another particle",
        ),
        pytest.param(["ฉันชอบกาแฟดำ", "ประชุมทุกวันอังคาร"], [("กาแฟ", "ฉันชอบกาแฟดำ")], id="Thai"),
    ],
)
async def test_a_fact_is_found_by_questions_and_by_words(
    bus: Connection, facts: Sequence[str], asked: Sequence[tuple[str, str]]
) -> None:
    await remember(bus, facts)

    for query, fact in asked:
        assert (await found(bus, query))[:1] == [fact], query


async def test_a_common_character_alone_finds_nothing(bus: Connection) -> None:
    await remember(bus, CHINESE)

    assert await found(bus, "是的。我在。") == []
    assert CHINESE[2] not in await found(bus, "我的猫在哪里?")


async def test_one_common_character_does_not_rank_above_matching_words(
    bus: Connection,
) -> None:
    await remember(bus, ["用户的数据很多。", "数字都要用逗号分开。", "据说明天会下雨。"])

    assert (await found(bus, "数据"))[0] == "用户的数据很多。"
    assert "据说明天会下雨。" not in await found(bus, "数据")


async def left(database: Database) -> int:
    """Count the rows with a pair, and those that the full-text index finds by one."""
    matched = await select(database, "SELECT 1 FROM record_text WHERE record_text MATCH '主题'")
    stored = [row for row in await records(database) if row["pairs"] is not None]
    return len(matched) + len(stored)


async def test_a_forgotten_record_leaves_no_pair(bus: Connection, database: Database) -> None:
    await remember(bus, CHINESE[:2])
    assert await left(database) == 1 + 2

    await answer(bus, "forget", {"everything": True})

    assert await left(database) == 0
