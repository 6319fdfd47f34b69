"""Facts in plain English statements, by the tables below, for machines without a model.

What is asked, doubted, denied, supposed, reported or said of "it" and "them" is left out: a fact
that is missing can be told again, a wrong one is believed.
"""

import re
from collections.abc import Iterator

from local.conversation.compaction.sentences import pieces
from local.protocol.memories import Triplet

SAYS_NO_MORE = (
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
VERBS = {  # as the speaker says it of himself: as others say it
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
FIRST_PERSON = (  # as somebody else says it of the speaker
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
"""What no subject has in it: the fact would be what somebody knows, or another's."""

STATED = (  # what a whole clause looks like, what its predicate becomes
    (rf"{OF_WHOM}'s? {THING} {BE} {REST}", "has the {thing}"),
    (rf"the {THING} of {NAME} {BE} {REST}", "has the {thing}"),
    (rf"{NAME} (?P<said>{BE} (?:(?:an?|the) )?(?:[\w-]+ ){{0,3}}?{TOWARDS}) {REST}", "{said}"),
    (rf"{NAME} (?P<said>{BE}(?: (?:an?|the))?) {REST}", "{said}"),
    (rf"{NAME} (?P<said>{VERB}(?: an?)?) {REST}", "{said}"),
)
TITLE = r"(?<!\b[DMS][rst]\.)(?<!\bMrs\.)(?<!\b[A-Z]\.)"
BETWEEN_SENTENCES = rf"(?<=[.!?]){TITLE}\s+(?=[\"'(]?[A-Z])|\n+|;\s*"
_BETWEEN = re.compile(BETWEEN_SENTENCES)
BREAKS_OFF = r",? (?:because|since|although|while|when|which|who|but|so)\b.*|,(?! \w+ and ).*"
GOES_ON = (
    rf",? and (?=(?:{VERB}|{BE})\b"
    rf"|(?:(?!and\b)[\w'.-]+ ){{1,3}}(?:{'|'.join(VERBS.values())}|{BE})\b)"
)
LONGEST_SENTENCE = 300
"""Characters; a longer one is prose, and would be slow to match."""
LONGEST_LED_IN = 3_000
"""With what leads in."""
ANY_CASE = re.IGNORECASE


def extract(text: str, speaker: str) -> Iterator[Triplet]:
    """The facts that are plainly stated, in their order; `speaker` is who "I" is."""
    for sentence in _sentences(text.replace("\u2019", "'")):
        stated = re.sub(LEAD_IN, "", sentence, count=1, flags=ANY_CASE)
        if len(stated) <= LONGEST_SENTENCE and not re.search(SAYS_NO_MORE, stated, ANY_CASE):
            said = _in_third_person(stated, speaker)
            if not re.search(r"\bI\b", said):
                yield from _stated(said)


def _sentences(text: str) -> Iterator[str]:
    """Those that say something, and not too much, one by one."""
    stripped = map(str.strip, pieces(_BETWEEN, text))
    return (sentence for sentence in stripped if 0 < len(sentence) <= LONGEST_LED_IN)


def _in_third_person(sentence: str, speaker: str) -> str:
    said = sentence
    for pattern, form in FIRST_PERSON:
        said = re.sub(pattern, form.format(speaker=speaker), said, flags=ANY_CASE)
    if said == sentence:
        return sentence
    verb = rf"({re.escape(speaker)}|and) ({'|'.join(VERBS)})\b"
    return re.sub(verb, lambda found: f"{found[1]} {VERBS[found[2]]}", said)


def _stated(sentence: str) -> Iterator[Triplet]:
    """The facts of one sentence; what follows "and" without a subject has that of the first."""
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
    """Without the article, so that "the lab" and "a lab" are the same."""
    return re.sub(r"^(?:an?|the) (?!user\b|assistant\b)", "", name, flags=ANY_CASE)
