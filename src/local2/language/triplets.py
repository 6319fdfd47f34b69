"""Extract facts from plain English statements with the rules below, for machines without a model.

Questions, doubts, denials, suppositions, reported speech and statements about "it" or "them" are
skipped: a missing fact can be stated again, but a wrong one is believed.
"""

import re
from collections.abc import Iterator

from local2.language.clauses import without_lead_in
from local2.language.sentences import PART_BREAK, split_lazily
from local2.language.tables import ENGLISH
from local2.language.wording import in_third_person
from local2.language.words import word_set
from local2.protocol.memories import Triplet

NON_NAME = (
    r"(?:it|this|that|these|those|there|here|he|she|they|we|you|who|what|which|when|where|why|how"
    r"|everyone|everybody|someone|somebody|something|everything|one|let|let's|our|your|his|her"
    r"|their|its|him|them|us)\b"
)
VERBS = {
    verb: in_third_person(verb)
    for verb in sorted(
        word_set("""
    work live like love hate prefer enjoy own have use know speak play study teach need want run
    lead manage make sell build write drive eat drink collect report belong come depend contain
    """)
    )
}
"""Verbs of plain statements in the present, in the first and the third person."""
PAST = (
    "worked|lived|liked|loved|hated|owned|had|used|knew|played|studied|taught|ran|led|managed|made"
    "|sold|built|wrote|drove|bought|founded|married|moved|joined|left|met|visited|won|lost"
    "|started|finished|adopted|chose"
)
PREPOSITION = "(?:for|at|in|on|as|with|to|from|of|by|near|into)"
BE = "(?:is|was|are|were)"
FIRST_PERSON = (  # pattern, replacement in the third person
    (r"\bI(?: am|'m)\b", "{speaker} is"),
    (r"\bI've\b", "{speaker} has"),
    (rf"(?:^|(?<=\band )|(?<=, )|\b(?=I (?:{'|'.join(VERBS)})\b))I(?![\w./'-])", "{speaker}"),
    (r"\bmy\b", "{speaker}'s"),
    (r"\bme\b", "{speaker}"),
)
SUBJECT = r"(?P<subject>\w[\w.&'+#-]*(?: \w[\w.&'+#-]*){0,4}?)"
OWNER = r"(?P<subject>\w[\w.&+#-]*(?: \w[\w.&+#-]*){0,3}?)"
ATTRIBUTE = r"(?P<thing>\w[\w-]*(?: \w[\w-]*){0,2})"
OBJECT = r"(?P<object>\S.*)"
VERB = rf"(?:{'|'.join(VERBS.values())}|{PAST})(?: {PREPOSITION})?"
NEVER_IN_SUBJECT = (
    rf"\b(?:he|she|they|we|you|it|that|who|which|{'|'.join(VERBS.values())}|{PAST})\b"
)
"""Words that a subject never contains. With them, the fact would be about somebody's knowledge or
about another subject."""

STATEMENT_FORMS = (  # pattern of a whole clause, its predicate
    (rf"{OWNER}'s? {ATTRIBUTE} {BE} {OBJECT}", "has the {thing}"),
    (rf"the {ATTRIBUTE} of {SUBJECT} {BE} {OBJECT}", "has the {thing}"),
    (
        rf"{SUBJECT} (?P<verb>{BE} (?:(?:an?|the) )?(?:[\w-]+ ){{0,3}}?{PREPOSITION}) {OBJECT}",
        "{verb}",
    ),
    (rf"{SUBJECT} (?P<verb>{BE}(?: (?:an?|the))?) {OBJECT}", "{verb}"),
    (rf"{SUBJECT} (?P<verb>{VERB}(?: an?)?) {OBJECT}", "{verb}"),
)
SUBORDINATE_CLAUSE = (
    r",? (?:because|since|although|while|when|which|who|but|so)\b.*|,(?! \w+ and ).*"
)
CONJOINED_CLAUSE = (
    rf",? and (?=(?:{VERB}|{BE})\b"
    rf"|(?:(?!and\b)[\w'.-]+ ){{1,3}}(?:{'|'.join(VERBS.values())}|{BE})\b)"
)
MAX_SENTENCE_CHARACTERS = 300
"""Maximum characters of a sentence without its lead-in. A longer sentence is prose and would be
slow to match, since the patterns try every length of a subject."""
MAX_CHARACTERS_WITH_LEAD_IN = 3_000
"""Maximum characters of a sentence with its lead-in. Bounds the search for the end of the
lead-in."""
ANY_CASE = re.IGNORECASE


def extract_facts(text: str, speaker: str) -> Iterator[Triplet]:
    """Yield the facts that the text plainly states, in their order; `speaker` replaces "I"."""
    for part in split_lazily(PART_BREAK, text.replace("\u2019", "'")):
        sentence = part.strip()
        if not 0 < len(sentence) <= MAX_CHARACTERS_WITH_LEAD_IN:
            continue
        statement = without_lead_in(sentence)
        if (
            len(statement) > MAX_SENTENCE_CHARACTERS
            or not ENGLISH.is_lasting(statement)
            or ENGLISH.pattern(ENGLISH.language.negative).search(statement)
        ):
            continue
        reworded = statement
        for pattern, form in FIRST_PERSON:
            reworded = re.sub(pattern, form.format(speaker=speaker), reworded, flags=ANY_CASE)
        if reworded != statement:
            verb = rf"({re.escape(speaker)}|and) ({'|'.join(VERBS)})\b"
            reworded = re.sub(verb, lambda found: f"{found[1]} {VERBS[found[2]]}", reworded)
        if re.search(r"\bI\b", reworded):
            continue
        subject: str | None = None  # a clause without one takes that of the clause before
        clauses = re.split(CONJOINED_CLAUSE, reworded, flags=ANY_CASE)
        for clause in clauses if _fact(clauses[0]) else [reworded]:
            lacks_subject = subject and re.match(rf"(?:{VERB}|{BE})\b", clause, ANY_CASE)
            found = _fact(f"{subject} {clause}" if lacks_subject else clause)
            if found is None:
                break
            subject = found.subject
            yield found


def _fact(clause: str) -> Triplet | None:
    main_clause = re.sub(SUBORDINATE_CLAUSE, "", clause, flags=ANY_CASE).strip(' .,;:!"()')
    for pattern, predicate in STATEMENT_FORMS:
        found = re.fullmatch(pattern, main_clause, ANY_CASE)
        if found is not None:
            parts = found.groupdict()
            if any(re.match(NON_NAME, parts[part], ANY_CASE) for part in ("subject", "object")):
                return None
            if re.search(NEVER_IN_SUBJECT, parts["subject"], ANY_CASE):
                return None
            return Triplet(
                subject=_without_article(parts["subject"]),
                predicate=predicate.format(**parts).lower(),
                object=_without_article(parts["object"]),
            )
    return None


def _without_article(name: str) -> str:
    """The name without its article, so that "the lab" and "a lab" are the same name."""
    return re.sub(r"^(?:an?|the) (?!user\b|assistant\b)", "", name, flags=ANY_CASE)
