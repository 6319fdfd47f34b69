"""Whether a sentence may hold something that lasts, by its form alone, before anything is extracted.

Most of what is said is of the moment: questions, requests, thanks, suppositions, guesses, what
others are said to have said. Precision comes first: what is stated again can be extracted then.
"""

import re

from local.text.sentences import is_question

_ASKS = re.compile(
    r"(?:what|when|where|who|whom|whose|which|why|how|do|does|did|is|are|was|were|am|can|could"
    r"|would|will|shall|may|has|have|had|isn't|aren't|don't you|doesn't|didn't)\b"
    r"(?!ever (?:i|you|we)\b)",
    re.IGNORECASE,
)
_SUPPOSES = re.compile(
    r"\b(?:if|unless|(?-i:may)(?! \d)|might|maybe|perhaps|probably|possibly|suppose|supposing|imagine"
    r"|pretend|assume|assuming|hypothetically|wish|wonder(?:ing)?|whether|guess|hopefully|what if"
    r"|let's say|as though|would've|could've|would have|could have|should have|kidding|joking"
    r"|doubt|unsure|not sure|almost|nearly|considering|thinking (?:of|about)|tempted|seems?"
    r"|feels? like|looks like|sounds like|so-called|theoretically|would|could|haven't|hasn't)\b"
    r"(?! (?:like|love|prefer) (?:you|to (?:learn|become|visit|travel|live|run|open|start)))",
    re.IGNORECASE,
)
_REPORTS = re.compile(
    r"\b(?:says?|said|told|tells?|claims?|claimed|asks?|asked|thinks?|thought|believes?"
    r"|according to|supposedly|apparently|allegedly|quote)\b",
    re.IGNORECASE,
)
_ASKS_OF_YOU = re.compile(
    r"(?:please\s+)?(?:i (?:want|need|would like|expect)|i'd like|i'm asking) (?:you|your|to ask)\b"
    r"|(?:please )?(?:help|tell|show|give|write|make|create|generate|explain|find|list|describe"
    r"|translate|summari[sz]e|rewrite|let's|let me|let us|go ahead|proceed|continue|start|stop|try"
    r"|add|remove|change|update|fix|check|use|keep|put|include|provide|suggest|recommend)\b",
    re.IGNORECASE,
)
_SECRET = re.compile(
    r"\b(?:passwords?|passcodes?|passphrases?|pin(?: code| number)?|cvv|ssn|social security"
    r"|credit card|card number|api[ _-]?keys?|secret keys?|access tokens?|private keys?|iban)\b",
    re.IGNORECASE,
)
_STANDING = re.compile(
    r"\b(?:always|never|don't ever|do not ever|from now on|from here on|going forward"
    r"|in (?:the )?future|by default|whenever|every time|each time|at all times|any ?time)\b"
    r"|^(?:please )?(?:answer|reply|respond|speak|talk|write)(?: to me)? (?:only |always )*in \w+",
    re.IGNORECASE,
)
"""What is asked for once and for all."""


def is_lasting(sentence: str) -> bool:
    """Whether it states, or asks for good, something that does not pass with the conversation."""
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


def is_denied(clause: str) -> bool:
    return _DENIES.search(clause) is not None


_DENIES = re.compile(
    r"\b(?:not|never|no|nobody|none|nothing|neither|nor|without|hardly|barely|rarely|cannot)\b"
    r"|n't\b",
    re.IGNORECASE,
)
