"""Select the sentences of a message from which facts are extracted.

Code, quotations and pasted text are not the user's own words. Most other sentences matter only at
the moment: questions, requests, thanks, suppositions, guesses, reports of other people's words.
Precision comes first: a missed fact can be extracted when it is stated again.

When people work on something together, most of what is worth remembering has no typical form. But
its subject comes up again in an answer (`Salience`). A single sentence without a conversation
around it never counts.
"""

import re
from collections.abc import Iterator, Sequence
from functools import cached_property

from local2.language import german
from local2.language.attributes import Table, expanded
from local2.language.english import VOCABULARY
from local2.language.questions import QUESTION_WORDS, is_question
from local2.language.sentences import PART_BREAK, split_lazily
from local2.language.words import RUN, informative_stems, informative_words, stems

MESSAGE_CHARACTERS = 2_000
"""Maximum characters of a message that are read. A longer one is mostly pasted, and begins with its
purpose."""
MAX_SENTENCE = 240
"""Maximum characters of a sentence. A longer one is prose, and slow to match."""

_CODE = re.compile(r"```.*?(?:```|\Z)", re.DOTALL)
_NO_PROSE = re.compile(r"\s*[>|#]|.*[{}<>=\\]|.*\w\(|\s*(?:import|def|class|return|SELECT)\b")
_MARKS = re.compile(
    r"`|\[[^\[\]]*\]|\*\*|__|(?<!\w)[*_]|[*_](?!\w)|^\s*(?:[-*\u2022]|\d{1,2}[.)])\s+"
)
_STRAIGHT = str.maketrans("\u2019\u2018\u201c\u201d\u00a0", "''\"\" ")
_INTRODUCES = re.compile(
    r"\b(?:translat|summari|rewrite|rephrase|proofread|correct(?!ion)|example|quote|text|e-?mail|letter"
    r"|following|below|message|prompt)\w*\b[^:]{0,80}:(?:\s|$)|\b(?:following|below)\b[^:]{0,40}$",
    re.IGNORECASE,
)
_LETTER = re.compile(r"^\s*(?:dear|subject:|to whom)\b", re.IGNORECASE)
_PLAYS = re.compile(
    r"\b(?:act(?:ing)? as|pretend|role-?play|imagine|you are (?:an?|the)|you're (?:an?|the)"
    r"|you will (?:act|be)|play the (?:role|part))\b",
    re.IGNORECASE,
)
"""Requests to play a part. The text after one speaks for somebody else."""
_APPOSITION = r"(?!(?:my|our) [\w'-]+(?: [\w'-]+)?, (?-i:[a-z]))"
"""What may follow ", ": no apposition, as in "Theo, my son, is fifteen"."""
_CLAUSES = re.compile(
    r",?\s+(?:and|but|so|plus|although|though)\s+(?=(?:i|my|we|our)\b)"
    r"|,?\s+so\s+(?=(?:please|no|don't|do not|never)\b)"  # "I'm vegan, so please no cheese"
    rf"|,\s+{_APPOSITION}(?=(?:i|my|we|our|it's|he|she|they)\b)",
    re.IGNORECASE,
)
_EXPLAINED = re.compile(r"((?:i|we)\b[^:]{2,40}):\s+(?=(?:i|my|we|our)\b)", re.IGNORECASE)
"""A statement about oneself that is explained after a colon. In "Tom: I …" Tom speaks."""
_LEAD_IN = re.compile(
    r"(?:(?:and|but|so|well|ok(?:ay)?|oh|also|actually|honestly|basically|anyway|yes|yeah|yep"
    r"|no(?! more| longer)"
    r"|hi|hello|hey(?: there)?|by the way|btw|fyi|just so you know"
    r"|for (?:your|the) (?:info\w*|record)"
    r"|as (?:you know|i said|mentioned)|(?:please )?(?:remember|note|know)(?: that)?|of course"
    r"|(?:it )?turn(?:s|ed) out(?: that)?|these days|nowadays"
    r"|good (?:morning|evening|afternoon)|sorry|correction|update|alright|right|great|thanks)\b"
    r"[\s,.:!-]*)+",
    re.IGNORECASE,
)
_ASIDE_LAST = re.compile(r"[\s,]+(?:btw|by the way|fyi|lol|haha)[\s.!)]*$", re.IGNORECASE)
GREETING = re.compile(r"\s*(?:hi|hello|hey|good (?:morning|evening|afternoon))\b", re.IGNORECASE)
_NAME_FIRST = expanded(
    r"(?P<name><name>), (?P<who>(my|our) [\w'-]+( [\w'-]+)?), (?P<rest>(?-i:[a-z]).+)", VOCABULARY
)
_WHEN_FIRST = expanded(
    r"(?P<time>(in |on |since |back in )?<past>|<henceforth>|(today|sometimes|occasionally"
    r"|(in|over|during|this) (the )?(<period>)|(at|on|over) (the )?weekends?|on (<weekday>)s)(?=,))"
    r",? (?P<rest>(i|we|my|our)\b.+)",
    VOCABULARY,
)


