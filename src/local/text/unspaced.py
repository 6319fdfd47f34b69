"""Texts without spaces between words, as in Chinese, Japanese, Thai; and Korean, for its endings.

Nobody here knows where a word of theirs ends, so two characters side by side stand for one. Where a
text is indexed each character stands for itself, too, so that a question's single one finds it.
"""

import re

UNSPACED = (
    "\u0e01-\u0eff"  # Thai, Lao
    "\u3005-\u3007\u3041-\u309f\u30a1-\u30fa\u30fc-\u30ff\u31f0-\u31ff\uff66-\uff9f"  # Japanese
    "\u3400-\u4dbf\u4e00-\u9fff\uf900-\ufaff\U00020000-\U0003fffd"  # Chinese characters
    "\uac00-\ud7a3"  # Korean
)
"""As in the sets of a regular expression."""
RUN = re.compile(f"[{UNSPACED}]+")

_PARTS = re.compile(f"([{UNSPACED}]+)")
_MARKS = re.compile("[\u0e31\u0e34-\u0e3a\u0e47-\u0e4e\u0eb1\u0eb4-\u0ebc\u0ec8-\u0ece]+")
"""Vowels and tones above and below letters, which are no letters themselves."""
_HIRAGANA = re.compile("[\u3041-\u309f]")
_GRAMMAR = re.compile(
    # who, what, when, where; I, you; the commonest particles
    "什[么麼]时候|什麼時候|为什么|為什麼|什[么麼]|怎[么麼]样?|怎樣|哪[个個里裡儿些种]?|多少|几[点个]?|幾[點個]?"
    "|[我你他她]们|[我你他她]們|[我你您他她它谁誰]|[这那這][个個]?|请问?|請問?|的|了|是|在|吗|嗎|呢|吧|和"
    "|何[時か]?|誰|私|僕|について|ください|でしょう|[でま]した|です|ます|ません|[てい]います|している|ている"
    "|いつ|どこ|どの|どれ|どう|なに|なん|だれ|[はがをにでのともへかやねよ]"
    "|무엇|언제|어디|누구|어떤|무슨|인가요|입니까|습니까|습니다|합니다|나요"
    "|(?<=[가-힣]{2})(?:에서|으로|[은는이가을를의에로도])$"
)


def without_marks(text: str) -> str:
    """With nothing but letters in its runs."""
    return _MARKS.sub("", text)


def parts(word: str) -> list[str]:
    """What other characters stand between are runs, in the odd places."""
    return _PARTS.split(word)


def pairs(run: str) -> list[str]:
    """Each two characters side by side; a single one is itself."""
    return [run[at : at + 2] for at in range(len(run) - 1)] or [run]


def characters_and_pairs(run: str) -> list[str]:
    return [*run, *pairs(run)] if len(run) > 1 else [run]


def telling_pairs(run: str) -> list[str]:
    """The pairs of what stands between words of grammar, and single characters where one does."""
    found = [pair for between in _GRAMMAR.split(run) if between for pair in pairs(between)]
    return [pair for pair in found if len(pair) > 1 or not _HIRAGANA.match(pair)]
