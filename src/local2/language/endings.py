"""Understand that something is over, or was never so: "I no longer work at Acme", "Rex died".

A clause in the first person ends what was stated before about the same thing. What ended is compared
with a stated fact by what is said (a class of verbs that mean the same, or a key) and of what (the
informative words). Questions, suppositions, plans, other people's words and others' affairs end
nothing, and what is limited to a time or place ends nothing either. In doubt, the fact stays.
"""

# ruff: noqa: E501 - a form is easier to read in one line

import re
from collections.abc import Iterator
from typing import NamedTuple

from local2.keys import fold_topic
from local2.language.clauses import (
    clauses_of,
    is_lasting,
    sentences_of,
    with_time_last,
    without_lead_in,
)
from local2.language.forms import CONDITION, DATE, EVENT_NOUN, NAME, PERIOD, PET, key_part
from local2.language.words import informative_words, stems

WORKING = frozenset({"work"})
LIVING = frozenset({"live", "resid"})
HAVING = frozenset({"have", "own", "drive", "keep"})
LIKING = frozenset({"like", "love", "enjoi", "ador", "prefer"})
BEING = frozenset({"be"})
BOOKED = frozenset({"have", "subscrib"})
LOVING_SOMEBODY = frozenset({"be", "date", "see"})
_CLASSES = (WORKING, LIVING, HAVING, LIKING)
"""Classes of verbs, as stems, that mean the same here. Any other verb is a class of its own."""
_IRREGULAR = {
    "has": "have", "had": "have", "'ve": "have", "got": "have", "having": "have",
    "is": "be", "am": "be", "are": "be", "'m": "be", "'re": "be", "being": "be", "driving": "drive",
}  # fmt: skip

_RELATION = r"(?:wife|husband|partner|spouse|fianc(?:\u00e9e?|ee?)|girlfriend|boyfriend)"
_PARTNER_TOPICS = (
    "user.wife", "user.husband", "user.partner", "user.spouse", "user.girlfriend",
    "user.boyfriend", "user.fiance", "user.fiancee", "user.marital_status", "user.relationship",
)  # fmt: skip
_IS_PARTNER = re.compile(
    rf"(?:happily |now )?(?:engaged|married|together with|in a relationship|going out with|dating|seeing)\b|{_RELATION}",
    re.IGNORECASE,
)


class Ending(NamedTuple):
    """What a clause says to be over or never to have been so.

    `verbs`: stems of the verbs by which it was stated. `value`: what it was stated of; None if the
    clause names nothing ("I lost my job"). `topics`: keys of facts that state it. `thing`: what of
    the user's has the value ("My colour isn't green").
    """

    verbs: frozenset[str]
    value: str | None = None
    topics: tuple[str, ...] = ()
    thing: str | None = None
    by_name: bool = False
    partner: bool = False
    booked: bool = False

    @property
    def searched(self) -> str:
        """The words to search for facts that it may end."""
        partner = "engaged married dating wife husband partner girlfriend boyfriend fiance"
        words = [self.thing, self.value, partner if self.partner else None]
        return " ".join(filter(None, (*words, *(() if self.value else sorted(self.verbs)))))


_ADVERBS = (
    r"(?:(?:really|also|just|finally|recently|already|actually|now|officially|sadly|unfortunately"
    r"|even|personally|eventually) )*"
)
_I = r"(?:i|we)"
_I_HAVE = rf"{_I}(?:'ve| have)? {_ADVERBS}"
_SINCE = (
    rf"(?:yesterday|last (?:{PERIOD}|\w+day)|(?:a|two|three|four|five|six|a few|\d+)"
    rf" (?:days?|weeks?|months?|years?) ago|this (?:week|month|year|spring|summer|autumn|winter)|in {DATE}\S*"
    r"(?: \d{4})?|on (?:\w+day\b|the \d+\S*)|back in \w+)"
)
_TAKEN_BACK = re.compile(
    r"(?<!single )\b(?:again|back|temporarily|but only|except|until)\b", re.IGNORECASE
)
"""Words of sentences that take back what they say to be over, or limit it."""
_REST = (
    rf"(?:,? (?:any ?more|any longer|now|for good|at all|after all|altogether|completely|either"
    rf"|these days|{_SINCE}|(?:because|since|after|due to|so|and|but|as) .+)|, .+)*[.! ]*$"
)
_NOW_REST = (
    r"(?:,? (?:any ?more|any longer|now|at all|after all|either|these days"
    r"|(?:because|since|but) .+)|, .+)*[.! ]*$"
)
_VALUE = r"(?P<v>\S.*?)"
_OWN = r"(?:both )?(?:my|our|the) "
_NOT_VALUE = r"(?!only\b|just\b|simply\b|merely\b|yet\b|sure\b|always\b|all\b|so\b|that\b|too\b|very\b|as\b|it\b|this\b)"
_VERB = r"(?!only\b|just\b|always\b|even\b|think\b|know\b|mean\b|need\b|believe\b)(?P<verb>[a-z]+)"


