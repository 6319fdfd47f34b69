"""Define forms: patterns of people's statements, with the kind of memory that each one gives."""

import re
from typing import NamedTuple

from local.protocol.memories import Durability, MemoryType

MONTH = (
    r"(?:jan(?:uary)?|feb(?:ruary)?|(?-i:March|May)|apr(?:il)?|june?|july?|aug(?:ust)?"
    r"|sept?(?:ember)?|oct(?:ober)?|nov(?:ember)?|dec(?:ember)?)"
)
WEEKDAY = r"(?:mon|tues|wednes|thurs|fri|satur|sun)day"
PERIOD = r"(?:night|weekend|week|month|year|spring|summer|autumn|fall|winter|semester|quarter)"
DATE = (
    rf"(?:\d{{4}}-\d\d?-\d\d?|\d\d?/\d\d?(?:/\d{{2,4}})?|{MONTH}\b|(?:19|20)\d\d\b"
    r"|\d\d?(?:st|nd|rd|th)\b)"
)
COMING_TIME = (
    rf"\b(?:tomorrow|tonight|today|(?:next|this|coming) (?:{PERIOD}|{WEEKDAY})|{WEEKDAY}|{DATE}"
    r"|in (?:\d{1,2}|an?|two|three|four|five|six|a few|a couple of) (?:day|week|month|year)s?"
    r"|(?:the )?end of (?:the )?\w+|q[1-4])\b"
)
PAST_TIME = (
    rf"\b(?:yesterday|last (?:{PERIOD}|{WEEKDAY})|this (?:morning|afternoon|evening|{PERIOD})"
    rf"|{DATE}|(?:\w+ ){{1,3}}ago|when i was \w+|as a (?:child|kid|teenager)|on {WEEKDAY}"
    r"|the other day|recently|over the (?:weekend|holidays|summer)|today|earlier)\b"
)
NAME = r"(?-i:[A-Z][\w'.-]+(?: (?:[A-Z][\w'-]+|de|von|van|del|la|al)){0,3}(?<![.']))"
BE = r"(?:'s|is|are)"
ADVERBS = (
    r"(?:(?:really|absolutely|also|do|just|totally|truly|quite|personally|generally|usually"
    r"|actually|always|still|particularly|especially|finally|recently|already|currently|mostly"
    r"|mainly|never|often|sometimes|normally|typically|have|now|both) )*"
)
_ROLE = "boss|manager|mentor|landlord|therapist|doctor"
PERSON = (
    r"(?:mother|father|mom|mum|dad|parents?|wife|husband|partner|fianc\u00e9e?|fiancee?|girlfriend"
    r"|boyfriend|ex|sons?|daughters?|kids?|child(?:ren)?|bab(?:y|ies)|twins?|brothers?|sisters?"
    r"|siblings?|cousins?|aunt|uncle|niece|nephew|grand(?:mother|father|ma|pa|parents|son|daughter"
    r"|children)|gran|(?:step|half)[- ]?(?:mother|father|brother|sister|son|daughter)"
    r"|(?:mother|father|brother|sister)-in-law|in-laws|famil(?:y|ies)|(?:best )?friend|room-?mate"
    rf"|flat-?mate|neighbou?r|colleague|co-?worker|{_ROLE})"
)
CALLED_UPON = (
    rf"(?:{_ROLE}|supervisor|team lead|landlady|coach|trainer|dentist|gp|vet|psychologist"
    r"|psychiatrist|physio(?:therapist)?|accountant|lawyer|solicitor|tax advis[eo]r|teacher|tutor"
    r"|hairdresser|barber|nanny|babysitter|cleaner|gardener)"
)
"""People of whom one usually has one at a time: a new one replaces the one before."""
ONE_PERSON = (
    r"(?:mother|father|mom|mum|dad|wife|husband|partner|fianc\u00e9e?|fiancee?|girlfriend|boyfriend"
    rf"|{_ROLE})"
)
PET = (
    r"(?:dogs?|cats?|pupp(?:y|ies)|kittens?|parrots?|budgies?|horses?|pon(?:y|ies)|rabbits?|hamsters?"
    r"|guinea pigs?|goldfish|tortoises?|turtles?|snakes?|lizards?|chickens|retrievers?|terriers?"
    r"|labradors?|poodles?|beagles?|collies?|dachshunds?|corgis?|hus(?:ky|kies)|pets?)"
)
POSSESSION = (
    r"(?:car|van|house|flat|apartment|home|cottage|cabin|garden|allotment|balcony|boat|motorbike"
    r"|motorcycle|bike|bicycle|e-bike|piano|guitar|violin|camera|farm|caf\u00e9|cafe|shop|company"
    r"|business|startup|restaurant|bakery|degree|phd|doctorate|master's|diploma|licen[cs]e|visa"
    r"|passport|mortgage|tattoos?|blog|podcast)"
)
ILLNESS = (
    r"(?:diabet\w+|asthma\w*|adhd|(?-i:ADD)|autis\w+|anxiety|depression|epilep\w+|arthritis|migraines?"
    r"|allerg\w+|c(?:o)?eliac\w*|ibs|hypertension|high blood pressure|low blood pressure|insomnia"
    r"|dyslexi\w+|eczema|psoriasis|hay fever|scoliosis|tinnitus|anemia|anaemia|cancer|ptsd|ocd"
    r"|bipolar|a bad (?:knee|back|hip|shoulder)|\w+itis|\w+phobia|\w+ intolerance|\w+ syndrome"
    r"|\w+ disorder|\w+ disease)"
)
CONDITION = (
    r"(?:(?:lactose|gluten) intolerant|diabetic|dyslexic|autistic|epileptic|asthmatic"
    r"|colou?r-?blind|deaf|(?:legally )?blind|pregnant|left-handed"
    r"|an? (?:diabetic|coeliac|celiac|type \d diabetic)"
    r"|hard of hearing|bipolar|neurodivergent|introverted|an? (?:introvert|extrovert))"
)
DIET = (
    r"(?:an? )?(?:strict |lifelong )?(?:vegetarian|vegan|pescatarian|flexitarian|on a \w+ diet"
    r"|keto|halal|kosher|gluten-free)"
)
JOB = (
    r"(?:(?!(?:beginn|memb|believ|lov|us|custom|newcom|lon|moth|fath|broth|sist|foreign|smok|own"
    r"|start|follow|should|begg|hat|quick|slow|early|late|fast|heavy|light|num|read|learn|think)er\b"
    r"|vegetarian\b|vegan\b|christian\b|humanitarian\b)\w+(?:er|or|ist|ian|eer|yst|graph|smith)"
    r"|nurse|chef|cook|student|pilot|midwife|architect|accountant|attorney|judge|dentist|vet|coach"
    r"|consultant|assistant|intern|surgeon|scientist|soldier|priest|monk|waitress|actress|model"
    r"|executive|freelancer|entrepreneur|founder|co-?founder|ceo|cto|cfo|gp|dad of \w+|mum of \w+"
    r"|mom of \w+|technician|mechanic|plumber|clerk|secretary|agent|analyst|apprentice|postdoc"
    r"|undergraduate|undergrad|realtor|nanny|au pair|barista|paramedic|firefighter|pensioner)"
)
JOB_ENDS = (
    r"(?= (?:at|in|for(?! an?\b)|from|by|with|on|working|who|and|based|speciali[sz]\w+|of|now)\b"
    r"|\W*$|,)"
)
SPORT = (
    r"(?:the )?(?:piano|guitar|violin|cello|drums|bass|flute|saxophone|trumpet|clarinet|ukulele"
    r"|harp|football|soccer|tennis|basketball|volleyball|badminton|squash|golf|chess|rugby|cricket|hockey"
    r"|handball|padel|poker|bridge|video games|board games|dungeons)"
)
PREFERRED = re.compile(r"^(?:favou?rite|preferred)_(\w+)$")
"""Parts of keys that become `…_preference`, because agents look for preferences there."""
MAX_TOPIC_CHARACTERS = 40


