"""The tables of the languages that are known, and the one that a text is written in."""

from collections.abc import Iterator, Sequence

from local2.language import clauses, german
from local2.language.attributes import Table
from local2.language.english import LANGUAGE as ENGLISH_LANGUAGE


class _English(Table):
    def is_lasting(self, sentence: str) -> bool:
        return clauses.is_lasting(sentence)

    def whole(self, sentence: str) -> str:
        bare = clauses.without_lead_in(sentence)
        return clauses.with_time_last(clauses.with_name_last(bare))

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

_READ = 400
"""Number of characters of a text that show its language."""


def table_of(text: str, otherwise: Table = ENGLISH) -> Table:
    """The table of the language that a text is written in.

    `otherwise`: for a text with no more of the little words of one language than of the other.
    """
    found = set(text[:_READ].lower().split())
    english, german_ = (len(found & table.language.marks) for table in (ENGLISH, GERMAN))
    if english == german_:
        return otherwise
    return ENGLISH if english > german_ else GERMAN


def sentences_in(content: str, spoken_in: Table) -> Iterator[tuple[str, Table]]:
    """Yield the sentences in the user's own words, as they are written properly, with their tables.

    In order, until quoted or pasted text begins. `spoken_in`: the table of the content.
    """
    for sentence in clauses.sentences_of(content):
        table = table_of(sentence, spoken_in)
        yield (clauses.with_apostrophes(sentence) if table is ENGLISH else sentence), table
