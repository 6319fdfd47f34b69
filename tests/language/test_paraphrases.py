"""Statements in other words: which say the same, and which only sound alike."""

from itertools import combinations

import pytest

from local2.language.paraphrases import are_paraphrases, paraphrase_key
from wordings import HALVES


@pytest.mark.parametrize("half", HALVES)
def test_what_is_joined_says_the_same(half: str) -> None:
    group_of = HALVES[half].group_of
    joined = [
        (group_of[one], group_of[other])
        for one, other in combinations(group_of, 2)
        if are_paraphrases(one, other, "richard")
    ]

    assert all(number == another for number, another in joined)
    assert all(number < len(HALVES[half].wordings) for number, _ in joined)
    assert len(joined) >= HALVES[half].least * 3 * len(HALVES[half].wordings)


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("I like dark roast coffee.", "The user prefers dark-roasted coffee"),
        ("I like dark roast coffee.", "Richard is fond of dark roast coffee."),
        ("Likes tea", "User enjoys tea."),
        ("The user's dog is called Rex.", "I have a dog named Rex."),
        ("The harbour opens at 6.", "the harbor opens at six"),
        ("Ich mag Tee.", "ich mag Tee"),
    ],
)
def test_a_note_about_the_speaker_says_the_same_as_his_own_words(one: str, other: str) -> None:
    assert paraphrase_key(one, "richard") == paraphrase_key(other, "richard")
    assert are_paraphrases(one, other, "richard")


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("I retired.", "I am retired."),
        ("I like big dogs and small cats.", "I like small dogs and big cats."),
        ("I use C++.", "I use C#."),
        ("The freezer is at -5 degrees.", "The freezer is at 5 degrees."),
        ("My hobbies: chess, climbing.", "My hobbies: climbing, chess."),
        ("I like tea, coffee, milk.", "I like milk, tea, coffee."),
        ("I live in Ann's house.", "I live in Anne's house."),
        ("I like the house where I live.", "I like the house where I lived."),
        ("Ada likes Ben.", "Ben likes Ada."),
        ("My cat hates my dog.", "My dog hates my cat."),
        ("Eve likes tea.", "I like tea."),
        ("Do I like tea?", "I like tea."),
        ("Ich mag Tee.", "Ich mag keinen Tee."),
        ("I like tea. I live in Rome.", "I live in Rome. I like tea."),
    ],
)
def test_what_only_sounds_alike_is_kept_apart(one: str, other: str) -> None:
    assert not are_paraphrases(one, other, "richard")