_OPENINGS = {
    "I": re.compile(r"(?:\(\?:)*(?:i|we)(?![a-z])", re.IGNORECASE),
    "my": re.compile(r"(?:\(\?:)*(?:my|our|the)(?![a-z])", re.IGNORECASE),
}
"""Openings of clauses. They also match the patterns of forms for clauses with that opening."""


class Form(NamedTuple):
    """A pattern of clauses, and what such clauses state.

    `topic`: may refer to groups of the pattern. The group `v` is the value, which a correction
    ("actually it's …") replaces. `negative`: clauses with a "not" match as well.
    """

    memory_type: MemoryType
    pattern: re.Pattern[str]
    topic: str | None = None
    importance: float = 0.6
    durability: Durability = "standard"
    confidence: float = 0.9
    negative: bool = False

    @property
    def opening(self) -> str | None:
        """The opening that all clauses of this form have, or None if it may be any."""
        return next(
            (kind for kind, text in _OPENINGS.items() if text.match(self.pattern.pattern)), None
        )


def form(memory_type: MemoryType, pattern: str, topic: str | None = None, **rest: object) -> Form:
    return Form(memory_type, re.compile(pattern, re.IGNORECASE), topic, **rest)  # type: ignore[arg-type]


def topic_of(form_: Form, found: re.Match[str]) -> str | None:
    """Return the topic key of a statement, or None if there can be several values."""
    if form_.topic is None:
        return None
    groups = {name: _key_part(text) for name, text in found.groupdict().items() if text}
    try:
        topic = form_.topic.format(**groups)
    except KeyError:  # this statement lacks a group
        return None
    return topic if len(topic) <= MAX_TOPIC_CHARACTERS else None


def opening_of(clause: str) -> str | None:
    """Return the opening of a clause, or None if it is not one of `_OPENINGS`."""
    return next((kind for kind, text in _OPENINGS.items() if text.match(clause)), None)


def _key_part(text: str) -> str:
    """Return the text as one part of a topic key."""
    word = re.sub(r"[\W_]+", "_", text.lower()).strip("_")
    return PREFERRED.sub(r"\1_preference", word)
