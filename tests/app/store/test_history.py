"""Laws of conversations: a tree in which nothing is overwritten, rows as they were given."""

from __future__ import annotations

import threading
from dataclasses import replace
from datetime import date

import pytest
from hypothesis import given
from hypothesis import strategies as st

from app.errors import NotFound
from app.store.conversation import AnswerInfo, Message
from app.store.draft import KeptDraft, Pasted
from app.store.history import History
from app.store.rows import pack_ids, unpack_ids
from app.store.titles import title_from
from engine.events import ErrorInfo, ReuseBreak, Timings, Usage
from engine.messages import SamplingOverrides
from tests.app.store.conftest import OpenHistory

INFO = AnswerInfo(
    model="model [v1] 😀.gguf",
    fingerprint="f" * 64,
    tokenizer="tok",
    template_hash="t",
    backend="scripted",
    kv_type="q8",
    seed=2**63 - 1,
    sampling=SamplingOverrides(temperature=0.5, logit_bias=((3, -1.5),)),
    finish_reason="stop",
    usage=Usage(10, 4, 3, 3, 2),
    timings=Timings(1.5, 2.5, 3.5, 4.5, 5.5, 6.5),
    reuse_break=ReuseBreak(4, 1, 2, "message 1 (user)"),
    notices=("one", "two"),
    error=ErrorInfo("failed", "x"),
)


def turn(history: History, chat_id: int, parent: int | None, number: int) -> tuple[int, int]:
    """A question and its finished answer; their ids."""
    question = history.add_user(chat_id, parent, f"u{number}")
    answer = history.begin_answer(chat_id, question.id)
    history.finish_answer(answer.id, "complete", f"a{number}")
    return question.id, answer.id


def texts(path: list[Message]) -> list[str]:
    return [message.text for message in path]


def test_ids_count_from_one_in_order_of_creation(history: History) -> None:
    assert [history.new_chat().id for _ in range(3)] == [1, 2, 3]
    assert turn(history, 2, None, 1) == (1, 2)
    assert turn(history, 1, None, 2) == (3, 4)


def test_all_messages_are_those_of_every_branch_of_one_chat(history: History) -> None:
    chat, other = history.new_chat(), history.new_chat()
    question, answer = turn(history, chat.id, None, 1)
    turn(history, other.id, None, 2)
    again = history.begin_answer(chat.id, question)
    edited, _ = turn(history, chat.id, None, 3)
    found = history.messages(chat.id)
    assert [message.id for message in found] == [question, answer, again.id, edited, edited + 1]
    assert found == [history.message(message.id) for message in found]
    history.delete_chat(chat.id)
    with pytest.raises(NotFound):
        history.messages(chat.id)


def test_ids_are_never_given_twice(history: History) -> None:
    chat = history.new_chat()
    turn(history, chat.id, None, 1)
    history.delete_chat(chat.id)
    history.purge(chat.id)
    assert history.new_chat().id == 2
    assert turn(history, 2, None, 1) == (3, 4)


def test_a_finished_answer_is_read_as_it_was_given(open_history: OpenHistory) -> None:
    history = open_history()
    chat = history.new_chat(system="be kind")
    question = history.add_user(chat.id, None, "q\0 \x1b[31m <|im_end|> \u202e")
    begun = history.begin_answer(chat.id, question.id, replace(INFO, finish_reason=None))
    assert (begun.status, begun.text, begun.tokenizer) == ("streaming", "", "tok")
    history.journal(begun.id, "pa", "thi", (1,))
    done = history.finish_answer(begun.id, "stopped", "part", "think", (1, 2, 262_143), INFO)
    history.close()
    again = open_history()
    assert again.message(begun.id) == done
    assert done.info == INFO
    assert done.ids == (1, 2, 262_143)
    assert (done.text, done.reasoning, done.status) == ("part", "think", "stopped")
    assert again.path(chat.id)[0].text == question.text == "q\0 \x1b[31m <|im_end|> \u202e"
    assert again.chat(chat.id).system == "be kind"
    assert again.notices == []


