"""A fact in three parts, as graphs keep it and as a person reads it."""

import re
import unicodedata
from typing import Self

import msgspec

_BETWEEN_WORDS = re.compile(r"_+|(?<=[a-z0-9])(?=[A-Z])")


class Triplet(msgspec.Struct, frozen=True, kw_only=True):
    """Ada · works for · Northwind. `predicate` is a verb phrase, or an identifier made of one."""

    subject: str
    predicate: str
    object: str

    def tidied(self) -> Self:
        """With single spaces, and an identifier such as `worksFor` or `works_for` in words."""
        predicate = " ".join(self.predicate.split())
        if " " not in predicate:
            predicate = " ".join(_BETWEEN_WORDS.sub(" ", predicate).lower().split())
        return type(self)(
            subject=" ".join(self.subject.split()),
            predicate=predicate,
            object=" ".join(self.object.split()),
        )

    def sentence(self) -> str:
        """The three parts as one sentence."""
        said = f"{self.subject} {self.predicate} {self.object}"
        return said if said.endswith((".", "!", "?")) else f"{said}."

    def key(self) -> tuple[str, str, str]:
        """The same for the same fact, whatever its capitals."""
        return entity_key(self.subject), entity_key(self.predicate), entity_key(self.object)


def entity_key(name: str) -> str:
    """The same for the same name, whatever its capitals, spaces and the punctuation around it."""
    folded = unicodedata.normalize("NFKC", name).casefold()
    return " ".join(folded.split()).strip(" .,;:!?\"'“”«»") or folded
