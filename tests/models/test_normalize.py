"""Laws of reshaping: strict templates take whatever a history looks like, and no text is lost."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from models.templates.formatter import ChatFormatter, FormatOptions
from models.templates.normalize import FOLDED_NOTICE, normalize
from models.templates.turns import Turn
from tests.models import chat_templates
from tests.models.byte_tokenizer import ByteTokenizer

TURNS = st.lists(
    st.builds(
        Turn,
        st.sampled_from(["system", "user", "assistant"]),
        st.sampled_from(["alpha", "beta", "", None, "  ", "gamma"]),
    ),
    min_size=1,
    max_size=7,
)


@pytest.fixture(scope="module")
def formatters() -> Iterator[dict[str, ChatFormatter]]:
    made = {
        name: ChatFormatter(ByteTokenizer(), template)
        for name, template in chat_templates.ALL.items()
    }
    yield made
    for formatter in made.values():
        formatter.close()


def text_of(ids: tuple[int, ...]) -> str:
    return bytes(i for i in ids if i < 256).decode()


@pytest.mark.parametrize("name", list(chat_templates.ALL))
@settings(max_examples=40, deadline=None)
@given(turns=TURNS)
def test_no_history_is_refused_and_no_text_is_lost(
    formatters: dict[str, ChatFormatter], name: str, turns: list[Turn]
) -> None:
    found = formatters[name].prompt([*turns, Turn("user", "last")])
    text = text_of(found.ids)
    for word in [turn.content for turn in turns if (turn.content or "").strip()] + ["last"]:
        assert word is not None
        assert word in text


def test_neighbours_merge_with_a_blank_line_and_empty_answers_go() -> None:
    turns = [Turn("user", "a"), Turn("assistant", ""), Turn("user", "b"), Turn("assistant", None)]
    found = normalize(turns)
    assert found.turns == (Turn("user", "a\n\nb"),)
    assert found.sources == ((0, 2),)


def test_an_answer_that_goes_on_stays_although_it_is_empty() -> None:
    turns = [Turn("user", "a"), Turn("assistant", "")]
    assert len(normalize(turns, keep_last=True).turns) == 2


def test_a_refused_system_prompt_is_folded_and_said(formatters: dict[str, ChatFormatter]) -> None:
    turns = [Turn("system", "Be brief."), Turn("user", "hi")]
    for name in ("gemma", "mistral"):
        for _ in range(2):
            found = formatters[name].prompt(turns)
            assert "Be brief.\n\nhi" in text_of(found.ids)
            assert found.notices == (FOLDED_NOTICE,)
        assert formatters[name].prompt(turns[1:]).notices == ()
    assert formatters["chatml"].prompt(turns).notices == ()


def test_a_silently_dropped_system_prompt_is_folded_too() -> None:
    template = (
        "{% for m in messages %}{% if m.role != 'system' %}{{ m.content }}{% endif %}{% endfor %}"
    )
    formatter = ChatFormatter(ByteTokenizer(), template)
    try:
        found = formatter.prompt([Turn("system", "Be brief."), Turn("user", "hi")])
    finally:
        formatter.close()
    assert text_of(found.ids) == "Be brief.\n\nhi"
    assert found.notices == (FOLDED_NOTICE,)


def test_what_a_template_leaves_out_is_said() -> None:
    formatter = ChatFormatter(ByteTokenizer(), "{{ messages[-1].content }}")
    try:
        found = formatter.prompt([Turn("user", "one"), Turn("assistant", "two"), Turn("user", "x")])
    finally:
        formatter.close()
    assert text_of(found.ids) == "x"
    assert found.notices == ("The chat template left out text of: assistant, user.",)


@pytest.mark.parametrize("template", ["MAPPING_TOOLS", "TEXT_TOOLS"])
@pytest.mark.parametrize("arguments", ['{"city": "Bern"}', {"city": "Bern"}])
def test_arguments_are_offered_in_the_form_the_template_takes(
    template: str, arguments: object
) -> None:
    call = {"type": "function", "function": {"name": "weather", "arguments": arguments}}
    turns = [
        Turn("user", "weather?"),
        Turn("assistant", None, tool_calls=(call,)),
        Turn("tool", "sun", name="weather"),
        Turn("user", "thanks"),
    ]
    formatter = ChatFormatter(ByteTokenizer(), getattr(chat_templates, template))
    try:
        text = text_of(formatter.prompt(turns).ids)
    finally:
        formatter.close()
    assert "weather(" in text
    assert "Bern" in text
    assert "sun" in text


def test_tool_turns_become_text_for_templates_without_them(
    formatters: dict[str, ChatFormatter],
) -> None:
    turns = [
        Turn("user", "weather?"),
        Turn("assistant", "", tool_calls=({"function": {"name": "w", "arguments": "{}"}},)),
        Turn("tool", "sun </s>", name="w"),
    ]
    found = formatters["gemma"].prompt(turns, options=FormatOptions())
    assert "[w] sun </s>" in text_of(found.ids)
    assert any("plain text" in notice for notice in found.notices)
