"""In texts without spaces, words are pairs of characters; other texts are unaffected."""

import pytest

from local2.language.features import pairs_of
from local2.language.words import characters_and_pairs, informative_words, words


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        pytest.param("深色主题", ["深色", "色主", "主题"], id="Chinese"),
        pytest.param("猫。", ["猫"], id="a single character"),
        pytest.param("ポート", ["ポー", "ート"], id="Japanese, with the long vowel"),
        pytest.param("東京・大阪", ["東京", "大阪"], id="a dot ends a run"),
        pytest.param("데이터를", ["데이", "이터", "터를"], id="Korean"),
        pytest.param("ภาษา", ["ภา", "าษ", "ษา"], id="Thai"),
        pytest.param("ที่นี่", ["ทน"], id="Thai, whose marks are no letters"),
        pytest.param("用Go语言", ["用", "go", "语言"], id="mixed within a word"),
        pytest.param("8443端口 is open", ["8443", "端口", "is", "open"], id="numbers and English"),
        pytest.param("Übung macht's", ["übung", "macht"], id="letters beyond ASCII"),
        pytest.param("день и ночь", ["день", "и", "ночь"], id="Cyrillic"),
    ],
)
def test_words_of_unspaced_texts_are_pairs_of_characters(text: str, expected: list[str]) -> None:
    assert words(text) == expected


@pytest.mark.parametrize(
    ("question", "expected"),
    [
        pytest.param("我的猫叫什么名字?", ["猫叫", "名字"], id="Chinese"),
        pytest.param("谁管财务?", ["管财", "财务"], id="who"),
        pytest.param("コーヒーは好きですか?", ["コー", "ーヒ", "ヒー", "好き"], id="Japanese"),
        pytest.param("契約はいつ?", ["契約"], id="when"),
        pytest.param("회의는 언제인가요?", ["회의"], id="Korean, whose particle goes"),
        pytest.param("你是谁?", [], id="nothing but grammar"),
        pytest.param("What did I say?", [], id="English"),
    ],
)
def test_a_questions_informative_words_exclude_grammar(question: str, expected: list[str]) -> None:
    assert informative_words(question) == expected


def test_texts_are_also_indexed_by_single_characters() -> None:
    assert words("深色 theme", characters_and_pairs) == ["深", "色", "深色", "theme"]


def test_pairs_are_extracted_from_stems_in_normalised_characters() -> None:
    assert pairs_of(" metal=2 深色=1 か\u3099く=1 | 色主=3 ") == "深色 がく 色主"
    assert pairs_of(" metal=2 | dense=1 ") is None
    assert pairs_of(" übung=1 | ") is None
