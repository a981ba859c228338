"""Laws of rewriting: only the newest answer, and never trusting what was decoded for computed."""

from __future__ import annotations

from engine.events import Result, Usage
from engine.request import Request
from engine.worker.history import Histories


def answer(prompt: int, found: int = 0) -> Result:
    usage = Usage(prompt, found, 0, prompt - found, 5)
    ids = tuple(range(prompt))
    return Result("", "", (1,) * 5, "stop", 1, "f16", usage=usage, prompt_ids=ids)


def rewrite(exact: int) -> Request:
    return Request("w", tuple(range(200)), replaces=True, exact_prefix=exact)


def test_the_prompt_of_a_first_answer_is_exact() -> None:
    histories = Histories()
    histories.answered("c", "r1", answer(30))
    taken = histories.takes("c", "r1", rewrite(30))
    assert taken is not None
    assert taken.exact_prefix == 30


def test_what_was_decoded_before_is_not_exact_until_it_is_rewritten() -> None:
    histories = Histories()
    histories.answered("c", "r1", answer(30))
    histories.answered("c", "r2", answer(60, found=35))
    second = histories.takes("c", "r2", rewrite(60))
    assert second is not None
    assert second.exact_prefix == 30
    histories.rewritten("c")
    histories.answered("c", "r3", answer(90, found=66))
    third = histories.takes("c", "r3", rewrite(90))
    assert third is not None
    assert third.exact_prefix == 90


def test_a_prompt_that_reused_only_computed_tokens_is_exact() -> None:
    histories = Histories()
    histories.answered("c", "r1", answer(30))
    histories.answered("c", "r2", answer(60, found=28))
    taken = histories.takes("c", "r2", rewrite(60))
    assert taken is not None
    assert taken.exact_prefix == 60


def test_only_the_newest_answer_of_a_living_conversation_is_rewritten() -> None:
    histories = Histories()
    histories.answered("c", "r1", answer(30))
    assert histories.takes("c", "r0", rewrite(30)) is None
    histories.asked("c")
    assert histories.takes("c", "r1", rewrite(30)) is None
    histories.answered("c", "r2", answer(30))
    histories.dropped("c")
    assert histories.takes("c", "r2", rewrite(30)) is None
