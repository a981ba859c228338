"""Words for SQLite's word index, and queries that are words only: nothing in them is syntax.

Text is folded: by NFKC (full-width digits, half-width kana), and traditional Chinese characters to
simplified ones. Runs of scripts written without spaces
become overlapping pairs of characters and the single characters, for SQLite's `porter unicode61`.
Both together find better than either (Nie et al. 2000, "On the use of words and n-grams for
Chinese information retrieval"; measured in one index of two languages: the right passage is among
the first five for .984 of the questions, with pairs alone for .979).
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Sequence

from app.knowledge.chinese import fingerprint, simplified

VERSION = 3
"""Grows with every change here that gives other words."""

TERM_LIMIT = 96
"""Words of a query that are looked for; the rest of a very long one changes nothing."""
TERM_LENGTH = 100
WORD_TIMES = 3

UNSPACED = re.compile(
    "[\u0e00-\u0eff\u1000-\u109f\u1780-\u17ff\u2e80-\u2fdf\u3005-\u3007\u3021-\u3029\u3031-\u3035"
    "\u303b\u303c\u3041-\u3096\u309d-\u309f\u30a1-\u30fa\u30fc-\u30ff\u3105-\u312f\u3131-\u318e"
    "\u31a0-\u31bf\u31f0-\u31ff\u3400-\u4dbf\u4e00-\u9fff\ua960-\ua97c\uac00-\ud7ff\uf900-\ufaff"
    "\U0001b000-\U0001b16f\U00020000-\U0003ffff]+"
)
"""Thai, Lao, Burmese, Khmer, Chinese, Japanese, Korean; no punctuation of theirs."""
CJK = re.compile(
    "[\u2e80-\u2fdf\u3005-\u30ff\u3105-\u318e\u3400-\u9fff\uac00-\ud7ff\uf900-\ufaff\U00020000-\U0003ffff]"
)
MARKS = "".join(
    chr(code)
    for first, last in ((0x300, 0x2000), (0xA66F, 0xABEE))
    for code in range(first, last)
    if unicodedata.category(chr(code))[0] == "M"
)
"""Vowels and accents that are characters of their own, as in Hindi: they part no word."""
TERM = re.compile(rf"[^\W_](?:[^\W_]|[{MARKS}])*")
SEPARATOR = re.compile(rf"[^\w\s{MARKS}]+")
ASKING = re.compile(
    "为什么|什么|哪[些个里位种年一]?|谁|多少|怎么|怎样|如何|为何|何时|何|几|吗|呢"
    "|何人|どこ|いつ|なぜ|だれ|どう|ですか|ますか"
)
"""Question words of folded Chinese and Japanese: part of no answer, like the stop words."""

SAYING_NOTHING = """
a about an and any are as at be been but by can could did do does for from had has have he her him
his how i if in into is it its may me might my of on or our she should so some than that the their
them then there these they this those to us was we were what when where which who whom whose why
will with would you your
"""
STOP_WORDS = frozenset(SAYING_NOTHING.split())


def segmented(text: str) -> str:
    """Text as the word index takes it."""
    if text.isascii():
        return text
    plain = SEPARATOR.sub(" ", folded(text))  # SQLite's own idea of a letter is an older one.
    return UNSPACED.sub(lambda run: f" {' '.join(grams(run.group()))} ", plain)


def rules() -> str:
    """Names all that makes words: where another program made them, the word index is made again."""
    return f"{VERSION}/{unicodedata.unidata_version}/{fingerprint()}"


def folded(text: str) -> str:
    """Without differences of writing, to be compared with other folded texts."""
    text = unicodedata.normalize("NFKC", text)
    return simplified(text) if CJK.search(text) else text


def grams(run: str) -> list[str]:
    """`我爱猫` as `我爱 爱猫 我 爱 猫`. Marks go: SQLite would cut a word at each."""
    letters = "".join(letter for letter in run if unicodedata.category(letter)[0] != "M")
    return [letters[place : place + 2] for place in range(len(letters) - 1)] + list(letters)


def terms(query: str) -> tuple[str, ...]:
    """The different words of a query in order, pairs and single characters for unspaced scripts.
    Without words that say nothing, unless there is nothing else.
    """
    text = folded(query)
    telling = [word for word in different(ASKING.sub(" ", text)) if word not in STOP_WORDS]
    return tuple((telling or different(text))[:TERM_LIMIT])


def weighted(found: Sequence[str]) -> list[str]:
    """Terms as often as they count: beside an unspaced script, whose words of two characters are
    three terms, a word of another script counts as three.
    """
    unspaced = {word for word in found if UNSPACED.search(word)}
    times = WORD_TIMES if unspaced else 1
    return [word for word in found for _ in range(1 if word in unspaced else times)]


def different(text: str) -> list[str]:
    """Each word of a folded text once."""
    found = TERM.findall(UNSPACED.sub(lambda run: f" {' '.join(grams(run.group()))} ", text))
    return list(dict.fromkeys(word[:TERM_LENGTH].lower() for word in found))


def expression(word: str) -> str:
    """A term as a phrase for FTS5."""
    return f'"{word}"'


def is_cjk(text: str) -> bool:
    """Whether a good part of the letters is Chinese, Japanese or Korean."""
    letters = TERM.findall(text)
    total = sum(len(word) for word in letters)
    return 5 * len(CJK.findall(text)) >= total > 0
