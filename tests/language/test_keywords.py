"""The share of a question's words that a text contains."""

import pytest

from local2.language.words import LONGEST_KNOWN, _known_stem, density, stems, terms, words


def test_only_the_first_and_last_words_of_a_long_text_count() -> None:
    every = [f"word{number}" for number in range(100)]

    assert terms(" ".join(every)) == [*every[:16], *every[-16:]]


@pytest.mark.parametrize(
    ("query", "content", "share"),
    [
        pytest.param("symbol of gold", "The symbol of gold is Au.", 1.0, id="every word"),
        pytest.param("symbol of gold", "Gold is heavy.", 0.5, id="one word of two"),
        pytest.param("symbol of gold", "The moon pulls at the oceans.", 0.0, id="none"),
        pytest.param("GOLD", "gold", 1.0, id="upper and lower case"),
        pytest.param("gold gold moon", "gold", 0.5, id="a repeated word counts once"),
        pytest.param("ratings", "He rated it.", 1.0, id="an ending"),
        pytest.param("databases", "a database", 1.0, id="a plural asked for"),
        pytest.param("database", "two databases", 1.0, id="a plural found"),
        pytest.param("preferred", "I prefer Elixir.", 1.0, id="an ending of two letters"),
        pytest.param("editing", "editor", 0.0, id="who does it is another word"),
        pytest.param("rate", "The rating.", 1.0, id="an ending that takes an e away"),
        pytest.param("prefer", "My preferences", 1.0, id="a longer ending"),
        pytest.param("data", "a database", 0.0, id="a word inside another"),
        pytest.param("stories", "a story", 1.0, id="another last letter"),
        pytest.param("cat", "to locate", 0.0, id="a short word within another"),
        pytest.param("moonlight", "moon", 0.0, id="a compound"),
        pytest.param("cat", "cats", 1.0, id="a short word with an ending"),
        pytest.param("cat", "car", 0.0, id="a short word with another last letter"),
        pytest.param("gold", "golf", 0.0, id="a short word is no stem"),
        pytest.param("station", "statute", 0.0, id="the same beginning only"),
        pytest.param("what is the gold", "The", 0.0, id="stop words in the question do not count"),
        pytest.param("What did I say about it?", "I said it.", 0.0, id="stop words only"),
        pytest.param("", "gold", 0.0, id="no question"),
        pytest.param("gold", "", 0.0, id="no text"),
        pytest.param("größe", "Die Größe ist 42.", 1.0, id="letters beyond ASCII"),
    ],
)
def test_a_text_contains_a_share_of_the_questions_words(
    query: str, content: str, share: float
) -> None:
    query_stems = set(stems(terms(query)))
    assert len(query_stems.intersection(stems(words(content)))) / max(len(query_stems), 1) == share


def test_possessive_and_contraction_endings_are_not_words() -> None:
    assert terms("Ann's cat isn\u2019t Bob's") == ["ann", "cat", "isn", "bob"]


def test_stems_have_no_accents() -> None:
    assert stems(["caf\u00e9s", "gr\u00f6\u00dfe"]) == ["cafe", "gro\u00dfe"]


def test_words_that_are_too_long_to_be_kept_are_stemmed_as_well() -> None:
    before = _known_stem.cache_info().currsize

    assert stems(["un" * LONGEST_KNOWN + "walking"]) == ["un" * LONGEST_KNOWN + "walk"]
    assert _known_stem.cache_info().currsize == before


def test_a_text_of_few_words_is_not_dense() -> None:
    assert density([]) == 0
    assert (
        density(["dense", "osmium"]) < density(["dense", "osmium", "shines", "and", "glows"]) < 0.5
    )


def test_repeating_a_text_makes_it_no_denser() -> None:
    said = words("Eat well.")
    told = words("We climbed to the glacier in May and saw two marmots.")

    assert density(said * 40) == density(said) < density(told)
