"""A base of a few passages answers what they hold, and refuses the rest."""

from __future__ import annotations

from pathlib import Path

import pytest

from app.knowledge.bases import KnowledgeBases
from app.paths import Paths

ENGLISH = "The annual fee of the garden club is 1,200 euros.\nIt is due in March."
DOGS = "Dogs stay out of the garden after 10 pm."
CHINESE = "花园俱乐部的年费为四十欧元。每年三月支付。\n\n会员可以带狗进入花园，但晚上十点以后不行。"
LIBRARY = "# 图书馆\n\n图书馆周一关闭，每周二到周日上午九点开放。借书期限为三周。"


@pytest.mark.parametrize("others", [(), (DOGS, LIBRARY), (DOGS, LIBRARY, "# Rain", "# Roses")])
def test_what_a_small_base_holds_is_found_and_what_it_does_not_is_refused(
    tmp_path: Path, others: tuple[str, ...]
) -> None:
    folder = tmp_path / "documents"
    folder.mkdir()
    for name, text in (("fees.md", ENGLISH), ("规则.md", CHINESE), *enumerate(others)):
        (folder / f"{name}").with_suffix(".md").write_text(text)
    questions = {
        "How much is the annual fee of the garden club?": "1,200 euros",
        "When is the fee due, in which month?": "due in March",
        "花园俱乐部的年费是多少？": "四十欧元",
        "狗什么时候不能进入花园？": "晚上十点以后",
        "Who won the world cup in 1998?": "",
        "1998年世界杯冠军是谁？": "",
    }
    with KnowledgeBases(Paths.under(tmp_path / "data").ensure()).create("a", [folder]) as base:
        base.sync(lexical_only=True)
        for question, held in questions.items():
            found = base.query(question)
            text = "".join(one.text for one in found.passages)
            assert found.is_refused is not bool(held), question
            assert held in text
