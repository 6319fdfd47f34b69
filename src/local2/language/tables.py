"""The tables of the languages that are known, and the one that a text is written in."""

import re
from collections.abc import Sequence

from local2.language import clauses, german
from local2.language.attributes import Table
from local2.language.english import LANGUAGE as ENGLISH_LANGUAGE


class _English(Table):
    def is_lasting(self, sentence: str) -> bool:
        return clauses.is_lasting(sentence)

    def whole(self, sentence: str) -> str:
        return clauses.with_time_last(clauses.without_lead_in(sentence))

    def clauses(self, sentence: str) -> Sequence[str]:
        return [
            clauses.without_lead_in(clause) for clause in clauses.clauses_of(self.whole(sentence))
        ]

    def stands_alone(self, clause: str) -> bool:
        return clauses.stands_alone(clause)


class _German(Table):
    def is_lasting(self, sentence: str) -> bool:
        return german.is_lasting(sentence)

    def whole(self, sentence: str) -> str:
        return german.without_lead_in(sentence)

    def clauses(self, sentence: str) -> Sequence[str]:
        return german.clauses_of(self.whole(sentence))

    def arranged(self, clause: str) -> str:
        return german.arranged(clause)


ENGLISH: Table = _English(ENGLISH_LANGUAGE)
GERMAN: Table = _German(german.LANGUAGE)

_WORD = re.compile(r"[^\W\d_]+(?:'[a-z]+)?")


def table_of(text: str, otherwise: Table = ENGLISH) -> Table:
    """Return the table of the language that a text is written in.

    `otherwise`: for a text with no more of the little words of one language than of the other.
    """
    found = {word.lower() for word in _WORD.findall(text)}
    marks = {table: len(found & table.language.marks) for table in (ENGLISH, GERMAN)}
    if marks[ENGLISH] == marks[GERMAN]:
        return otherwise
    return ENGLISH if marks[ENGLISH] > marks[GERMAN] else GERMAN