@given(st.lists(st.integers(-(2**31), 2**31 - 1)).map(tuple))
def test_packed_ids_are_int32_little_endian(ids: tuple[int, ...]) -> None:
    packed = pack_ids(ids)
    assert unpack_ids(packed) == ids
    assert packed == b"".join(one.to_bytes(4, "little", signed=True) for one in ids)


@given(st.text())
def test_any_text_is_kept_apart_from_what_utf8_cannot_hold(text: str) -> None:
    history = History.in_memory()
    chat = history.new_chat(system=text, title=text)
    message = history.add_user(chat.id, None, text)
    history.save_draft(chat.id, KeptDraft(text))
    history.chats(text)
    kept = text.encode("utf-8", "replace").decode().replace("?", "")
    assert message.text.replace("\ufffd", "").replace("?", "") == kept.replace("\ufffd", "")
    history.close()


def test_edit_and_regenerate_add_siblings_and_the_path_is_what_is_selected(
    open_history: OpenHistory,
) -> None:
    history = open_history()
    chat = history.new_chat().id
    u1, a1 = turn(history, chat, None, 1)
    u2, a2 = turn(history, chat, a1, 2)
    u3, a3 = turn(history, chat, None, 3)  # edits u1
    again = history.begin_answer(chat, u1)  # regenerates a1
    history.finish_answer(again.id, "complete", "a1b")
    third = history.begin_answer(chat, u1)
    history.finish_answer(third.id, "complete", "a1c")

    assert history.siblings(u1) == history.siblings(u3) == [u1, u3]
    assert history.siblings(a1) == [a1, again.id, third.id]
    assert texts(history.path(chat)) == ["u1", "a1c"]
    assert history.select(u3).current_leaf == a3
    assert texts(history.path(chat)) == ["u3", "a3"]
    assert history.select(a1).current_leaf == a2
    history.close()
    reopened = open_history()
    assert texts(reopened.path(chat)) == ["u1", "a1", "u2", "a2"]
    assert texts(reopened.path(chat, third.id)) == ["u1", "a1c"]
    assert reopened.select(u1).current_leaf == third.id
    assert reopened.siblings(u2) == [u2]


def test_selecting_the_root_finds_the_newest_leaf_below(history: History) -> None:
    chat = history.new_chat().id
    u1, a1 = turn(history, chat, None, 1)
    _, old_leaf = turn(history, chat, a1, 2)
    newer = history.begin_answer(chat, u1)
    history.finish_answer(newer.id, "complete", "b")
    _, newest = turn(history, chat, old_leaf, 3)
    history.select(newer.id)
    assert history.select(u1).current_leaf == newest


def test_deleting_a_subtree_leaves_every_other_branch(history: History) -> None:
    chat = history.new_chat().id
    u1, a1 = turn(history, chat, None, 1)
    u2, _ = turn(history, chat, a1, 2)
    turn(history, chat, u2, 3)
    u4, a4 = turn(history, chat, a1, 4)
    history.select(u2)
    assert history.subtree_count(u2) == 4
    assert history.delete_subtree(u2) == a4
    assert texts(history.path(chat)) == ["u1", "a1", "u4", "a4"]
    assert history.siblings(u4) == [u4]
    with pytest.raises(NotFound):
        history.message(u2)
    assert history.delete_subtree(u4) == a1
    assert history.delete_subtree(u1) is None
    assert history.path(chat) == []
    assert history.chat(chat).current_leaf is None


def test_deleting_another_branch_does_not_move_the_person(history: History) -> None:
    chat = history.new_chat().id
    u1, _ = turn(history, chat, None, 1)
    u2, a2 = turn(history, chat, None, 2)
    assert history.delete_subtree(u1) == a2
    assert history.delete_subtree(u2) is None


