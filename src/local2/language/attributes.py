"""What can be known about a person: how a language states it, changes it, ends it and denies it.

A language has a table of attributes: what somebody has, is, does, likes, plans, owes, is called. A
row names the key of the attribute, its forms and nouns, and the ways in which it ends. What the
language says in the same manner of everything (a denial, who speaks, what is only supposed) stands
once beside the table, so that whatever has a form can also be denied and ended.
"""

import re
from collections.abc import Iterator, Mapping, Sequence
from functools import cached_property
from typing import NamedTuple

from local2.protocol.memories import Durability, MemoryType

MAX_TOPIC_CHARACTERS = 40
PREFERRED = re.compile(r"^(?:favou?rite|preferred)_(\w+)$")
"""Parts of keys that become `…_preference`, because agents look for preferences there."""

_PLACEHOLDER = re.compile(r"(?<!P)<(?P<value>v:)?(?P<name>[a-z_]+)>")
_GROUP = re.compile(r"(?<!\\)\((?!\?)")


class Attribute(NamedTuple):
    """A row of the table."""

    forms: tuple[str, ...]
    """Patterns of the clauses that state it, or its new value, which is the group `v`."""
    topic: str | None = None
    """Its key, which may refer to groups of its forms; None if it can have several values."""
    nouns: str = ""
    """What it is called, all under its key: "my address is …", "I sold my instrument"."""
    ways: str = ""
    """The ways in which it ends (`Language.ways`)."""
    searched: str = ""
    """Words, beside its nouns, by which facts about it are found when an end names no value."""
    amount: str = ""
    """Its values, if they have a unit that only it is measured in: "78 kilos". It then also has the
    forms `Language.measured`."""
    memory_type: MemoryType = "fact"
    importance: float = 0.6
    durability: Durability = "standard"
    confidence: float = 0.9
    negative: bool = False
    """Whether clauses with a "not" also have its forms."""


class Language(NamedTuple):
    """A table, and what the language says in the same manner of everything.

    All texts are patterns as in the table (`expanded`).
    """

    marks: frozenset[str]
    """Little words by which it is recognised."""
    idle: frozenset[str]
    """Words that do not show what a text is about, beside those of English."""
    stemmer: str
    attributes: tuple[Attribute, ...]
    vocabulary: Mapping[str, str]
    """Parts of patterns."""
    measured: tuple[str, ...]
    """Clauses that state an attribute by its amount alone, which stands for `<amount>`."""
    ways: Mapping[str, tuple[str, ...]]
    """How attributes end. The group `v` is what ends; without it, all of this way."""
    always: frozenset[str]
    """The ways in which anything ends; "retracted" only in messages with a mark of a jest."""
    jests: str
    corrections: tuple[str, ...]
    """Sentences that give the right value, `v`, and maybe the `wrong` one."""
    kinds: tuple[str, ...]
    """Kinds of values, the most special first."""
    number: str
    now: str
    """Marks of statements about what has changed."""
    takes_back: str
    """Sentences that only say that what was said before them is not so."""
    later: str
    """What may follow what ended."""
    denials: tuple[tuple[str, str], ...]
    """What ends or denies any statement, and that statement."""
    still: str
    """What may follow what is denied; anything else limits it to a time or place."""
    openings: Mapping[str, str]
    """Words with which many clauses begin."""
    negative: str
    """Marks of clauses with a "not"."""
    over: str
    """Marks of statements that something is not so any more."""
    partial: str
    """Marks of a value that is one of several, or was so once: it replaces no other."""
    unreal: str
    """Marks of what is not real, or only so for a time."""
    taken_back: str
    """Marks of sentences that take back what they say to be over."""
    states: str
    """A verb and the rest of the clause, or a thing of the speaker's and what it is."""
    in_progress: str
    """The verb and the rest, after an auxiliary."""
    auxiliaries: frozenset[str]
    same_verbs: Mapping[str, str]
    """Verbs that mean the same as another one here."""
    named: frozenset[str]
    """Verbs whose objects are known by a part of their name: "work", for an employer."""
    preposition: str
    object_ends: str
    """What ends the first noun phrase after a verb."""
    several: str
    """What begins a noun phrase of several things, which end together only in the plural."""
    plural: str


class Stated(NamedTuple):
    """A clause with one of the forms, and its key and value."""

    table: "Table"
    attribute: Attribute
    clause: str
    topic: str | None
    value: str


class Ended(NamedTuple):
    """What a clause says to be over, or never to have been so."""

    way: str | None
    """The way in which it ended; None if a statement is denied."""
    value: str | None
    """What ended; None if the clause names nothing ("I lost my job")."""
    denied: str | None
    """The statement that is denied."""
    who: str = ""
    """The subject of that statement, with which it begins."""


class _Form(NamedTuple):
    pattern: re.Pattern[str]
    attribute: Attribute


class _End(NamedTuple):
    way: str | None
    denied: str | None
    pattern: re.Pattern[str]
    negative: bool = True
    """Whether it is also meant with a "not": "I never sold the boat" ends nothing."""


