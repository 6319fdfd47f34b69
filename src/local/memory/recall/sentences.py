"""Whether sentences ask or tell, by their form alone."""

import re

_SENTENCE = re.compile(r"[^.!?\n]+[.!?]*")
_SOMETHING = re.compile(r"\w\w")
_DECORATION = " \t\"'*#>-\u2013\u2014\u201c\u201d"
_ASKS = re.compile(
    r"(?:please\s+)?(?:what|when|where|who|whom|whose|which|why|how|do|does|did|is|are|was|were|am"
    r"|can|could|would|will|should|shall|may|might|has|have|had|any|isn|aren|don|didn|doesn|tell"
    r"|show|give|list|find|remind|summari[sz]e|search|recall|remember|look\s+up|describe|explain"
    r"|mention|name)\b",
    re.IGNORECASE,
)
_SUBJECT = re.compile(r"\b(?:i|we|let['\u2019]s)\b", re.IGNORECASE)


def sentences(text: str) -> list[str]:
    """Those that say something, each with the mark that ends it."""
    return [found.strip() for found in _SENTENCE.findall(text) if _SOMETHING.search(found)]


def is_question(sentence: str) -> bool:
    return sentence.endswith("?")


def telling(text: str) -> float:
    """How much of a text tells something rather than ask for it, from 0 to 1.

    A question to a memory, or some keywords, tell nothing; a turn that goes on with a conversation
    tells what happened before it asks.
    """
    every = [sentence.strip(_DECORATION) for sentence in sentences(text)]
    if not every or (len(every) == 1 and not _SUBJECT.search(text)):
        return 0.0
    tells = [s for s in every if not is_question(s) and not _ASKS.match(s)]
    return len(tells) / len(every)
