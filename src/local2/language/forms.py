"""Know other forms of a word that its stem does not show: "swam" for "swim", "29th" for "29".

A form whose stem is also that of another common word is left out: "ate" has the stem "at", and
"bit" is mostly not a bite.
"""

import re

from local2.language.words import stems

_VERBS = """
    beat beaten, bend bent, bleed bled, blow blew blown, build built, burn burnt, buy bought,
    catch caught, choose chose chosen, cling clung, creep crept, deal dealt, dig dug,
    draw drew drawn, dream dreamt, drink drank drunk, drive drove driven, eat eaten, feed fed,
    fight fought, flee fled, fly flew flown, forbid forbade forbidden, forget forgot forgotten,
    forgive forgave forgiven, freeze froze frozen, go went gone, grow grew grown, hang hung,
    hide hid hidden, kneel knelt, leap leapt, learn learnt, lend lent, lose lost, pay paid,
    ride rode ridden, rise rose risen, seek sought, sell sold, send sent, sew sewn,
    shake shook shaken, shine shone, shoot shot, shrink shrank shrunk, sing sang sung,
    sink sank sunk, sit sat, sleep slept, slide slid, smell smelt, speak spoke spoken, spend spent,
    spill spilt, spin spun, spoil spoilt, steal stole stolen, stick stuck, sting stung,
    strike struck, swear swore sworn, sweep swept, swell swollen, swim swam swum, swing swung,
    teach taught, tear tore torn, throw threw thrown, understand understood, wake woke woken,
    wear wore worn, weave wove woven, weep wept, win won, withdraw withdrew withdrawn,
    write wrote written
"""
"""Verbs whose past has another stem, without those of many senses, such as "take" and "run"."""
_ORDINAL = re.compile(r"(\d{1,2})(?:st|nd|rd|th)")


_FAMILY = {form: family.split() for family in _VERBS.split(",") for form in family.split()}


def forms_of(word: str) -> tuple[str, ...]:
    """The word, in lower case, and its other forms with another stem; itself comes first."""
    if day := _ORDINAL.fullmatch(word):
        return word, day[1]
    family = _FAMILY.get(word)
    return (word,) if family is None else tuple(dict.fromkeys((word, *family)))


def stems_of(word: str) -> tuple[str, ...]:
    """The stems of the word and its other forms, each once; its own comes first."""
    return tuple(dict.fromkeys(stems(forms_of(word))))
