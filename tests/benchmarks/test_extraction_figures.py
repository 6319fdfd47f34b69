"""The benchmark `extraction.py` computes the figures counted by hand."""

from suite.extraction import Kept, Memory, Saying, Session, Turn, User, of_sessions, sayings_counted


def session(id_: str, *texts: str) -> Session:
    turns = [Turn(id=f"{id_}{n}", role="user", content=text) for n, text in enumerate(texts)]
    return Session(id=id_, time="2026-05-01", turns=turns)


def test_a_memory_matches_one_fact_and_facts_of_sessions_without_any_are_junk() -> None:
    user = User(
        id="u",
        sessions=[
            session("A", "I live in Porto.", "I live in Porto with my dog.", "I hate opera."),
            session("B", "I'm allergic to nuts."),
        ],
        memories=[
            Memory(text="\u3010Home\u3011 The user lives in Porto.", session_id="A"),
            Memory(text="A violin stands in the hall.", session_id="A"),
        ],
    )

    precision, recall, junk, _ = of_sessions([user])

    assert (precision.value, recall.value, junk.value) == (1 / 4, 1 / 2, 1 / 4)


def test_an_item_is_correct_if_its_type_topic_and_value_match() -> None:
    home = Kept(type="fact", topic="user.home", holds="Porto")
    sayings = [
        Saying(say="I live in Porto.", keep=home),
        Saying(say="I hate opera.", keep=Kept(type="fact", holds="opera")),
        Saying(say="I live in Leeds."),
    ]

    precision, recall, _ = sayings_counted(sayings)

    assert (precision.value, recall.value) == (1 / 3, 1 / 2)