_WITHOUT_APOSTROPHE = re.compile(
    r"\b(?:(i)(m)|(i|you|we|they)(ve)|(you|they)(re)|(he|she|that|there)(s)"
    r"|((?:do|does|did|is|are|was|were|have|has|had|would|could|should|ca|wo)n)(t))\b",
    re.IGNORECASE,
)


def with_apostrophes(sentence: str) -> str:
    """An English sentence with the apostrophes that people leave out: "im", "dont"."""

    def marked(found: re.Match[str]) -> str:
        before, after = filter(None, found.groups())
        return f"{'I' if before == 'i' else before}'{after}"

    return _WITHOUT_APOSTROPHE.sub(marked, sentence)


def own_sentences(content: str) -> Iterator[str]:
    """Yield the sentences in the user's own words, in order, until quoted or pasted text begins."""
    prose = _CODE.sub(" ", content[:MESSAGE_CHARACTERS]).translate(_STRAIGHT)
    if len(content) > MESSAGE_CHARACTERS:
        prose = prose.rpartition(" ")[0]
    for line in prose.splitlines():
        if _LETTER.match(line) or _PLAYS.search(line[:MAX_SENTENCE]):
            return
        if _NO_PROSE.match(line):
            continue
        quoting = False
        for written in split_lazily(PART_BREAK, _MARKS.sub("", line).strip()):
            within, quoting = quoting, quoting != (written.count('"') % 2 == 1)
            if within or quoting or not 0 < len(written) <= MAX_SENTENCE:
                continue
            sentence = written.strip()
            if _INTRODUCES.search(sentence) or german.introduces(sentence):
                return
            yield sentence


def without_lead_in(sentence: str) -> str:
    """The sentence without "Hi", "by the way" and the like at its beginning."""
    found = _LEAD_IN.match(sentence)
    return sentence[found.end() :] if found else sentence


_ASKS = re.compile(
    rf"(?:{QUESTION_WORDS}|isn't|aren't|don't you|doesn't|didn't)\b(?!ever (?:i|you|we)\b)",
    re.IGNORECASE,
)
_SUPPOSES = re.compile(
    r"\b(?:if|unless|(?-i:may)(?! \d)|might|maybe|perhaps|probably|possibly|suppose|supposing"
    r"|imagine|pretend|assume|assuming|hypothetically|wish|wonder(?:ing)?|whether|guess|hopefully"
    r"|let's say|as though|should have|kidding"
    r"|joking|doubt|unsure|not sure|almost|nearly|considering|thinking (?:of|about)|tempted|seems?"
    r"|feels? like|looks like|sounds like|so-called|theoretically|would|could"
    r"|in (?:an?|my|the|this|another) (?:\w+ )?(?:dream|novel|story|film|movie|game|play)(?=,)"
    r"|haven't(?! got)|hasn't|temporarily|just for)\b"
    r"(?! (?:like|love|prefer) (?:you|to (?:learn|become|visit|travel|live|run|open|start)))",
    re.IGNORECASE,
)
_REPORTS = re.compile(
    r"\b(?:says?|said|told|tells?|claims?|claimed|asks?|asked|thinks?|thought|believes?"
    r"|according to|supposedly|apparently|allegedly|quote)\b",
    re.IGNORECASE,
)
_OWN = re.compile(r"(?:i|we)\b", re.IGNORECASE)
_ASKS_OF_YOU = re.compile(
    r"(?:please\s+)?(?:i (?:want|need|would like|expect)|i'd like) (?:you|your|to ask)\b"
    r"|(?:please )?(?:help|tell|show|give|write|make|create|explain|let)\b",
    re.IGNORECASE,
)
_SECRET = re.compile(
    r"\b(?:passwords?|passcodes?|passphrases?|pin|cvv|ssn|social security"
    r"|credit card|card number|api[ _-]?keys?|secret keys?|access tokens?|private keys?|iban)\b",
    re.IGNORECASE,
)
_STANDING = re.compile(
    r"\b(?:always|never|don't ever|do not ever|from now on|from here on|going forward"
    r"|in (?:the )?future|by default|whenever|every time|each time|at all times|any ?time)\b"
    r"|^(?:please )?(?:answer|reply|respond|speak|talk)(?: to me)? (?:only |always )*in \w+",
    re.IGNORECASE,
)
"""Marks of requests that hold from now on."""


