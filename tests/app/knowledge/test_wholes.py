from __future__ import annotations

import pytest

from app.knowledge.wholes import needs_all


@pytest.mark.parametrize(
    "question",
    [
        "Summarize the report",
        "Can you give me a summary of this paper?",
        "Give me an overview",
        "List all people mentioned",
        "How many files mention Paris?",
        "How many times is Alice mentioned?",
        "How many people are named?",
        "How many clients were listed in the report?",
        "Compare the two contracts",
        "What is the newest report?",
        "What are these documents about?",
        "Fasse den Bericht zusammen",
        "Liste alle Kunden auf",
        "Wie viele Dokumente gibt es?",
        "Wie oft wird Berlin erwähnt?",
        "Vergleiche die beiden Verträge",
        "总结这份报告",
        "列出所有客户",
        "有多少篇文章提到北京？",
        "北京出现了多少次？",
        "请比较两份合同",
        "最新的文件是什么？",
        "这篇文章讲了什么？",
        "Résume le document",
        "Resume el informe",
        "要約してください",
    ],
)
def test_questions_about_the_whole_are_recognised(question: str) -> None:
    assert needs_all(question)


@pytest.mark.parametrize(
    "question",
    [
        "Who wrote the report?",
        "What is the penalty for late delivery?",
        "How many employees does the company have?",
        "How does the fee compare to last year?",
        "How many companies were listed on the exchange in 2009?",
        "How many islands are named after a king?",
        "Wer hat den Vertrag unterschrieben?",
        "Wie hoch ist die Miete?",
        "合同的违约金是多少？",
        "谁写了这份报告？",
        "统计学中的过拟合是什么意思？",
        "列举一个导致免疫缺陷的原因。",
        "word " * 100 + "summarize",
    ],
)
def test_questions_about_one_place_are_not(question: str) -> None:
    assert not needs_all(question)
