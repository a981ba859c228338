"""What kind of question it is, and questions that lean on what was said before: made whole, or
helped with old words.

Knows words of a few languages, Chinese ones in simplified characters, and no model.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

from app.knowledge.chinese import simplified
from app.knowledge.words import CJK, terms
from app.sanitize import single_line

MOST_TOKENS = 48
LEAST_WORDS = 3
"""A question with fewer telling words is about something said before."""
LEAST_CJK = 4
"""Characters; two of them make a word."""
MOST_TERMS = 12
LONGEST = 300

PRONOUNS = re.compile(
    r"\b(?:it|its|he|him|his|she|her|they|them|their|this|that|these|those|one|ones|there|former|"
    r"latter|er|ihn|ihm|sie|ihr|ihre|dies|diese|dieser|dieses|dort|il|elle|ils|elles|ce|cela|"
    r"cette|ces|él|ella|ellos|ellas|eso|esto)\b|[它他她这那其该]",
    re.IGNORECASE,
)
ASKING = re.compile(
    r"[?？]\s*$|^(?:who|whom|whose|what|when|where|which|why|how|is|are|was|were|do|does|did|can|"
    r"could|has|have|had|will|would|should|wer|wen|wem|was|wann|wo|woher|wohin|wie|warum|wieso|"
    r"welche\w*|ist|sind|hat|haben|kann|qui|que|quoi|quand|où|pourquoi|comment|combien|quel\w*|"
    r"quién\w*|qué|cuándo|dónde|cómo|cuánt\w*|cuál\w*)\b|[谁哪几吗呢]|什么|多少|为何|怎[么样]",
    re.IGNORECASE,
)
COURTESY = re.compile(
    r"\W*(?:(?:many |so )?thanks?(?: you)?(?: (?:very|so) much| a lot)?|ok(?:ay)?|great|good|nice|"
    r"perfect|hello|hi|hey|(?:good ?)?bye|good (?:morning|evening|night)|you are welcome|"
    r"danke(?: schön| sehr)?|vielen dank|hallo|tschüss|gut(?:en (?:morgen|tag|abend))?|"
    r"merci(?: beaucoup)?|bonjour|salut|au revoir|(?:muchas )?gracias|hola|adiós|"
    r"谢谢你?|多谢|你好|您好|再见|好的?)(?:\W+(?:thanks?(?: you)?|danke|merci|gracias|谢谢))?\W*",
    re.IGNORECASE,
)
INSTRUCTION = """\
Rewrite the question below so that it can be understood without this conversation: put names in \
the place of words like "it" or "they". Reply with the rewritten question only.

Question: {question}"""


def is_followup(question: str) -> bool:
    """Whether it has a pronoun, or too few words to be searched for."""
    if PRONOUNS.search(simplified(question)):
        return True
    telling = [word for word in terms(question) if len(word) > 1]
    cjk = len(CJK.findall(question))
    return cjk < LEAST_CJK if cjk else len(telling) < LEAST_WORDS


def is_question(text: str) -> bool:
    """Whether it asks for something, and is no order to do something with a text."""
    return ASKING.search(simplified(text.strip())) is not None


def is_courtesy(text: str) -> bool:
    """Whether it greets or thanks, and asks nothing of documents."""
    return COURTESY.fullmatch(simplified(text.strip())) is not None


def instruction(question: str) -> str:
    return INSTRUCTION.format(question=question)


def cleaned(answer: str, question: str) -> str:
    """A model's rewriting as one line; empty where it says nothing new."""
    line = next((line for line in answer.splitlines() if line.strip()), "")
    line = single_line(re.sub(r"^\W*(?:rewritten )?question\W*", "", line, flags=re.IGNORECASE))
    line = line.strip("\"'“”„»« ")[:LONGEST]
    return "" if line.casefold() == question.strip().casefold() else line


def rare_terms(texts: Sequence[str], most: int = MOST_TERMS) -> tuple[str, ...]:
    """The longest words of earlier texts: they are the rarest, as a rule."""
    found = dict.fromkeys(word for text in texts for word in terms(text) if len(word) > 3)
    return tuple(sorted(found, key=len, reverse=True)[:most])
