"""Regular expressions for the ways in which English tells a time; `timewords` reads the groups."""

import re

from local.memory.recall.timespans import SEASONS, WEEKDAYS

NUMBERS = ("one", "two", "three", "four", "five", "six", "seven", "eight", "nine", "ten")
COUNTS = {word: (number, number) for number, word in enumerate(NUMBERS, start=1)} | {
    "a": (1, 1),
    "an": (1, 1),
    "couple": (2, 3),
    "few": (2, 5),
    "several": (3, 8),
}
"""The least and the most that is meant."""

_UNIT = "minute|hour|day|week|month|year"
_WEEKDAY = "|".join(WEEKDAYS)
_COUNT = rf"(?:a\s+)?(?:\d{{1,3}}|{'|'.join(COUNTS)})(?:\s+of)?"
_YEAR = r"20\d\d(?![-/.:]?\d|\w)"
_DAY = r"0?[1-9]|[12]\d|3[01]"
_DAY_ENDS = r"(?:st|nd|rd|th)?(?![.:/]?\d|[\w%])"
_MONTH = (
    r"jan(?:uary)?|feb(?:ruary)?|mar(?:ch)?|apr(?:il)?|may|june?|july?|aug(?:ust)?"
    r"|sept?(?:ember)?|oct(?:ober)?|nov(?:ember)?|dec(?:ember)?"
)
_GAP = r"(?:\s*[,-]\s*|\s+(?:of\s+)?)"
_TO = r"\s*(?:[-\u2013]|to|and)\s*(?:the\s+)?"
_QUANTITY = r"\s+(?:px|km|(?!(?:was|has|does|is|this|his|as|us)\b)(?-i:[a-z]+s))\b"
_DATE = (
    r"(?P<iso>20\d\d-\d\d?-\d\d?)(?!\d)(?:T[\d:.]+Z?)?"
    r"|(?P<slashes>\d\d?/\d\d?/20\d\d)(?!\d)"
    rf"|(?P<date>(?:(?:(?P<first_day>{_DAY}){_DAY_ENDS}{_TO})?(?P<day>{_DAY}){_DAY_ENDS}{_GAP})?"
    rf"(?P<month>{_MONTH})\b\.?"
    rf"(?:{_GAP}(?P<day_after>{_DAY}){_DAY_ENDS}(?:{_TO}(?P<last_day>{_DAY}){_DAY_ENDS})?)?"
    rf"(?:{_GAP}(?P<date_year>{_YEAR}|last\s+year))?)"
    rf"|(?P<year>{_YEAR})(?!{_QUANTITY})"
)
_ANY_DATE = re.sub(r"\?P<\w+>", "?:", _DATE)
_FLAGS = re.IGNORECASE | re.ASCII
DATE_ALONE = re.compile(_DATE, _FLAGS)
RANGE = re.compile(
    rf"\b(?:between|from)\s+(?P<first>{_ANY_DATE})\s+(?:and|to|until|till|through)\s+"
    rf"(?P<second>{_ANY_DATE})",
    _FLAGS,
)
EXPRESSION = re.compile(
    rf"(?<![\w\"'\u201c\u2018./$#-])(?:{_DATE}"
    rf"|(?P<season>(?:(?P<which>last|this)\s+)?(?P<season_name>{'|'.join(SEASONS)})"
    rf"(?:\s+(?:of\s+)?(?P<season_year>{_YEAR}))?)"
    r"|(?P<ago>(?:(?P<than>more\s+than|over|at\s+least|less\s+than|under)\s+)?"
    rf"(?P<count>{_COUNT})\s+(?P<unit>{_UNIT})s?\s+ago)"
    rf"|(?P<rolling>(?:(?:last|past)\s+(?P<past_count>{_COUNT})|(?:the|this)\s+past"
    r"|(?:in|over|during|within|throughout)\s+the\s+last)"
    rf"\s+(?P<past_unit>{_UNIT})s?)(?!\s+of\b)"
    r"|(?P<named>(?:the\s+day\s+before\s+)?yesterday|today|tonight"
    r"|this\s+(?:morning|afternoon|evening|week|month|year)"
    rf"|last\s+(?:night|weekend|week|month|year|{_WEEKDAY})(?!\s+of\b)"
    rf"|on\s+(?:{_WEEKDAY})))(?![\w-])",
    _FLAGS,
)
LEAD = re.compile(
    rf"\b(?:(?:(?P<count>{_COUNT})\s+(?P<units>{_UNIT})s?"
    rf"|(?P<unit>day|weekend|week|month|year|{_WEEKDAY}))\s+"
    r"(?P<side>before|prior\s+to|after|following)"
    r"|(?P<word>in|during|throughout|on|since|before|prior\s+to|after|until|till|up\s+to|by"
    r"|(?<!the\s)last|this|early|late|mid"
    r"|(?:days?|week|month|half|start|beginning|middle|end)\s+of))"
    r"(?:\s+the)?(?:\s+year|\s+early|\s+late|\s+mid)?[\s-]+$",
    _FLAGS,
)
NOT_YET_OVER = re.compile(r"today|tonight|on\s|this\s+(?!morning)", _FLAGS)
LOOKS_BACK = re.compile(
    r"\b(?:did|was|were|had)(?:n['\u2019]?t)?\b|\b(?:been|said|told|happened|earlier)\b"
    r"|\bha(?:ve|s)\s+(?:i|we|you|he|she|it|they)\b",
    _FLAGS,
)
LOOKS_AHEAD = re.compile(
    r"\b(?:will|won['\u2019]t|shall|going\s+to|upcoming|next)\b|['\u2019]ll\b", _FLAGS
)
ASKS_FOR_A_DISTANCE = re.compile(rf"\bhow\s+many\s+(?:{_UNIT})s\b", _FLAGS)
