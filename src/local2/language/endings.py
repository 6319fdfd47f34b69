"""Find the facts that a message says to be over, or never to have been so: "I quit", "Rex died".

A clause in the first person ends what was stated before about the same thing: in a way in which
its attribute ends (`Attribute.ways`), or by denying it. Questions, suppositions, plans, other
people's words and others' affairs end nothing, and what is limited to a time or place ends nothing
either. In doubt, the fact stays.
"""

import re
from functools import lru_cache
from typing import Literal, NamedTuple

from local2.language.attributes import Attribute, Ended, Table
from local2.language.corrections import takes_back
from local2.language.statements import CACHED_FACTS
from local2.language.tables import sentences_in, table_of
from local2.language.wording import first_person
from local2.language.words import informative_words, stems

_PARTS = re.compile(r"[,:]\s+(?:(?:so|and|but|und|aber) )?(?!(?:i|we|my|our)\b)", re.IGNORECASE)
"""What begins another part of a sentence. In "Tom: I …" Tom speaks."""
MIN_COMPOUND = 4
"""Minimum letters of a word that names a compound which ends with it: "boat", for a houseboat."""
STRICT = frozenset({"sold", "cooled", "over"})
"""Ways in which only what a statement is mainly about ends: selling a car radio sells no car."""


class Ending(NamedTuple):
    """What a message says to be over or never to have been so."""

    table: Table
    ended: Ended
    searched: str
    """The words to search for facts that it may end."""


def endings_of(content: str, before: str = "") -> list[Ending]:
    """What a message says to be over or never to have been so.

    `before`: what the same speaker said just before, which "Forget that" takes back.
    """
    endings: dict[Ending, None] = {}
    spoken_in = table_of(content)
    is_jest = spoken_in.pattern(spoken_in.language.jests).search(content) is not None
    for number, (spoken, table) in enumerate(sentences_in(content, spoken_in)):
        language = table.language
        if number == 0 and takes_back(spoken, table):
            for last, its_table in list(sentences_in(before, table_of(before)))[-1:]:
                for clause in its_table.clauses(last):
                    if its_table.stated(clause) is not None:
                        endings[_ending(its_table, Ended(None, None, clause))] = None
        sentence = table.pattern(language.jests).sub("", spoken) if is_jest else spoken
        whole = table.whole(sentence)
        inner = [
            clause for part in _PARTS.split(whole)[1:] for clause in (part, *table.clauses(part))
        ]
        # The sentence is a clause, too, because "Eva and I" is one subject.
        for clause in dict.fromkeys((whole, *table.clauses(sentence), *inner)):
            found = [ended for ended in table.ended(clause) if is_jest or ended.way != "retracted"]
            if not found or table.pattern(language.unreal).search(clause):
                continue
            taken_back = table.pattern(language.taken_back)
            if all(
                not taken_back.search(text) and table.is_lasting(text)
                for text in (sentence, clause)
            ):
                endings.update(dict.fromkeys(_ending(table, ended) for ended in found))
    return list(endings)


def _ending(table: Table, ended: Ended) -> Ending:
    value = ended.value or ended.denied or ""
    named = _stems_of(table, value)
    kinds = (
        f"{attribute.searched} {attribute.nouns}".strip()
        for attribute in table.language.attributes
        if (ended.value is None and ended.denied is None and ended.way in attribute.ways.split())
        or not named.isdisjoint(_called(table, attribute))
    )
    return Ending(table, ended, " ".join(filter(None, (value, *dict.fromkeys(kinds)))))


Match = Literal["named", "kind"]
"""How an ending names a fact: by what it states, or only by its kind, as "my instrument" does."""