class _EndForm(NamedTuple):
    pattern: re.Pattern[str]
    ending: Ending


def _form(
    pattern: str,
    verbs: frozenset[str] = frozenset(),
    *topics: str,
    by_name: bool = False,
    partner: bool = False,
    booked: bool = False,
) -> _EndForm:
    ending = Ending(verbs, None, topics, None, by_name, partner, booked)
    return _EndForm(re.compile(pattern, re.IGNORECASE), ending)


_WORK_ENDED = r"(?:laid off|fired|let go|made redundant|dismissed|sacked)"
_ENDS: tuple[_EndForm, ...] = (
    # work
    _form(rf"{_I_HAVE}(?:left|quit|lost|resigned from|gave up|given up) {_OWN}(?:job|position|work){_REST}", WORKING, "user.employer", "user.job"),
    _form(rf"{_I_HAVE}(?:left|quit|lost|resigned from|gave up|given up) {_OWN}(?:job|position|work) (?:at|with|for|as) (?:an? )?{_VALUE}{_REST}", WORKING, "user.employer", "user.job"),
    _form(rf"{_I}(?:'ve| have)? (?:just |recently )?(?:was|were|got|been) {_WORK_ENDED}{_REST}", WORKING, "user.employer", "user.job"),
    _form(rf"{_I}(?:'ve| have)? (?:just |recently )?(?:was|were|got|been) {_WORK_ENDED} (?:from|by|at) {_VALUE}{_REST}", WORKING, "user.employer"),
    _form(rf"{_VALUE} (?:has )?(?:just )?(?:fired me|let me go|laid me off|made me redundant){_REST}", WORKING, "user.employer"),
    _form(rf"{_I_HAVE}(?:resigned|retired){_REST}", WORKING, "user.employer", "user.job"),
    _form(rf"{_I_HAVE}quit,? {_SINCE}{_REST}", WORKING, "user.employer", "user.job"),
    _form(rf"i(?:'m| am) (?:now )?(?:retired|unemployed|out of work|out of a job|between jobs){_REST}", WORKING, "user.employer", "user.job"),
    _form(rf"{_I_HAVE}(?:left|quit|resigned from) (?P<v>{NAME})(?: for (?:good|{NAME}))?{_REST}", WORKING, "user.employer"),
    # home
    _form(rf"{_I_HAVE}(?:moved (?:out of|away from|out from)|gave up the (?:flat|house) in) {_VALUE}{_REST}", LIVING, "user.home"),
    _form(rf"{_I_HAVE}(?:left) (?P<v>{NAME}) (?:for good|behind){_REST}", LIVING, "user.home"),
    # possessions and animals
    _form(rf"{_I_HAVE}(?:sold|gave away|given away|got rid of|gotten rid of|scrapped|junked) {_OWN}{_VALUE}{_REST}", HAVING),
    _form(rf"{_I_HAVE}(?:gave|given) {_OWN}{_VALUE} away{_REST}", HAVING),
    _form(rf"{_OWN}{_VALUE} (?:is|are|was|were|got|has been|have been|'s been) (?:just |finally )?(?:sold|stolen|scrapped|given away|towed to the scrapyard){_REST}", HAVING),
    _form(rf"(?:{_OWN}(?P<v>(?:[\w-]+ )?{PET})|(?P<named>{NAME}))(?: has| have)? (?:just |sadly )?(?:died|passed away|passed on){_REST}", HAVING, by_name=True),
    _form(rf"{_I_HAVE}had to (?:put|have) (?:(?:my|our|the) )?{_VALUE} (?:down|put down|to sleep){_REST}", HAVING, by_name=True),
    # partners
    _form(rf"(?:(?P<v>{NAME})|my {_RELATION}) and i(?: have|'ve)? {_ADVERBS}(?:broke up|broken up|split up|split|separated|divorced|got divorced|gotten divorced|are no longer together|aren't together|are over|called it off){_REST}", LOVING_SOMEBODY, *_PARTNER_TOPICS, partner=True),
    _form(rf"{_I_HAVE}(?:broke up|broken up|split up|broken things off|broke things off|finished) with (?:my {_RELATION}|(?P<v>{NAME})){_REST}", LOVING_SOMEBODY, *_PARTNER_TOPICS, partner=True),
    _form(rf"{_I_HAVE}(?:left|divorced) my (?:wife|husband|partner|girlfriend|boyfriend){_REST}", LOVING_SOMEBODY, *_PARTNER_TOPICS, partner=True),
    _form(rf"(?:(?P<v>{NAME})|my {_RELATION})(?: has)? (?:just )?(?:left me|dumped me|broke up with me|broken up with me|divorced me){_REST}", LOVING_SOMEBODY, *_PARTNER_TOPICS, partner=True),
    _form(rf"we(?:'ve| have)? {_ADVERBS}(?:broke up|broken up|split up|separated|got divorced|broke it off|broken it off|called off the (?:wedding|engagement)|broke off the engagement|broken off the engagement|are no longer together|are no longer engaged){_REST}", LOVING_SOMEBODY, *_PARTNER_TOPICS, partner=True),
    _form(rf"i(?:'m| am) (?:single (?:again|now)|divorced now|now (?:single|divorced)){_REST}", LOVING_SOMEBODY, *_PARTNER_TOPICS, partner=True),
    _form(rf"{_I_HAVE}(?:got|gotten) divorced{_REST}", LOVING_SOMEBODY, *_PARTNER_TOPICS, partner=True),
    # likes
    _form(rf"{_I_HAVE}(?:gone off|went off|lost (?:all |my )?(?:interest in|taste for)|fallen out of love with|grown out of|grew out of) {_VALUE}{_REST}", LIKING),
    _form(rf"{_I} {_ADVERBS}(?:hate|dislike|detest|loathe|can't stand|cannot stand|can't bear) {_VALUE}{_NOW_REST}", LIKING),
    # appointments and subscriptions
    _form(rf"{_I_HAVE}(?:cancelled|canceled|called off) {_OWN}{_VALUE}{_REST}", BOOKED, booked=True),
    _form(rf"{_OWN}{_VALUE} (?:is|was|were|are|got|has been|have been|'s been) (?:just )?(?:cancelled|canceled|called off){_REST}", BOOKED, booked=True),
    # my … isn't …
    _form(rf"my (?P<thing>[a-z-]+(?: [a-z-]+){{0,3}}?) (?:isn't|is not|is no longer|was never|aren't|are not|are no longer) {_NOT_VALUE}{_VALUE}{_NOW_REST}"),
    _form(rf"{_VALUE} (?:isn't|is not|is no longer|was never) my (?P<thing>[a-z-]+(?: [a-z-]+){{0,3}}?){_NOW_REST}"),
    # to be
    _form(rf"i(?:'m| am) (?:not|no longer) (?P<verb>(?!being|feeling|going|doing|saying|asking)[a-z]+ing) {_VALUE}{_NOW_REST}"),
    _form(rf"i(?:'m| am) (?:not|no longer) {_NOT_VALUE}(?:actually )?{_VALUE}{_NOW_REST}", BEING),
    _form(rf"i(?:'m| am) not {_NOT_VALUE}(?:actually )?{_VALUE} and never was{_NOW_REST}", BEING),
    _form(rf"i (?:was never|have never been|'ve never been) {_NOT_VALUE}(?:actually )?{_VALUE}{_NOW_REST}", BEING),
    _form(rf"{_I_HAVE}(?:stopped|quit) being {_VALUE}{_REST}", BEING),
    # any verb
    _form(rf"{_I} {_ADVERBS}no longer {_ADVERBS}{_VERB}{_REST}"),
    _form(rf"{_I} {_ADVERBS}no longer {_ADVERBS}{_VERB} {_VALUE}{_REST}"),
    _form(rf"{_I} {_ADVERBS}(?:don't|do not) {_NOT_VALUE}{_ADVERBS}{_VERB} {_VALUE}{_NOW_REST}"),
    _form(rf"{_I_HAVE}(?:stopped|quit|ceased|gave up|given up) (?P<verb>[a-z]+ing){_REST}"),
    _form(rf"{_I_HAVE}(?:stopped|quit|ceased|gave up|given up) (?P<verb>[a-z]+ing) {_VALUE}{_REST}"),
    _form(rf"{_I}(?:'ve| have)? never (?:actually |really )?{_VERB} {_VALUE}{_NOW_REST}"),
    _form(rf"{_I} used to {_VERB} {_VALUE}{_REST}"),
    _form(rf"{_I_HAVE}(?:quit|gave up|given up) (?:(?:my|the|on) )?{_VALUE}{_REST}", frozenset({"plai", "practis", "practic", "collect", "do", "smoke", "drink", "eat", "take"})),
)  # fmt: skip
_UNREAL = re.compile(
    r"\b(?:dream\w*|nightmare|game|novel|film|movie|story|character|song|joke|jokingly|for a"
    r" (?:day|week|month|while|bit|moment|minute|few)|for (?:lent|now|today|tonight|the (?:day"
    r"|weekend|week|night|moment|evening))|temporarily|today|tonight|tomorrow|this (?:morning"
    r"|afternoon|evening)|next \w+|at (?:the|this) moment|soon|will|going to|until|late|early|\w+"
    r" minutes|at (?:\d|noon|midnight|one|two|three|four|five|six|seven|eight|nine|ten)\S*)\b",
    re.IGNORECASE,
)
"""Marks of clauses that are not real, or only so for a time."""