@given(st.data())
def test_any_tree_keeps_paths_and_deletes_exactly_one_subtree(data: st.DataObject) -> None:
    history = History.in_memory()
    chat, other = history.new_chat().id, history.new_chat().id
    kept = history.add_user(other, None, "other").id
    parents: dict[int, int | None] = {}
    for _ in range(data.draw(st.integers(1, 12))):
        parent = data.draw(st.sampled_from([None, *parents]))
        parents[history.add_user(chat, parent, "x").id] = parent

    def ancestors(one: int | None) -> list[int]:
        found = []
        while one is not None:
            found.append(one)
            one = parents[one]
        return found[::-1]

    for one in parents:
        assert [message.id for message in history.path(chat, one)] == ancestors(one)
    gone = data.draw(st.sampled_from(sorted(parents)))
    below = {one for one in parents if gone in ancestors(one)}
    assert history.subtree_count(gone) == len(below)
    leaf = history.delete_subtree(gone)
    left = parents.keys() - below
    for one in left:
        assert [message.id for message in history.path(chat, one)] == ancestors(one)
    assert leaf in left or not left
    assert leaf not in {parents[one] for one in left}
    assert [message.id for message in history.path(other)] == [kept]
    history.close()


def test_a_conversation_of_ten_thousand_messages_has_a_path(history: History) -> None:
    chat = history.new_chat().id
    with history._database.write() as connection:
        connection.executemany(
            "INSERT INTO messages VALUES (?, ?, ?, 'user', 'complete', 0, '', NULL, 'x', '', NULL,"
            " NULL, NULL)",
            [(number, chat, number - 1 or None) for number in range(1, 10_001)],
        )
    assert history.select(1).current_leaf == 10_000
    assert len(history.path(chat)) == 10_000
    assert history.subtree_count(2) == 9_999
    assert history.delete_subtree(2) == 1


def test_messages_belong_to_their_chat(history: History) -> None:
    first, second = history.new_chat().id, history.new_chat().id
    message = history.add_user(first, None, "x")
    for wrong in (
        lambda: history.add_user(second, message.id, "y"),
        lambda: history.path(second, message.id),
        lambda: history.begin_answer(first, 99),
        lambda: history.add_user(99, None, "y"),
        lambda: history.journal(99, "", "", ()),
        lambda: history.finish_answer(99, "complete", ""),
        lambda: history.select(99),
        lambda: history.rename(99, "x"),
        lambda: history.undo_delete(99),
    ):
        with pytest.raises(NotFound):
            wrong()
    assert history.path(second) == []


def test_an_answer_goes_on_from_where_it_ended(history: History) -> None:
    chat = history.new_chat().id
    question = history.add_user(chat, None, "q")
    answer = history.begin_answer(chat, question.id, INFO)
    history.finish_answer(answer.id, "stopped", "one", "r", (1, 2))
    resumed = history.resume_answer(answer.id)
    assert (resumed.status, resumed.text, resumed.ids) == ("streaming", "one", (1, 2))
    assert resumed.info == INFO
    history.finish_answer(answer.id, "complete", "one two", "r", (1, 2, 3))
    assert texts(history.path(chat)) == ["q", "one two"]


# ---- chats


def test_the_newest_chat_comes_first(history: History) -> None:
    chats = [history.new_chat(title=f"chat {number}").id for number in range(3)]
    history.add_user(chats[0], None, "x")
    assert [one.id for one in history.chats()] == [1, 3, 2]
    assert [one.id for one in history.chats(limit=2)] == [1, 3]
    assert history.chats()[0].messages == 1
    latest = history.latest()
    assert latest is not None
    assert latest.id == 1
    history.delete_chat(1)
    history.delete_chat(2)
    history.delete_chat(3)
    assert history.latest() is None
    assert history.chats() == []


def test_the_date_is_fixed_when_a_chat_is_made(history: History) -> None:
    chat = history.new_chat()
    assert chat.date == date.fromtimestamp(chat.created).isoformat()
    history.add_user(chat.id, None, "x")
    assert history.chat(chat.id).date == chat.date


