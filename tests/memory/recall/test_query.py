"""Parsing of questions into terms, phrases, topics and times; no question breaks the search."""

from datetime import UTC, datetime

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from calling import caller_named
from local2.memory.recall.query import analyse
from local2.memory.recall.recaller import RecallRequest
from local2.memory.service import MemoryService
from local2.memory.tenant import Memory
from local2.vectors.joined import JoinedEmbedder
from recalling import chat_message, recall, remember

NOW = datetime(2026, 11, 20, 12, 0, tzinfo=UTC)


@pytest.mark.parametrize(
    ("question", "terms"),
    [
        pytest.param("What did I say about gold?", ["gold"], id="stop words"),
        pytest.param("gold, Gold and GOLD", ["gold"], id="each once"),
        pytest.param("Größe von Gold", ["größe", "von", "gold"], id="letters beyond ASCII"),
        pytest.param("two cafe\u0301s", ["two", "cafés"], id="an accent of its own"),
        pytest.param("İstanbul", ["i\u0307stanbul"], id="a letter that is two in lower case"),
        pytest.param("What did I say about it?", [], id="stop words only"),
        pytest.param("???", [], id="no words"),
    ],
)
def test_the_terms_of_a_question_exclude_stop_words(question: str, terms: list[str]) -> None:
    assert list(analyse(question, NOW).terms) == terms


@pytest.mark.parametrize(
    ("embedder", "found"),
    [
        (JoinedEmbedder.name, ["Der Skoda hat einen neuen Besitzer."]),
        (None, ["Der Skoda hat einen neuen Besitzer.", "Wir waren in der Stadt."]),
    ],
)
async def test_little_words_of_any_language_count_with_an_english_embedder_only(
    memory: Memory, richard: MemoryService, embedder: str | None, found: list[str]
) -> None:
    for text in ("Der Skoda hat einen neuen Besitzer.", "Wir waren in der Stadt."):
        await remember(richard, text)
    memory.indexer.embedder = embedder

    assert await recall(richard, "Wo ist der Skoda, mit dem wir waren?") == found


def test_a_very_long_question_has_a_bounded_number_of_terms() -> None:
    query = analyse(" ".join(f"w{n} a{n}.b{n} " for n in range(500)), NOW)

    assert len(query.terms) <= 32
    assert len(query.phrases) <= 8


@pytest.mark.parametrize(
    ("question", "phrase"),
    [
        pytest.param('Who said "the moon is cheese"?', "the moon is cheese", id="quoted"),
        pytest.param("Who said “moon cheese”?", "moon cheese", id="other quotes"),
        pytest.param("What is in src/local2/app.py?", "src local2 app py", id="path"),
        pytest.param("Why v1.2.3?", "v1 2 3", id="version"),
        pytest.param('Is the "cafe\u0301 noir" open?', "café noir", id="accents"),
        pytest.param("mail ann@example.org", "ann example org", id="address"),
    ],
)
def test_quotations_and_identifiers_are_searched_as_phrases(question: str, phrase: str) -> None:
    assert phrase in analyse(question, NOW).phrases


@pytest.mark.parametrize(
    "question",
    [
        pytest.param('Is "AI" the same as "ML"?', id="short ones"),
        pytest.param(f'Is "{"gold " * 20}" not what "iron" is?', id="a long one"),
    ],
)
def test_text_between_two_quotations_is_not_a_phrase(question: str) -> None:
    assert analyse(question, NOW).phrases == ()


@pytest.mark.parametrize(
    ("question", "topics"),
    [
        ("What is user.language_preference?", ["user.language_preference"]),
        ("Compare project.deadline, project.budget.", ["project.deadline", "project.budget"]),
        ("Is it (user.name)", ["user.name"]),
        ("What is agent.name or user. name?", []),
        ("Compare User.Name with PROJECT.dead-line.", ["User.Name", "PROJECT.dead-line"]),
        ("“user.любимый_язык”, user.Größe!", ["user.любимый_язык", "user.Größe"]),
        ("user.पसंदीदा_भाषा?", ["user.पसंदीदा_भाषा"]),
        ("user.name's, myuser.name, project.a—b", ["user.name", "project.a"]),
    ],
)
def test_topic_keys_are_found_anywhere_in_a_question(question: str, topics: list[str]) -> None:
    assert list(analyse(question, NOW).topics) == topics