def endings_of(content: str) -> list[Ending]:
    """Return what a message says to be over or never to have been so."""
    endings: dict[Ending, None] = {}
    for sentence in sentences_of(content):
        if not is_lasting(sentence) or _TAKEN_BACK.search(sentence):
            continue
        whole = with_time_last(without_lead_in(sentence))
        for part in dict.fromkeys((whole, *clauses_of(whole))):  # "Eva and I" is one subject
            clause = without_lead_in(part)
            if is_lasting(clause) and not _UNREAL.search(clause):
                endings.update(dict.fromkeys(_endings_of_clause(clause)))
    return list(endings)


def _endings_of_clause(clause: str) -> Iterator[Ending]:
    for form in _ENDS:
        found = form.pattern.match(clause)
        if found is None:
            continue
        groups = found.groupdict()
        value, verb, thing = (
            groups.get("v") or groups.get("named"),
            groups.get("verb"),
            groups.get("thing"),
        )
        ending = form.ending._replace(value=value, thing=thing)
        if verb is not None:
            ending = ending._replace(verbs=_class_of(verb), topics=_topics_of(verb))
        elif thing is not None:
            ending = ending._replace(topics=(f"user.{key_part(thing)}",))
        elif ending.verbs == BEING and value is not None and _HEALTH.match(value):
            ending = ending._replace(verbs=BEING | HAVING)
        if value is not None or ending.topics or verb is not None:
            yield ending


