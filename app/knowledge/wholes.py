"""Recognises questions about all of a document: count, list, summarise, compare, the newest.

A few passages cannot answer them. Words of six languages; no model.
"""

from __future__ import annotations

import re

DOCUMENT = (
    r"documents?|files?|texts?|articles?|reports?|papers?|notes?|books?|pages?|folders?|everything|"
    r"transcripts?|chapters?|collection|knowledge base|pdfs?|table"
)
ENGLISH = (
    r"\bsummari[sz](?:e|ing)\b|^(?:a |the |short |brief |write |give ).{0,30}\bsummary\b|"
    r"\bsummary (?:of|please)\b|\boverview\b|\btl;?dr\b|\bgist of\b|"
    r"\bmain (?:points|ideas|topics|themes|takeaways|findings)\b|\bkey (?:points|takeaways)\b|"
    rf"\bwhat (?:is|are) (?:this|these|the|my) (?:{DOCUMENT}) (?:all )?about\b|"
    r"\b(?:list|enumerate|show|give|name|find) (?:me )?(?:all|every|each)\b|"
    r"\blist (?:the|of|every|any|out)\b|^list\b|\bcomplete list\b|"
    rf"\bcount (?:the|all|how|every)\b|\bhow (?:many|often) (?:\w+ ){{0,4}}(?:{DOCUMENT})\b|"
    r"\bhow (?:many|often) .{0,60}\b(?:mentioned|documented)\b|"
    r"\bhow (?:many|often) .{0,60}\b(?:listed|named)\b(?! (?:on|after|for)\b)|"
    rf"\b(?:all|every|each|most) (?:of )?(?:the |these |my |those )?(?:{DOCUMENT})\b|"
    r"^compare\b|\bcompare (?:the|these|those|both|all|my)\b|"
    rf"\b(?:newest|latest|oldest|most recent|first|last) (?:{DOCUMENT})\b|"
    r"\btable of contents\b|\bfrom (?:beginning|start) to (?:end|finish)\b"
)
GERMAN = (
    r"\bzusammenfass\w*|\bfass\w* .{0,60}\bzusammen\b|\büberblick\b|\bkernaussagen?\b|"
    r"\bhauptpunkte\b|"
    r"\b(?:liste|zähle|nenne|zeige|gib) .{0,20}\b(?:alle|alles|sämtliche|jede\w*)\b|\bauflisten\b|"
    r"\bliste\w* .{0,60}\bauf\b|\bzähl\w*\b|\bwie (?:oft|viele) .{0,40}"
    r"\b(?:gibt es|dokumente?|dateien?|texte?|berichte?|seiten)\b|"
    r"\bwie (?:oft|viele) .{0,60}\b(?:genannt|erwähnt)\b|"
    r"\b(?:alle|aller|allen|sämtliche\w*|jede\w*) (?:der |die |diese\w* |meine\w* )?"
    r"(?:dokumente?n?|dateien?|texte?n?|berichte?n?|notizen|seiten|kapitel)\b|\bvergleich\w*\b|"
    r"\b(?:neueste|älteste|letzte|aktuellste)\w* (?:dokument|datei|text|bericht|notiz)\w*\b|"
    r"\bworum geht es\b"
)
CHINESE = (
    r"总结|總結|概括|概述|摘要|归纳|歸納|综述|綜述|梳理|大意|要点|要點|"
    r"(?:列出|列举|列舉|罗列)(?!.{0,3}一|.{0,40}[的之]一[个个种種])|多少(?:篇|个文件|份文件|份文档)|(?:提到|出现|出現).{0,12}多少次|"
    r"多少次.{0,12}(?:提到|出现|出現)|"
    r"所有(?:的)?(?:文件|文档|文檔|文章|资料|資料|报告|報告|章节|人物|内容)|全部|全文|整(?:篇|本|份|个文档)|"
    r"统计(?!学)|統計(?!學)|数一数|(?:^|[请請])(?:比较|比較|对比|對比)|最(?:新|早|近)的?(?:文件|文档|文檔|文章|报告|報告|一篇|一份)|"
    r"讲了(?:些)?什么|讲(?:的是)?什么(?:内容)?[?？]?$"
)
OTHERS = (
    r"\brésum\w+|\brésumé\b|\benumér\w+|\bénumér\w+|\bliste\w* (?:de |toutes? |tous )|"
    r"\btous les \w+|"
    r"\btoutes les \w+|\bcombien de (?:documents|fichiers|pages|fois)\b|^comparez\b|"
    r"\bresum\w+|\benumera\w*|\blista\w* (?:de |todos|todas)|\btodos los \w+|\btodas las \w+|"
    r"\bcuánt[oa]s (?:documentos|archivos|páginas|veces)\b|\bcompara\w*|"
    r"要約|まとめ|一覧|全て|すべて|比較|列挙"
)
WHOLE = re.compile("|".join((ENGLISH, GERMAN, CHINESE, OTHERS)), re.IGNORECASE)
LONGEST = 400
"""Characters; a longer text is no such question but holds one of its words by chance."""


def needs_all(question: str) -> bool:
    """Whether only the whole of a document, or all documents, can answer it."""
    return len(question) <= LONGEST and WHOLE.search(question.strip()) is not None