class Table:
    """A language, ready to be read from clauses. Its patterns are compiled when first used."""

    def __init__(self, language: Language) -> None:
        self.language = language
        self._compiled: dict[str, re.Pattern[str]] = {}

    def is_lasting(self, sentence: str) -> bool:
        """Whether a sentence states something that outlasts the conversation."""
        raise NotImplementedError

    def whole(self, sentence: str) -> str:
        """A sentence without what leads in to it."""
        raise NotImplementedError

    def clauses(self, sentence: str) -> Sequence[str]:
        """The clauses of a sentence that have a subject of their own."""
        raise NotImplementedError

    def arranged(self, clause: str) -> str:
        """A clause with its words in the order of the forms."""
        return clause

    def stands_alone(self, clause: str) -> bool:
        """Whether a clause has several words and does not point to something else."""
        return " " in clause

    def pattern(self, text: str) -> re.Pattern[str]:
        """A pattern of the language, compiled."""
        if text not in self._compiled:
            self._compiled[text] = expanded(text, self.language.vocabulary)
        return self._compiled[text]

    @cached_property
    def nouns(self) -> dict[str, Attribute]:
        """The attributes by the key parts of their nouns."""
        return {
            key_part(noun): attribute
            for attribute in self.language.attributes
            for noun in attribute.nouns.split(", ")
            if noun
        }

    def stated(self, clause: str) -> Stated | None:
        """What a clause states, by the first of the forms that it has."""
        denied = self.pattern(self.language.negative).search(clause) is not None
        arranged = self.arranged(clause)
        for form in self._forms[self._opening_of(arranged), denied]:
            found = form.pattern.match(arranged)
            if found is None:
                continue
            attribute, groups = form.attribute, found.groupdict()
            topic = attribute.topic
            if topic is not None and "{" in topic:
                parts = {name: key_part(text) for name, text in groups.items() if text}
                if kin := parts.get("kin"):  # "mum" is the mother
                    named = self.nouns.get(kin)
                    key = named and named.topic and filled(named.topic, {"thing": kin})
                    relation = (key or kin).removeprefix("user.")
                    parts["kin"] = "_".join(filter(None, (relation, parts.get("given"))))
                known = self.nouns.get(parts.get("thing") or parts.get("who") or "")
                attribute = known or attribute
                topic = filled(attribute.topic or topic, parts)
            if topic is not None and self.pattern(self.language.partial).search(arranged):
                topic = None
            return Stated(self, attribute, clause, topic, groups.get("v") or arranged)
        return None

    def ended(self, clause: str) -> Iterator[Ended]:
        """Yield what a clause says to be over or never to have been so."""
        arranged = self.arranged(clause)
        negative = self.pattern(self.language.negative)
        for end in self._ends[self._opening_of(arranged)]:
            found = end.pattern.match(arranged)
            if found and (end.negative or not negative.search(found["end"])):
                groups = found.groupdict()
                value = groups.get("v") or groups.get("named")
                denied = None if end.denied is None else found.expand(end.denied)
                who = groups.get("who") or ""
                yield Ended(end.way, value if denied is None else None, denied, who)

    @cached_property
    def _ends(self) -> dict[str | None, list[_End]]:
        """What may end something, by the opening of the clause."""
        language = self.language
        negative = self.pattern(language.negative)
        texts = [
            *(
                (way, None, text, language.later)
                for way in language.ways
                for text in language.ways[way]
            ),
            *((None, denied, text, language.still) for text, denied in language.denials),
        ]
        ends = [
            _End(
                way,
                denied,
                self.pattern(f"(?P<end>{text}){after}"),
                negative=negative.search(text) is not None,
            )
            for way, denied, text, after in texts
        ]
        return {
            opening: [
                end for end in ends if self._opening_of(end.pattern.pattern) in {None, opening}
            ]
            for opening in (None, *language.openings)
        }

    @cached_property
    def _forms(self) -> dict[tuple[str | None, bool], list[_Form]]:
        """The forms to try for a clause, by its opening and by whether it has a "not" in it."""
        forms = [
            _Form(self.pattern(text.replace("<amount>", f"(?P<v>{attribute.amount})")), attribute)
            for attribute in self.language.attributes
            for text in (
                *attribute.forms,
                *(self.language.measured if attribute.amount else ()),
            )
        ]
        return {
            (opening, denied): [
                form
                for form in forms
                if self._opening_of(form.pattern.pattern) in {None, opening}
                and (form.attribute.negative or not denied)
            ]
            for opening in (None, *self.language.openings)
            for denied in (False, True)
        }

    @cached_property
    def _openings(self) -> dict[str, re.Pattern[str]]:
        """They also match the patterns of forms for such clauses, so that others are not tried."""
        return {
            name: re.compile(rf"(?:\(\?(?::|P<end>))*(?:{words})(?![a-z])", re.IGNORECASE)
            for name, words in self.language.openings.items()
        }

    def _opening_of(self, text: str) -> str | None:
        found = (name for name, opening in self._openings.items() if opening.match(text))
        return next(found, None)


def expanded(text: str, vocabulary: Mapping[str, str]) -> re.Pattern[str]:
    """Compile a pattern of a table.

    Its parentheses only group. `<name>` is a part from the vocabulary, `<v:name>` such a value.
    """

    def part(found: re.Match[str]) -> str:
        inner = _PLACEHOLDER.sub(part, vocabulary[found["name"]])
        return f"(?P<v>{inner})" if found["value"] else f"(?:{inner})"

    return re.compile(_GROUP.sub("(?:", _PLACEHOLDER.sub(part, text)), re.IGNORECASE)


def key_part(text: str) -> str:
    """The text as one part of a topic key."""
    word = re.sub(r"[\W_]+", "_", text.lower()).strip("_")
    return PREFERRED.sub(r"\1_preference", word)


def filled(topic: str, parts: Mapping[str, str]) -> str | None:
    """The key with its parts; None if one is missing or it would be too long."""
    try:
        key = topic.format(**parts)
    except KeyError:
        return None
    return key if len(key) <= MAX_TOPIC_CHARACTERS else None
