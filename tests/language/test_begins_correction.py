"""What begins a correction of what the same speaker said just before."""

import pytest

from local2.language.corrections import begins_correction


@pytest.mark.parametrize(
    ("before", "text"),
    [
        ("Please leave it with Mr Otieno at number 4.", "Sorry, number 14, I mix that up."),
        ("The reviews start on April 7th.", "No, sorry, the 8th, the 7th is a holiday."),
        ("we got a gig!! 14th march", "nah sorry its the 15th"),
        ("Die Übergabe ist am Montag.", "Ach nein, am Mittwoch."),
    ],
)
def test_another_value_of_the_same_kind_corrects(before: str, text: str) -> None:
    assert begins_correction(text, before)


@pytest.mark.parametrize(
    ("before", "text"),
    [
        ("I will be there at seven, Jon.", "No problem, Jon! You earned all the kudos."),
        ("You gave me good advice.", "No worries, I gave good advice gladly."),
        ("That would be a detour.", "Well, here's to Zurich on the 7th, then."),
        ("See you on Monday.", "No, will it be Tuesday?"),
    ],
)
def test_a_friendly_answer_does_not_correct(before: str, text: str) -> None:
    assert not begins_correction(text, before)