def leads_to_own_words(lead_in: str) -> bool:
    """Whether its English speaker states what follows: not after "Tom says:", "If I win,".

    `lead_in`: with the colon or comma at its end.
    """
    if len(lead_in) > MAX_SENTENCE:
        return False
    bare = without_lead_in(lead_in)
    is_reported = _REPORTS.search(bare) and not _OWN.match(bare)
    return not (is_reported or _SUPPOSES.search(bare) or _INTRODUCES.search(bare))


_POINTS_BACK = re.compile(
    r"\b(?:it|this|that|them|those|these|ones?|here|there|so|instead|(?<!and )then)\W*$",
    re.IGNORECASE,
)


class English(Table):
    """How English is read."""

    def is_lasting(self, sentence: str) -> bool:
        if is_question(sentence) or _SECRET.search(sentence):
            return False
        if _STANDING.search(sentence):
            return not _ASKS.match(sentence)
        return not (
            _ASKS.match(sentence)
            or _SUPPOSES.search(sentence)
            or _REPORTS.search(sentence)
            or _ASKS_OF_YOU.match(sentence)
        )

    def whole(self, sentence: str) -> str:
        bare = without_lead_in(sentence)
        if found := _NAME_FIRST.fullmatch(bare):  # "my son Theo is …" for "Theo, my son, …"
            bare = f"{found['who']} {found['name']} {found['rest']}"
        if found := _WHEN_FIRST.fullmatch(bare.rstrip(" .!")):  # "I … last week" for "Last week I"
            time = found["time"]
            first = time[:1].lower() if time[1:2].islower() else time[:1]
            bare = f"{found['rest']} {first}{time[1:]}"
        return bare

    def clauses(self, sentence: str) -> Sequence[str]:
        whole = self.whole(sentence)
        explained = _EXPLAINED.match(whole)
        parts = [explained[1], whole[explained.end() :]] if explained else [whole]
        split = (clause for part in parts for clause in _CLAUSES.split(part))
        return [
            without_lead_in(clause)
            for part in split
            if (clause := _ASIDE_LAST.sub("", part).strip(" ,."))
        ]

    def stands_alone(self, clause: str) -> bool:
        return " " in clause and not _POINTS_BACK.search(clause)


COMPARED_CHARACTERS = 2_000
"""Number of characters of each answer that are compared with statements."""
MAX_TALK = 800
"""Maximum characters of a message that counts as talk; a longer one is a composed text."""
MIN_TALK_SENTENCES = 3
"""Minimum number of sentences of a message that counts as talk; fewer are a request with details.
"""
MIN_SHARED_WORDS = 3
"""Minimum number of informative words that a statement and the answers must have in common."""
MAX_JOINED = 200
"""Maximum characters of sentences of one message that are joined into one text."""

_FIRST_PERSON = re.compile(r"\b(?:i|my|me|we|our)\b", re.IGNORECASE)
_UNCLEAR = re.compile(
    r"\b(?:you|your|you're|you've|you'll|yours)\b|^(?:it|it's|this|that|that's|he|she|they)\b"
    r"|\b(?:it|this|these|those)\b(?! [a-z])",
    re.IGNORECASE,
)
"""Words that are not understood without the conversation."""


class Salience:
    """Judges statements by whether the assistant's answers around them take up their subject."""

    def __init__(self, answers: Sequence[str]) -> None:
        self._answers = answers

    @cached_property
    def _taken_up(self) -> frozenset[str]:
        text = "\n".join(answer[:COMPARED_CHARACTERS] for answer in self._answers)
        return informative_stems(text)

    def holds(self, statement: str) -> bool:
        """Whether a statement is complete and its subject comes up in an answer.

        Pairs of characters do not count as words here, because any line in such a language has
        many.
        """
        if _UNCLEAR.search(statement):
            return False
        own = [word for word in informative_words(statement) if not RUN.match(word)]
        shared = self._taken_up.intersection(stems(own))
        return min(len(own), len(shared)) >= MIN_SHARED_WORDS


def is_talk(content: str, sentences: Sequence[str]) -> bool:
    """Whether a message talks about the user's own affairs, and is no request or text."""
    return (
        len(content) <= MAX_TALK
        and len(sentences) >= MIN_TALK_SENTENCES
        and any(map(_FIRST_PERSON.search, sentences))
    )


def join_short(statements: Sequence[str]) -> Iterator[str]:
    """Join consecutive sentences into texts of at most MAX_JOINED characters."""
    text = ""
    for statement in statements:
        joined = f"{text.rstrip('.! ')}. {statement}" if text else statement
        if text and len(joined) > MAX_JOINED:
            yield text
            joined = statement
        text = joined
    if text:
        yield text