_HEALTH = re.compile(rf"{CONDITION}\b", re.IGNORECASE)


def _topics_of(verb: str) -> tuple[str, ...]:
    verbs = _class_of(verb)
    if verbs == WORKING:
        return ("user.employer",)
    return ("user.home",) if verbs == LIVING else ()


def _class_of(verb: str) -> frozenset[str]:
    word = verb.lower()
    stem = stems([_IRREGULAR.get(word, word)])[0] if word not in _IRREGULAR else _IRREGULAR[word]
    return next((class_ for class_ in _CLASSES if stem in class_), frozenset({stem}))


_STATES = re.compile(
    r"(?P<who>(?:the )?user|i|we|{who})(?: said: (?:i|we))?"
    r"(?:(?P<thing>'s [a-z -]+?) (?:is|are)(?: called| named)? (?P<its>.+)|"
    r"(?:(?=')| )(?:(?:really|also|just|now|still|currently|always|usually|often|generally"
    r"|absolutely|particularly) )*(?P<verb>'?[a-z]+)(?: (?P<rest>.+))?)",
    re.IGNORECASE,
)
_IN_PROGRESS = re.compile(
    r"(?:(?:been|currently|now) )*(?P<verb>[a-z]+ing)(?: (?P<rest>.+))", re.IGNORECASE
)
_BREAK = re.compile(
    r"[,;.()]|\s(?:with|because|since|for|in|on|at|as|from|near|who|which|that|and|but|called|named"
    r"|every|each|by|where|when|of)\b",
    re.IGNORECASE,
)
_EVENT = re.compile(
    rf"(?:[\w'-]+ ){{0,3}}?{EVENT_NOUN}\b(?= (?:to|with|in|at|for)\b|$)", re.IGNORECASE
)
_SEVERAL = re.compile(r"(?:two|three|four|five|six|seven|several|\d{1,2})\b", re.IGNORECASE)
_WORKPLACE = re.compile(r"(?:at|for|with)\b", re.IGNORECASE)
_PREPOSITION = re.compile(r"^(?:at|for|with|in|on|as|from|near)\b ?", re.IGNORECASE)
_NEGATED = re.compile(r"\b(?:not|never|no longer|used to)\b|n't\b|\bany ?more\b", re.IGNORECASE)


