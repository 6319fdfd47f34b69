"""The passage of a long text that answers a question is shown in place of its beginning."""

import pytest

from local2.language.passages import READ, cut_to_passage, passage

FILLER = "The rain has not let up since Sunday. " * 30


def test_the_passage_with_the_words_of_the_question_is_shown() -> None:
    text = f"{FILLER}I gave the spare key to Dorothea. {FILLER}"

    shown = cut_to_passage(text, "Who keeps my spare keys?", 200)

    assert "I gave the spare key to Dorothea." in shown
    assert shown.startswith("… ")
    assert shown.endswith(" …")
    assert len(shown) <= 200 + len("…  …")


def test_the_passage_is_shown_from_far_into_a_long_text() -> None:
    text = f"{FILLER * 50}I gave the spare key to Dorothea. {FILLER}"

    assert "to Dorothea." in cut_to_passage(text, "Who keeps my spare keys?", 200)


def test_words_that_stand_together_are_more_than_the_same_words_apart() -> None:
    apart = f"The spare room is cold. {FILLER}My key is lost. {FILLER}Dorothea called."
    text = f"{apart}{FILLER}The spare key is with Dorothea. {FILLER}"

    assert "is with Dorothea" in cut_to_passage(text, "Has Dorothea got the spare key?", 200)


def test_a_passage_begins_with_a_sentence_or_a_word() -> None:
    sentence = f"{FILLER}The surveyor said that the ash tree leans. {FILLER}"
    words = f"{'rain and wind ' * 60}ash tree {'and so on ' * 60}"

    assert cut_to_passage(sentence, "ash tree", 120).startswith("… The ")
    assert cut_to_passage(words, "ash tree", 120)[2:].split()[0] in {"rain", "and", "wind"}


@pytest.mark.parametrize("question", ["", "What?", "Which zebra?"])
def test_a_text_without_the_words_is_shown_from_its_beginning(question: str) -> None:
    text = f"First of all. {FILLER}"

    assert cut_to_passage(text, question, 100) == f"{text[:100].strip()} …"


def test_a_text_that_fits_is_shown_whole() -> None:
    assert cut_to_passage(" Osmium. ", "osmium", 9) == " Osmium. "


def test_words_match_in_other_forms_and_in_languages_without_spaces() -> None:
    happy = f"{FILLER}She was the happiest. Nobody was happy. {FILLER}"
    theme = f"{'今天下雨。' * 100}我在所有编辑器里都喜欢深色主题。{'今天下雨。' * 100}"
    accent = f"{FILLER}Das Büro ist in München. {FILLER}"

    assert "Nobody was happy." in cut_to_passage(happy, "happy?", 100)
    assert "深色主题" in cut_to_passage(theme, "主题 编辑器", 60)
    assert "München" in cut_to_passage(accent, "München", 60)


@pytest.mark.parametrize("limit", [0, 1, 5, 30])
def test_a_word_longer_than_the_room_is_cut(limit: int) -> None:
    text = f"{FILLER}incomprehensibilities {FILLER}"

    part = passage(text, "incomprehensibilities", limit)

    assert part.stop - part.start == limit


def test_only_the_beginning_of_a_very_long_text_is_searched() -> None:
    assert passage(f"{'a ' * READ}osmium", "osmium", 50) == slice(0, 50)