def test_the_title_is_the_first_line_unless_somebody_gave_one(history: History) -> None:
    chat = history.new_chat()
    assert (chat.title, chat.title_source) == ("", "none")
    history.add_user(chat.id, None, "\n  What is \x1b[31mred?\nmore")
    chat = history.chat(chat.id)
    assert (chat.title, chat.title_source) == ("What is ␛[31mred?", "first line")
    history.add_user(chat.id, None, "second")
    assert history.chat(chat.id).title == chat.title
    assert history.rename(chat.id, "Mine").title_source == "person"
    named = history.new_chat(title="Given")
    history.add_user(named.id, None, "first")
    assert history.chat(named.id).title == "Given"


@given(st.text())
def test_a_title_is_short_and_one_line(text: str) -> None:
    title = title_from(text)
    assert len(title) <= 60
    assert len(title.splitlines()) <= 1


def test_a_long_title_is_cut_between_words() -> None:
    assert title_from("word " * 30) == "word " * 10 + "word word…"
    assert title_from("x" * 100) == "x" * 59 + "…"
    assert title_from("x" * 60) == "x" * 60


def test_a_deleted_chat_is_nowhere_until_it_is_brought_back(history: History) -> None:
    chat = history.new_chat(title="secret plan")
    message = history.add_user(chat.id, None, "secret text")
    history.delete_chat(chat.id)
    assert history.chats() == history.chats("secret") == []
    assert [one.id for one in history.pending_deletes()] == [chat.id]
    with pytest.raises(NotFound):
        history.chat(chat.id)
    with pytest.raises(NotFound):
        history.path(chat.id)
    with pytest.raises(NotFound):
        history.delete_chat(chat.id)
    assert history.undo_delete(chat.id).title == "secret plan"
    assert history.path(chat.id) == [message]
    assert history.pending_deletes() == []
    assert [one.id for one in history.chats("secret")] == [chat.id]


def test_drafts_are_kept_for_each_chat_and_for_the_next_one(open_history: OpenHistory) -> None:
    history = open_history()
    chat = history.new_chat().id
    thought = KeptDraft("half a thought", (Pasted(5, 6), Pasted(7, 14, "a.txt")))
    history.save_draft(chat, KeptDraft("half a"))
    history.save_draft(chat, thought)
    history.save_draft(None, KeptDraft("new"))
    history.close()
    again = open_history()
    assert again.draft(chat) == thought
    assert (again.draft(None), again.draft(99)) == (KeptDraft("new"), KeptDraft())
    again.save_draft(chat, KeptDraft())
    assert again.draft(chat) == KeptDraft()


def test_threads_may_share_one_history(history: History) -> None:
    chats = [history.new_chat().id for _ in range(4)]
    failures: list[BaseException] = []

    def work(chat: int) -> None:
        try:
            parent = None
            for number in range(20):
                _, parent = turn(history, chat, parent, number)
                history.chats("u1")
        except BaseException as error:
            failures.append(error)

    threads = [threading.Thread(target=work, args=(chat,)) for chat in chats]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert failures == []
    for chat in chats:
        wanted = [f"{kind}{number}" for number in range(20) for kind in "ua"]
        assert texts(history.path(chat)) == wanted


def test_another_process_s_changes_are_noticed(open_history: OpenHistory) -> None:
    first, second = open_history(), open_history()
    before = first.data_version()
    first.new_chat()
    assert first.data_version() == before
    second.new_chat()
    assert first.data_version() != before
    assert [one.id for one in first.chats()] == [2, 1]


def test_a_private_history_leaves_no_file() -> None:
    history = History.in_memory()
    chat = history.new_chat()
    assert chat.private
    assert turn(history, chat.id, None, 1) == (1, 2)
    assert history.chat(chat.id).private
    history.delete_chat(chat.id)
    history.purge(chat.id)
    history.close()