def matched(ending: Ending, content: str, topic: str | None, who: str | None) -> Match | None:
    """How what ended names what a fact states; None if it is about something else.

    `topic`: the fact's key, whose bare value the content may be. `who`: the speaker's name; None:
    the user.
    """
    table, ended = ending.table, ending.ended
    fact, is_in_language = _said_by(table, content, who)
    if fact is None:
        is_own = topic is not None and who is None and is_in_language
        return "named" if is_own and _is_value_of(ending, content, topic) else None
    if ended.denied is not None:
        return "named" if _denies(table, ended, fact) else None
    attribute, value = fact.attribute, ended.value
    ways = table.language.always.union(attribute.ways.split() if attribute else ())
    is_others = value is not None and "'s " in value and "'s " not in fact.clause
    if ended.way not in ways or is_others:
        return None
    if value is None or _is_of_same(table, value, fact, strict=ended.way in STRICT):
        return "named"
    return "kind" if attribute is not None and _names_kind(table, value, attribute) else None


@lru_cache(CACHED_FACTS)
def _said_by(table: Table, content: str, who: str | None) -> "tuple[_Said | None, bool]":
    """What a fact states that still holds, and whether it is in the table's language.

    Cached, as each fact is compared with every ending.
    """
    clause = first_person(content, who)
    is_in_language = table_of(clause or content, table) is table
    if clause and is_in_language and not table.pattern(table.language.over).search(clause):
        return _said(table, clause), True
    return None, is_in_language


def forget_matched() -> None:
    """Clear what is cached of compared facts."""
    _said_by.cache_clear()


def _is_value_of(ending: Ending, content: str, topic: str | None) -> bool:
    """Whether a bare value that somebody stored under a key is what ended."""
    table, ended = ending.table, ending.ended
    if ended.denied is not None:
        stated = table.stated(ended.denied)
        if stated is None or stated.topic != topic:
            return False
        value = stated.value
    else:
        attributes = (known for known in table.language.attributes if known.topic == topic)
        if not any(ended.way in attribute.ways.split() for attribute in attributes):
            return False
        value = ended.value or ""
    return _stems_of(table, value) <= _stems_of(table, content)


class _Said(NamedTuple):
    """What a clause states: a verb and its object, or a thing of the speaker's and what it is."""

    clause: str
    attribute: Attribute | None
    verb: str
    thing: str
    value: str


def _said(table: Table, clause: str) -> _Said | None:
    clause = clause.rstrip(".! ")
    stated = table.stated(clause)
    clause = table.arranged(clause)
    attribute = stated.attribute if stated else None
    found = table.pattern(table.language.states).match(clause)
    if found is None:
        return _Said(clause, attribute, "", clause, stated.value) if stated else None
    if found["thing"]:
        return _Said(clause, attribute, "", found["thing"], found["its"])
    verb, rest = found["verb"], found["rest"] or ""
    progress = table.pattern(table.language.in_progress).match(rest)
    if progress and _verb_class(table, verb) in table.language.auxiliaries:
        verb, rest = progress["verb"], progress["rest"]
    return _Said(clause, attribute, verb, "", rest)


def _verb_class(table: Table, verb: str) -> str:
    """The stem of the verb, or of the one that means the same."""
    same, stemmer = table.language.same_verbs, table.language.stemmer
    stem = stems([verb.lower()], stemmer)[0]
    return stems([same.get(verb.lower()) or same.get(stem) or stem], stemmer)[0]


def _denies(table: Table, ended: Ended, fact: _Said) -> bool:
    """Whether a fact is what was denied."""
    denied = ended.denied or ""
    if _stems_of(table, ended.who):  # not "I"
        return _denies_of_other(table, ended.who, denied.removeprefix(ended.who).strip(), fact)
    said = _said(table, denied)
    if said is None:
        return False
    verb = _verb_class(table, said.verb)
    is_of_kind = fact.attribute is not None and _names_kind(table, said.value, fact.attribute)
    if is_of_kind and (fact.thing or verb == "have"):
        return True
    if not _is_of_same(table, said.value, fact, strict=True):
        return False
    if verb == _verb_class(table, fact.verb):
        return True
    # Liking and hating are one attribute: who does not hate jazz may still like it.
    return (
        said.attribute is not None
        and said.attribute is fact.attribute
        and _is_end(table, denied) == _is_end(table, fact.clause)
    )


