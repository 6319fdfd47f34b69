"""Announcements of changes: what they change, and what only looks like one."""

import pytest

from local.memory.recall.announcements import analyse, announces, corrects
from local.text.words import informative_words, stems


def announces_change(later: str, earlier: str, question: str) -> bool:
    asked = frozenset(stems(informative_words(question)))
    return announces(analyse(later), analyse(earlier), asked)


@pytest.mark.parametrize(
    ("earlier", "later", "question"),
    [
        pytest.param(
            "The import runs at 2 am.",
            "We shifted the import to 4 am because of the other jobs.",
            "When does the import run?",
            id="another value of the thing in question",
        ),
        pytest.param(
            "My nephew goes to Hill School.",
            "My nephew switched to Lake School.",
            "Which school does my nephew go to?",
            id="another name",
        ),
        pytest.param(
            "Rex eats dry food from the shop.",
            "The doctor switched Rex to wet food.",
            "What does Rex eat?",
            id="values without a kind, but another common word",
        ),
        pytest.param(
            "I sit in the second row.",
            "They moved me up to the third row.",
            "Which row do I sit in?",
            id="another rank",
        ),
        pytest.param(
            "The limit of the search API is 100.",
            "They raised the search API limit to 250.",
            "What is the limit of the search API?",
            id="the same modifiers in another order",
        ),
        pytest.param(
            "I work at Falk as a cook.",
            "I left Falk for Lind last month.",
            "Who is my employer?",
            id="left for another",
        ),
        pytest.param(
            "My phone is a Pixel.",
            "I swapped my Pixel for a Nokia.",
            "Which phone do I have?",
            id="the value of what is mine",
        ),
        pytest.param(
            "I'm reading Emma.",
            "I finished Emma and started Persuasion.",
            "What am I reading?",
            id="finished what was in progress",
        ),
        pytest.param(
            "We use Redis as a cache.",
            "We don't use Redis any more, it's Valkey.",
            "What is our cache?",
            id="not any more",
        ),
        pytest.param(
            "We're spending Easter in Lisbon.",
            "Lisbon fell through, it's Porto.",
            "Where are we spending Easter?",
            id="fell through",
        ),
        pytest.param(
            "The party is in the garden.",
            "We went from the garden to the barn.",
            "Where is the party?",
            id="from a former value to another",
        ),
    ],
)
def test_an_announcement_names_another_value_or_what_has_ended(
    earlier: str, later: str, question: str
) -> None:
    assert announces_change(later, earlier, question)


@pytest.mark.parametrize(
    ("earlier", "later", "question"),
    [
        pytest.param(
            "The import runs at 2 am.",
            "We may have moved the import to 4 am.",
            "When does the import run?",
            id="a supposition",
        ),
        pytest.param(
            "My cousin lives in York.",
            "My cousin moved to Bath in 2015.",
            "Where does my cousin live?",
            id="a memory",
        ),
        pytest.param(
            "The fair is in Vienna.",
            'The mail reads "the fair was moved to Graz".',
            "Where is the fair?",
            id="a quotation",
        ),
        pytest.param(
            "My rent is 700.",
            "My brother's rent went up to 900.",
            "What is my rent?",
            id="of somebody else",
        ),
        pytest.param(
            "I drive a Golf.",
            "The neighbour replaced his Golf with a Polo.",
            "Which car do I drive?",
            id="his",
        ),
        pytest.param(
            "I work at Falk.",
            "Tom left Falk for Lind.",
            "Where do I work?",
            id="ended for another person",
        ),
        pytest.param(
            "My brother is at Falk.",
            "I left Falk for Lind.",
            "Where is my brother?",
            id="ended for oneself only",
        ),
        pytest.param(
            "The test timeout is 10 seconds.",
            "We raised the import timeout to 60 seconds.",
            "What is the test timeout?",
            id="another modifier",
        ),
        pytest.param(
            "The flight to Oslo is at 6:15.",
            "The flight to Rome was moved to 8:20.",
            "When is the flight to Oslo?",
            id="another name beside the value",
        ),
        pytest.param(
            "My bike is red.",
            "I moved my bike to the barn.",
            "Which colour is my bike?",
            id="no other value",
        ),
        pytest.param(
            "The review is on Friday.",
            "We moved the review to Zoom.",
            "When is the review?",
            id="a value of another kind",
        ),
        pytest.param(
            "We meet Anna on Thursday.",
            "We moved the sofa with Anna on Saturday.",
            "When do we meet Anna?",
            id="another object",
        ),
        pytest.param(
            "We use MySQL for the shop.",
            "We use Valkey now.",
            "Which database do we use for the shop?",
            id="only the verb is the same",
        ),
        pytest.param(
            "The meeting room is on floor 3.",
            "We cancelled the meeting.",
            "Where is the meeting room?",
            id="the ended thing only modifies the one in question",
        ),
        pytest.param(
            "Emma is my favourite book.",
            "I finished Emma and started Persuasion.",
            "Which book is my favourite?",
            id="finished, but was not in progress",
        ),
    ],
)
def test_what_leaves_the_earlier_value_as_it_is_is_no_announcement(
    earlier: str, later: str, question: str
) -> None:
    assert not announces_change(later, earlier, question)


def test_a_correction_names_a_value_of_the_message_that_it_corrects() -> None:
    earlier = analyse("My shoes are size 42.")

    assert corrects(analyse("Actually it's 43, not 42."), earlier)
    assert not corrects(analyse("It's Monday, not Sunday."), earlier)
    assert not corrects(analyse("I'd take these, not those."), earlier)
