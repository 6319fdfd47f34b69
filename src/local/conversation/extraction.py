"""Facts in plain English statements, by the tables below, for machines without a model.

Questions, doubts, denials, suppositions, reports and statements about "it" and "them" are left out:
a missing fact can be stated again, but a wrong one is believed.
"""

import re
from collections.abc import Iterator

from local.protocol.memories import Triplet
from local.text.features import split_lazily

NO_STATEMENT = (
    r"\?$|\b(?:not|never|no|nobody|nothing|if|unless|may|might|could|would|should|maybe|perhaps"
    r"|probably|think|thinks|guess|believe|hope|wish|wonder|whether|almost|nearly"
    r"|hardly|barely|rarely|seldom|suppose|imagine|pretend|assume|assuming|claims?|claimed|told"
    r"|says?|said)\b|n't\b"
)
NO_NAME = (
    r"(?:it|this|that|these|those|there|here|he|she|they|we|you|who|what|which|when|where|why|how"
    r"|everyone|everybody|someone|somebody|something|everything|one|let|let's|our|your|his|her"
    r"|their|its|him|them|us)\b"
)
LEAD_IN = (
    r"^(?:(?:and|but|so|well|ok|okay|oh|also|actually|yes|hi|hello|hey|please|by the way|today"
    r"|yesterday|now|then|(?:remember|note|know)(?: that)?|i know that)\b[\s,.:!]*)+"
)
VERBS = {  # in the first person: in the third person
    "work": "works", "live": "lives", "like": "likes", "love": "loves", "hate": "hates",
    "prefer": "prefers", "enjoy": "enjoys", "own": "owns", "have": "has", "use": "uses",
    "know": "knows", "speak": "speaks", "play": "plays", "study": "studies", "teach": "teaches",
    "need": "needs", "want": "wants", "run": "runs", "lead": "leads", "manage": "manages",
    "make": "makes", "sell": "sells", "build": "builds", "write": "writes", "drive": "drives",
    "eat": "eats", "drink": "drinks", "collect": "collects", "report": "reports",
    "belong": "belongs", "come": "comes", "depend": "depends", "contain": "contains",
}  # fmt: skip
PAST = (
    "worked|lived|liked|loved|hated|owned|had|used|knew|played|studied|taught|ran|led|managed|made"
    "|sold|built|wrote|drove|bought|founded|married|moved|joined|left|met|visited|won|lost"
    "|started|finished|adopted|chose"
)
TOWARDS = "(?:for|at|in|on|as|with|to|from|of|by|near|into)"
BE = "(?:is|was|are|were)"
FIRST_PERSON = (  # a pattern: its form in the third person
    (r"\bI(?: am|'m)\b", "{speaker} is"),
    (r"\bI've\b", "{speaker} has"),
    (rf"(?:^|(?<=\band )|(?<=, )|\b(?=I (?:{'|'.join(VERBS)})\b))I(?![\w./'-])", "{speaker}"),
    (r"\bmy\b", "{speaker}'s"),
    (r"\bme\b", "{speaker}"),
)
NAME = r"(?P<subject>\w[\w.&'+#-]*(?: \w[\w.&'+#-]*){0,4}?)"
OF_WHOM = r"(?P<subject>\w[\w.&+#-]*(?: \w[\w.&+#-]*){0,3}?)"
THING = r"(?P<thing>\w[\w-]*(?: \w[\w-]*){0,2})"
REST = r"(?P<object>\S.*)"
VERB = rf"(?:{'|'.join(VERBS.values())}|{PAST})(?: {TOWARDS})?"
NO_SUBJECT = rf"\b(?:he|she|they|we|you|it|that|who|which|{'|'.join(VERBS.values())}|{PAST})\b"
"""Words that no subject contains: with them the fact would be about somebody's knowledge, or about
another subject."""

