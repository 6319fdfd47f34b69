"""The tables of the languages that are known, and the one that a text is written in."""

from collections.abc import Iterator

from local2.language import clauses, english, german
from local2.language.attributes import Table

ENGLISH: Table = clauses.English(english.LANGUAGE)
GERMAN: Table = german.German(german.LANGUAGE)

_READ = 400
"""Number of characters of a text that show its language."""
_MARKS_AROUND = ".,;:!?\u2026\"'()"


def table_of(text: str, otherwise: Table = ENGLISH) -> Table:
    """The table of the language that a text is written in.

    `otherwise`: for a text with no more of the little words of one language than of the other.
    """
    found = {word.strip(_MARKS_AROUND) for word in text[:_READ].lower().split()}
    english, german_ = (len(found & table.language.marks) for table in (ENGLISH, GERMAN))
    if english == german_:
        return otherwise
    return ENGLISH if english > german_ else GERMAN


def sentences_in(content: str, spoken_in: Table) -> Iterator[tuple[str, Table]]:
    """Yield the sentences in the user's own words, as they are written properly, with their tables.

    In order, until quoted or pasted text begins. `spoken_in`: the table of the content.
    """
    for sentence in clauses.own_sentences(content):
        table = table_of(sentence, spoken_in)
        yield (clauses.with_apostrophes(sentence) if table is ENGLISH else sentence), table
