"""Names: which spellings are equal, which statements are aliases, and where a text may have one."""

import pytest

from local2.keys import entity_key
from local2.language.names import MAX_NAME_WORDS, MAX_WORDS, name_candidates, states_alias


@pytest.mark.parametrize(
    "spellings",
    [
        ("Northwind", "NORTHWIND", " northwind.", "“Northwind”"),
        ("J. R. Smith", "J.R. Smith", "JR Smith", "j r smith"),
        ("Coca-Cola", "Coca Cola", "coca_cola"),
        ("Northwind, Inc.", "Northwind Inc"),
        ("O'Brien", "O\u2019Brien", "OBrien"),
        ("Washington D.C.", "Washington DC"),
        ("Stra\u00dfe", "STRASSE"),
    ],
)
def test_spellings_of_one_name_have_the_same_key(spellings: tuple[str, ...]) -> None:
    assert len({entity_key(spelling) for spelling in spellings}) == 1


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("Robert Smith", "Bob Smith"),
        ("Robert Smith", "R. Smith"),
        ("Robert J. Smith", "Robert Smith"),
        ("C", "C++"),
        ("C#", "C++"),
        ("Python 3.11", "Python 311"),
        ("version 1.2", "version 12"),
        ("Ada", "Adam"),
        ("!", "?"),
    ],
)
def test_names_of_possibly_different_entities_have_different_keys(one: str, other: str) -> None:
    assert entity_key(one) != entity_key(other)


@pytest.mark.parametrize(
    "statement",
    [
        ("Bob", "is also known as", "Robert Smith"),
        ("Bob", "Is Also Known As", "Robert"),
        ("Bob", "a.k.a.", "Robert"),
        ("NASA", "is short for", "National Aeronautics and Space Administration"),
        ("k8s", "is short for", "kubernetes"),
        ("Bobby", "is a nickname of", "Robert Smith"),
        ("Robert Smith", "goes by", "Bob"),
        ("Bob", "is nicknamed", "Bear"),
        ("Constantinople", "is the same as", "Istanbul"),
    ],
)
def test_a_statement_of_another_name_is_an_alias(statement: tuple[str, str, str]) -> None:
    assert states_alias(*statement)


@pytest.mark.parametrize(
    "statement",
    [
        ("Ada", "is", "Project Manager"),
        ("Ada", "is", "Ada Adler"),
        ("she", "is also known as", "Ada Adler"),
        ("the user", "is also known as", "Ada Adler"),
        ("my boss", "is also known as", "Bear"),
        ("Ada", "is not", "Eve Ebner"),
        ("Ada", "was", "Eve Ebner"),
        ("Ada", "is married to", "Bob Ray"),
        ("Ada", "works for", "Northwind"),
        ("Ada", "knows", "Robert Smith"),
        ("Ada", "is called by", "Robert Smith"),
        ("Ada", "is not also known as", "Robert Smith"),
        ("The plan that we all agreed upon", "is also known as", "Plan B"),
    ],
)
def test_an_ambiguous_statement_is_not_an_alias(statement: tuple[str, str, str]) -> None:
    assert not states_alias(*statement)


def test_name_candidates_start_at_each_word_longest_first() -> None:
    found = list(name_candidates("Ask J. R. Smith's boss!"))

    assert found[:5] == [
        "Ask J. R. Smith's boss",
        "Ask J. R. Smith",
        "Ask J. R",
        "Ask J",
        "Ask",
    ]
    assert "J. R. Smith" in found
    assert found[-1] == "boss"
    assert list(name_candidates("")) == []


def test_only_the_beginning_of_a_long_text_is_read() -> None:
    found = list(name_candidates(" ".join(f"word{n}" for n in range(10 * MAX_WORDS))))

    assert len(found) <= MAX_WORDS * MAX_NAME_WORDS
    assert found[-1] == f"word{MAX_WORDS - 1}"