STATED = (  # the form of a whole clause, its predicate
    (rf"{OF_WHOM}'s? {THING} {BE} {REST}", "has the {thing}"),
    (rf"the {THING} of {NAME} {BE} {REST}", "has the {thing}"),
    (rf"{NAME} (?P<verb>{BE} (?:(?:an?|the) )?(?:[\w-]+ ){{0,3}}?{TOWARDS}) {REST}", "{verb}"),
    (rf"{NAME} (?P<verb>{BE}(?: (?:an?|the))?) {REST}", "{verb}"),
    (rf"{NAME} (?P<verb>{VERB}(?: an?)?) {REST}", "{verb}"),
)
TITLE = r"(?<!\b[DMS][rst]\.)(?<!\bMrs\.)(?<!\b[A-Z]\.)"
BETWEEN_SENTENCES = re.compile(rf"(?<=[.!?]){TITLE}\s+(?=[\"'(]?[A-Z])|\n+|;\s*")
BREAKS_OFF = r",? (?:because|since|although|while|when|which|who|but|so)\b.*|,(?! \w+ and ).*"
GOES_ON = (
    rf",? and (?=(?:{VERB}|{BE})\b"
    rf"|(?:(?!and\b)[\w'.-]+ ){{1,3}}(?:{'|'.join(VERBS.values())}|{BE})\b)"
)
MAX_SENTENCE = 300
"""Characters of a sentence without its lead-in. A longer one is prose, and would be slow to match:
the patterns try every length of a subject."""
MAX_WITH_LEAD_IN = 3_000
"""Characters of a sentence with its lead-in. Bounds the search for where the lead-in ends."""
ANY_CASE = re.IGNORECASE


def extract_facts(text: str, speaker: str) -> Iterator[Triplet]:
    """Yield the facts that are plainly stated, in their order; `speaker` is the one called "I"."""
    for sentence in _sentences(text.replace("\u2019", "'")):
        stated = re.sub(LEAD_IN, "", sentence, count=1, flags=ANY_CASE)
        if len(stated) <= MAX_SENTENCE and not re.search(NO_STATEMENT, stated, ANY_CASE):
            reworded = _in_third_person(stated, speaker)
            if not re.search(r"\bI\b", reworded):
                yield from _facts(reworded)


def _sentences(text: str) -> Iterator[str]:
    """Yield the sentences that are neither blank nor too long, one by one."""
    stripped = map(str.strip, split_lazily(BETWEEN_SENTENCES, text))
    return (sentence for sentence in stripped if 0 < len(sentence) <= MAX_WITH_LEAD_IN)


def _in_third_person(sentence: str, speaker: str) -> str:
    reworded = sentence
    for pattern, form in FIRST_PERSON:
        reworded = re.sub(pattern, form.format(speaker=speaker), reworded, flags=ANY_CASE)
    if reworded == sentence:
        return sentence
    verb = rf"({re.escape(speaker)}|and) ({'|'.join(VERBS)})\b"
    return re.sub(verb, lambda found: f"{found[1]} {VERBS[found[2]]}", reworded)


def _facts(sentence: str) -> Iterator[Triplet]:
    """Yield the facts of a sentence. A clause after "and" without a subject has the first one's."""
    subject = None
    clauses = re.split(GOES_ON, sentence, flags=ANY_CASE)
    for clause in clauses if _fact(clauses[0]) else [sentence]:
        goes_on = subject and re.match(rf"(?:{VERB}|{BE})\b", clause, ANY_CASE)
        found = _fact(f"{subject} {clause}" if goes_on else clause)
        if found is None:
            return
        subject = found.subject
        yield found


def _fact(clause: str) -> Triplet | None:
    plain = re.sub(BREAKS_OFF, "", clause, flags=ANY_CASE).strip(' .,;:!"()')
    for pattern, predicate in STATED:
        found = re.fullmatch(pattern, plain, ANY_CASE)
        if found is not None:
            named = found.groupdict()
            if any(re.match(NO_NAME, named[part], ANY_CASE) for part in ("subject", "object")):
                return None
            if re.search(NO_SUBJECT, named["subject"], ANY_CASE):
                return None
            return Triplet(
                subject=_bare(named["subject"]),
                predicate=predicate.format(**named).lower(),
                object=_bare(named["object"]),
            )
    return None


def _bare(name: str) -> str:
    """Return the name without its article, so that "the lab" and "a lab" are the same."""
    return re.sub(r"^(?:an?|the) (?!user\b|assistant\b)", "", name, flags=ANY_CASE)