def ends(ending: Ending, content: str, topic: str | None, who: str | None) -> bool:
    """Return whether what ended is what a fact states. `who`: the speaker's name; None: the user."""
    own_topics = {fold_topic(own) for own in ending.topics}
    has_topic = topic is not None and who is None and fold_topic(topic) in own_topics
    stated = _stated_by(content, who)
    if _NEGATED.search(content) or not _stems_of(ending.value or "") <= _stems_of(content):
        return False
    if stated is None:
        return has_topic
    if ending.partner:
        return has_topic or _IS_PARTNER.match(stated.thing or stated.value) is not None
    if stated.thing:
        return _ends_thing(ending, stated, has_topic=has_topic)
    says_same = bool(ending.verbs & _class_of(stated.verb))
    if ending.value is None:
        return has_topic or (says_same and not ending.topics)
    return ending.thing is None and says_same and _is_of_same(ending, stated.value)


def _ends_thing(ending: Ending, stated: "_Stated", *, has_topic: bool) -> bool:
    """Return whether a named ending is about the thing of the user's that a fact is about."""
    if ending.booked:
        event = _EVENT.match(stated.thing)
        return event is not None and _head(event[0]) in _stems_of(ending.value or "")
    if ending.thing is not None:
        is_same = has_topic or _stems_of(stated.thing) == _stems_of(ending.thing)
        return is_same and _stems_of(ending.value or "") <= _stems_of(stated.value)
    by_name = ending.by_name and _is_of_same(ending, f"{stated.thing} {stated.value}")
    return has_topic or by_name


class _Stated(NamedTuple):
    """What a fact states: a verb and its object, or a thing of the user's and its value."""

    verb: str
    thing: str
    value: str


def _stated_by(content: str, who: str | None) -> _Stated | None:
    pattern = _STATES.pattern.replace("|{who}", f"|{re.escape(who)}" if who else "")
    found = re.match(pattern, content, re.IGNORECASE)
    if found is None or (who and found["who"].casefold() != who.casefold()):
        return None
    if found["thing"]:
        return _Stated("is", found["thing"].removeprefix("'s ").strip(), found["its"])
    verb, rest = found["verb"], found["rest"] or ""
    progress = _IN_PROGRESS.match(rest)
    if _class_of(verb) in (BEING, HAVING) and progress:
        verb, rest = progress["verb"], progress["rest"] or ""
    return _Stated(verb, "", rest)


def _is_of_same(ending: Ending, value: str) -> bool:
    """Return whether an ending names what a fact states something of."""
    ended = ending.value or ""
    is_workplace = bool(_WORKPLACE.match(ended)) == bool(_WORKPLACE.match(value))
    if ending.verbs == WORKING and _PREPOSITION.match(ended) and not is_workplace:
        return False
    wanted, known = _stems_of(ended), _stems_of(value)
    if not wanted or not wanted <= known:
        return False
    if _SEVERAL.match(value) and not ended.rstrip(".! ").endswith("s"):
        return False
    if ending.verbs in (WORKING, LIVING):
        return True
    noun_phrase = _BREAK.split(_PREPOSITION.sub("", value, count=1), 1)[0]
    if ending.verbs & BEING:
        noun_phrase = _BREAK.split(value, 1)[0]
    has_name = any(word[:1].isupper() for word in ended.split())
    return _head(noun_phrase) in wanted or (ending.verbs == HAVING and has_name)


def _stems_of(text: str) -> frozenset[str]:
    return frozenset(stems(informative_words(text)))


def _head(noun_phrase: str) -> str:
    """Return the stem of the last informative word."""
    return next(iter(reversed(stems(informative_words(noun_phrase)))), "")
