from __future__ import annotations

import sqlite3

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from app.knowledge import words
from app.knowledge.chinese import simplified


def table(*texts: str) -> sqlite3.Connection:
    connection = sqlite3.connect(":memory:")
    connection.execute(
        "CREATE VIRTUAL TABLE t USING fts5 (x, tokenize = 'porter unicode61 remove_diacritics 2')"
    )
    connection.executemany("INSERT INTO t (x) VALUES (?)", [(words.segmented(t),) for t in texts])
    return connection


def found(connection: sqlite3.Connection, query: str) -> list[int]:
    """Rows with any word of the query."""
    terms = words.terms(query)
    if not terms:
        return []
    match = " OR ".join(words.expression(term) for term in terms)
    rows = connection.execute("SELECT rowid FROM t WHERE t MATCH ? ORDER BY rowid", (match,))
    return [row for (row,) in rows]


@pytest.mark.parametrize(
    ("text", "query"),
    [
        ("我爱北京的长城", "长城"),
        ("我爱北京的长城", "城"),
        ("我爱北京的长城", "我"),
        ("我爱北京的长城", "長"),
        ("我爱北京的长城", "長城"),
        ("圖書館的開放時間", "图书馆开放时间"),
        ("髮型", "发型"),
        ("頭髮", "头发"),
        ("臺灣", "台湾"),
        ("新的GPT4模型发布", "GPT4模型"),
        ("新的GPT4模型发布", "gpt4"),
        ("价格是１２３元", "123"),
        ("東京タワーへ行く", "ﾀﾜｰ"),
        ("서울의 날씨는 맑다", "날씨"),
        ("ภาษาไทยเป็นภาษาราชการ", "ราชการ"),
        ("ประเทศไทย", "ไทย"),
        ("हिन्दी भाषा", "हिन्दी"),
        ("The café was closed", "cafe"),
        ("He was running late", "runs"),
        ("snake_case_name in code", "case"),
    ],
)
def test_a_word_of_any_script_is_found_inside_its_text(text: str, query: str) -> None:
    assert found(table("nothing of it", text), query) == [2]


def test_each_traditional_character_finds_its_simplified_one() -> None:
    traditional = [chr(code) for code in range(0x3400, 0x30000) if is_traditional(chr(code))]
    connection = table(*map(simplified, traditional))
    assert len(traditional) > 3000
    for row, character in enumerate(traditional, 1):
        assert row in found(connection, character), character


def is_traditional(character: str) -> bool:
    return simplified(character) != character


@given(st.text(max_size=60))
def test_simplified_text_is_as_long_and_stays(text: str) -> None:
    assert len(simplified(text)) == len(text)
    assert simplified(simplified(text)) == simplified(text)


def test_a_pair_is_found_only_where_its_characters_stand_together() -> None:
    connection = table("北京 大学", "京大")
    query = "SELECT rowid FROM t WHERE t MATCH ?"
    assert connection.execute(query, (words.expression("京大"),)).fetchall() == [(2,)]


@pytest.mark.parametrize(
    "query",
    [
        '"',
        "*",
        "NEAR(a b)",
        "-minus",
        "x:colon",
        "a AND",
        "(",
        "^",
        "'; DROP TABLE t; --",
        "\0",
        "😀",
        "",
    ],
)
def test_nothing_in_a_query_is_syntax(query: str) -> None:
    found(table("minus colon near"), query)


@settings(max_examples=150, deadline=None)
@given(st.text(max_size=60))
def test_any_text_is_a_query_and_finds_itself(text: str) -> None:
    connection = table(text)
    if any(word.isascii() for word in words.terms(text)):
        assert found(connection, text) == [1]
    else:
        found(connection, text)


def test_words_that_say_nothing_are_left_out_unless_there_is_nothing_else() -> None:
    assert words.terms("What is the capital of France?") == ("capital", "france")
    assert words.terms("Who is it?") == ("who", "is", "it")


def test_a_long_query_asks_for_a_limited_number_of_words() -> None:
    query = " ".join(f"word{number}" for number in range(10_000))
    assert len(words.terms(query)) == words.TERM_LIMIT
    assert len(words.terms("x" * 10_000)[0]) == words.TERM_LENGTH


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("北京大学", True),
        ("the GPT4 模型 is 好", True),
        ("English with one 字", False),
        ("", False),
    ],
)
def test_chinese_is_told_from_other_text_with_a_character(text: str, expected: bool) -> None:
    assert words.is_cjk(text) is expected
