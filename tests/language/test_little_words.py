"""The little words of other languages are known in questions of these languages only."""

import pytest

from local2.language.little_words import little_words_in
from local2.language.words import words


@pytest.mark.parametrize(
    ("text", "left"),
    [
        ("Wo hat die Frau gewohnt, die im Krieg war?", ["frau", "gewohnt", "krieg"]),
        ("¿Qué coche tiene mi hermana?", ["coche", "hermana"]),
        ("Qu'est-ce que l'ordinateur de mon fils a coûté ?", ["ordinateur", "fils", "coûté"]),
        ("Come si chiama il cane dell'amica?", ["chiama", "cane", "amica"]),
        ("Waar woont mijn broer nu?", ["woont", "broer"]),
        ("Como se chama a minha professora?", ["chama", "professora"]),
        ("Gdzie teraz mieszka moja siostra?", ["teraz", "mieszka", "siostra"]),
        ("Где живёт моя сестра?", ["живёт", "сестра"]),
    ],
)
def test_they_are_no_words_of_content(text: str, left: list[str]) -> None:
    little = little_words_in(frozenset(words(text)))

    assert [word for word in words(text) if word not in little] == left


@pytest.mark.parametrize(
    "text",
    [
        "When did my hamster die?",
        "Which hat did the man wear in the war?",
        "hat door son war",
        "Who lives at the Rue de la Paix in Paris?",
        "What did Vincent van der Berg say about the sea?",
        "car insurance",
        "",
    ],
)
def test_they_mean_something_in_an_english_question(text: str) -> None:
    assert not little_words_in(frozenset(words(text)))