def test_a_time_becomes_a_window() -> None:
    window = analyse("What did I do in May 2023?", NOW).window

    assert window is not None
    assert (window.since, window.until) == (
        datetime(2023, 5, 1, tzinfo=UTC),
        datetime(2023, 6, 1, tzinfo=UTC),
    )
    assert analyse("What may I do?", NOW).window is None


@pytest.mark.parametrize(
    "identifier",
    [
        "foo_bar",
        "E1234",
        "v1.2.3",
        "path/to/file.py",
        "ERR-42",
        "x86_64",
        "user@host",
        "10.0.0.17",
        "C++20",
        "naïve_Bayes",
    ],
)
async def test_an_identifier_is_found_among_others_with_the_same_parts(
    richard: MemoryService, identifier: str
) -> None:
    parts = ["foo", "bar", "path", "file", "py", "err", "user", "host", "x86", "bayes"]
    for part in parts:
        await richard.intake.store_conversation(
            [chat_message(f"There was {part} and 1 and 2 and 10 and 64 in it.")], part
        )
    await richard.intake.store_conversation(
        [chat_message(f"There was {identifier} in it.")], "wanted"
    )

    found = await recall(richard, f"What about {identifier}?")

    assert found[0] == f"There was {identifier} in it."


async def test_quoted_words_are_found_where_they_are_adjacent(richard: MemoryService) -> None:
    await richard.intake.store_conversation(
        [chat_message("The cheese is old, and so is the moon: it is cold there.")], "a"
    )
    await richard.intake.store_conversation(
        [chat_message("They say that the moon cheese is cold, and so is the air.")], "b"
    )

    found = await recall(richard, 'Who said "moon cheese"?')

    assert found[0].startswith("They say")


@pytest.mark.parametrize("text", ["İstanbul has many cafés.", "İstanbul has many cafe\u0301s."])
@pytest.mark.parametrize("question", ["İstanbul", "istanbul", "cafe\u0301s", "cafés", "CAFÉS"])
async def test_words_are_found_in_any_encoding_of_their_accents(
    richard: MemoryService, question: str, text: str
) -> None:
    await richard.intake.store_conversation([chat_message(text)])

    (item,) = (await richard.recall(RecallRequest(query=question, top_k=5))).items

    assert item.record.content == text
    assert item.shares.words > 0
    assert item.shares.coverage > 0


@pytest.mark.parametrize("question", ["What did I say?", "?", "the", "_", "\N{SUPERSCRIPT TWO}"])
async def test_a_question_without_words_finds_nothing_by_words(
    richard: MemoryService, question: str
) -> None:
    await richard.intake.store_conversation([chat_message("What did I say about the moon?")])

    assert await recall(richard, question) == []


@pytest.fixture
async def of_the_moon(richard: MemoryService) -> str:
    await richard.intake.store_conversation([chat_message("The moon is a cheese.")])
    return "The moon is a cheese."


SYNTAX = st.text(alphabet="\"*^:(){}+-~AND OR NOT NEAR'_\x00,;%.[]\\“”«»", min_size=1)


@given(question=st.text(min_size=1) | SYNTAX)
@example(question='"' * 100)
@example(question="content: moon")
@example(question="places : p64")
@example(question="a.b.c.d.e " * 400)
@example(question="x" * 100_000)
@example(question="NEAR(moon cheese, 2)")
@example(question="\u0345_\u0300 ²³ ①② \U0001d7d8\U0001d7d9")
async def test_no_question_breaks_the_search(
    richard: MemoryService, of_the_moon: str, question: str
) -> None:
    if question.isspace():
        return
    assert await recall(richard, question) in ([], [of_the_moon])


@given(
    question=st.lists(
        st.sampled_from(
            ["last", "week", "in", "May", "2023", "31", "February", "0", "ago", "99999"]
        ),
        min_size=1,
    ).map(" ".join)
)
async def test_no_time_breaks_the_search(memory: Memory, question: str) -> None:
    assert await recall(memory.of(caller_named("richard")), question) == []


@given(name=st.text(min_size=1, max_size=40), content=st.text(min_size=1))
async def test_no_name_and_no_content_break_the_search(
    memory: Memory, name: str, content: str
) -> None:
    service = memory.of(caller_named(name, agent=name, session_id=name))
    if not content.isspace():
        await service.intake.store_conversation([chat_message(f"{content} osmium", name=name)])

        assert "osmium" in str(await recall(service, "osmium", scope="session"))