def _is_end(table: Table, clause: str) -> bool:
    """Whether a clause itself says that something is over: "I hate jazz"."""
    return any(ended.way is not None for ended in table.ended(clause))


def _denies_of_other(table: Table, who: str, denied: str, fact: _Said) -> bool:
    """Whether a fact has the subject, verb and object of what was denied of somebody else."""
    verb, _, value = denied.partition(" ")
    names = [(who, value)]
    if _verb_class(table, verb) in table.language.auxiliaries:
        names.append((value, who))  # "Dana is my boss" and "my boss is Dana"
        if progress := table.pattern(table.language.in_progress).match(value):
            verb, names = progress["verb"], [(who, progress["rest"])]
    words = fact.clause.split()
    verbs = [_verb_class(table, word) for word in words]
    if _verb_class(table, verb) not in verbs:
        return False
    at = verbs.index(_verb_class(table, verb))
    subject = " ".join(words[:at])
    said = fact._replace(verb=verb, thing="", value=" ".join(words[at + 1 :]))
    return any(
        _is_same_subject(table, who, subject) and _is_of_same(table, value, said, strict=True)
        for who, value in names
    )


def _is_same_subject(table: Table, who: str, known: str) -> bool:
    """Whether a fact's subject is so called: "Leo" and "my brother" are "my brother Leo".

    Common nouns say the same only together: "my wife" is not "my ex wife".
    """
    nouns, known_nouns = (
        _stems_of(table, " ".join(filter(str.islower, text.split()))) for text in (who, known)
    )
    named = _stems_of(table, who)
    return bool(named) and named <= _stems_of(table, known) and nouns in (set(), known_nouns)


def _called(table: Table, attribute: Attribute) -> frozenset[str]:
    return _stems_of(table, f"{attribute.nouns} {attribute.searched}")


def _names_kind(table: Table, value: str, attribute: Attribute) -> bool:
    """Whether a value is only what such an attribute is called: "my instrument"."""
    named = _stems_of(table, value)
    return bool(named) and named <= _called(table, attribute)


def _is_of_same(table: Table, value: str, fact: _Said, *, strict: bool) -> bool:
    """Whether a value names what a fact states something of."""
    wanted = _stems_of(table, value)
    known = _stems_of(table, f"{fact.value} {fact.thing}" if strict else fact.clause)
    if not strict and fact.attribute is not None:  # "the Lapwing subscription" names the Lapwing
        wanted = wanted - _called(table, fact.attribute) or wanted
    if not wanted or not all(_has(known, word) for word in wanted):
        return False
    last = value.split()[-1:]
    if strict and not _stems_of(table, " ".join(last)):  # only a part: "chess with him"
        return False
    language = table.language
    several = table.pattern(language.several)
    is_plural = table.pattern(language.plural).search(value.rstrip(".! ")) is not None
    if several.match(fact.value) and not (is_plural or several.match(value)):
        return False
    if not strict or fact.thing:
        return True
    noun_phrase = table.pattern(language.preposition).sub("", fact.value, count=1)
    noun_phrase = table.pattern(language.object_ends).split(noun_phrase, 1)[0]
    head = frozenset(_ordered_stems(table, noun_phrase)[-1:])
    if any(_has(head, word) for word in wanted):
        return True
    has_name = any(word[:1].isupper() for word in value.split())
    return has_name and _verb_class(table, fact.verb) in table.language.named


def _has(known: frozenset[str], word: str) -> bool:
    """Whether a word is among those known, or is the end of a compound there."""
    if word in known:
        return True
    return len(word) >= MIN_COMPOUND and any(other.endswith(word) for other in known)


def _stems_of(table: Table, text: str) -> frozenset[str]:
    return frozenset(_ordered_stems(table, text))


def _ordered_stems(table: Table, text: str) -> list[str]:
    idle = table.language.idle
    informative = [word for word in informative_words(text) if word not in idle]
    return stems(informative, table.language.stemmer)
