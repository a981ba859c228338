"""Sending, answering again, going on, stopping: the life of the running answer."""

from __future__ import annotations

import gc
from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import TYPE_CHECKING

from textual.widgets import Static

from app import messages as m
from app.sanitize import single_line
from app.screens.run import Kind, Run, pump
from app.store.conversation import AnswerInfo
from app.store.draft import KeptDraft, draft_of
from app.widgets.answer import AnswerTurn, problem_words
from engine.events import Delta, ErrorInfo, Failed, PromptProgress, Started

if TYPE_CHECKING:
    from app.attached import Attachment
    from app.screens.chat import ChatScreen
    from app.session import Options, Searching, Session, SessionEvent
    from app.store.conversation import Message, Status


class ProblemBlock(Static):
    """An error that belongs to no answer."""


class Answering:
    """At most one answer runs."""

    def __init__(self, screen: ChatScreen) -> None:
        self.screen = screen
        self.run: Run | None = None
        self.pending: str | None = None
        """A message that waits for the model."""
        self._apart: tuple[str, tuple[Attachment, ...]] = ("", ())
        """The waiting message, its pastes apart."""

    # ---- beginning

    def send(self, text: str, written: str = "", attached: tuple[Attachment, ...] = ()) -> None:
        """A new question; it waits while the model loads. Long pastes are searched instead of read
        where something was `written` beside them.
        """
        screen = self.screen
        self._apart = (written, attached)
        if self.run is not None:
            self.restore(text, attached)
            screen.tell(f"An answer is being written. {screen.key('chat.stop')} stops it.")
        elif screen.loaded is None or screen.session is None:
            self._wait_for_model(text, attached)
        else:
            chat_id = screen.chat.id if screen.chat else None
            question, options = self._asked(text, written, attached)
            self._begin(
                "send",
                text,
                lambda session: session.send(chat_id, question, options),
                attached,
            )

    def send_pending(self) -> None:
        """The model is ready."""
        text, self.pending = self.pending, None
        self.screen.draft.show_mode()
        if text is not None:
            self.send(text, *self._apart)

    def _asked(
        self, text: str, written: str, attached: tuple[Attachment, ...]
    ) -> tuple[str, Options]:
        """The question, and what comes with it."""
        options = self.screen.knowledge.options()
        if written and attached:
            return written, replace(options, attached=attached, as_written=text)
        return text, options

    def edit(
        self,
        user_message_id: int,
        text: str,
        written: str = "",
        attached: tuple[Attachment, ...] = (),
    ) -> bool:
        question, options = self._asked(text, written, attached)
        begun = self._begin_on(
            "edit",
            text,
            lambda session: session.edit(user_message_id, question, options),
            attached,
        )
        if begun and self.run is not None:
            self.run.edited = user_message_id
        return begun

    def regenerate(self, message_id: int) -> bool:
        options = self.screen.knowledge.options()
        return self._begin_on(
            "regenerate", "", lambda session: session.regenerate(message_id, options)
        )

    def regenerate_last(self) -> None:
        turn = self.screen.transcript.last_answer or self.screen.transcript.last_question
        if turn is not None:
            self.regenerate(turn.message.id)

    def continue_last(self) -> None:
        turn = self.screen.transcript.last_answer
        if turn is None:
            return
        if turn.message.status not in ("cut", "stopped"):
            self.screen.tell("The last answer is complete; there is nothing to go on with.")
            return
        message_id = turn.message.id
        self._begin_on("continue", "", lambda session: session.continue_answer(message_id))

    def _begin_on(
        self,
        kind: Kind,
        text: str,
        start: Callable[[Session], Iterator[SessionEvent]],
        attached: tuple[Attachment, ...] = (),
    ) -> bool:
        """Begins where no waiting is possible; says why not."""
        screen = self.screen
        if self.run is not None:
            screen.tell(f"An answer is being written. {screen.key('chat.stop')} stops it.")
            return False
        if screen.loaded is None:
            screen.tell(f"No model is loaded. {screen.key('chat.models')} chooses one.")
            return False
        self._begin(kind, text, start, attached)
        return True

    def _begin(
        self,
        kind: Kind,
        text: str,
        start: Callable[[Session], Iterator[SessionEvent]],
        attached: tuple[Attachment, ...] = (),
    ) -> None:
        screen = self.screen
        session = screen.session
        assert session is not None
        chat_id = screen.chat.id if screen.chat else None
        run = Run(kind, session, text, attached, chat_id=chat_id)
        self.run = run
        # A full collection looks at every object of the program, 40 ms with the screen standing
        # still; while words stream it has to look at what came with them only.
        gc.freeze()
        screen.chats.save_draft(KeptDraft())
        screen.overlays.hide_page()
        screen.run_worker(
            lambda: pump(run, start(session), screen.post_message),
            thread=True,
            group="answer",
            exit_on_error=False,
        )
        screen.bars.show_footer()
        screen.new_lines.watch_live(True)

    def _wait_for_model(self, text: str, attached: tuple[Attachment, ...]) -> None:
        screen = self.screen
        if not screen.loader.is_running:
            self.restore(text, attached)
            screen.tell(f"No model is loaded. {screen.key('chat.models')} chooses one.")
            return
        self.pending = text
        screen.draft.show_mode()
        screen.bars.show_footer()

    # ---- ending

    def stop(self) -> bool:
        """Escape; whether there was anything to stop."""
        if self.pending is not None:
            self.restore(self.pending, self._apart[1])
            self.pending = None
            self.screen.draft.show_mode()
            return True
        if self.run is None:
            return False
        run = self.run
        self.screen.work.in_thread(lambda: run.session.cancel(run.chat_id), "cancel")
        return True

    def restore(self, text: str, attached: tuple[Attachment, ...] = ()) -> None:
        """A message that was not stored is a draft again: kept and counted."""
        if text and not self.screen.prompt.text:
            self.screen.prompt.set_draft(draft_of(text, attached))
            self.screen.post_message(m.DraftChanged(text))

    def _give_back(self, run: Run) -> None:
        """What could not be stored is a draft again, and an edit is an edit again."""
        screen = self.screen
        if run.edited is not None and not screen.prompt.text:
            screen.acts.editing = run.edited
            screen.draft.show_mode()
        self.restore(run.text, run.attached)

    # ---- while it runs

    @property
    def turn(self) -> AnswerTurn | None:
        """The running answer's turn, where its chat is on screen."""
        run = self.run
        if run is None or run.answer_id is None or not self._is_on_screen(run):
            return None
        turn = self.screen.transcript.turn_of(run.answer_id)
        return turn if isinstance(turn, AnswerTurn) else None

    def _is_on_screen(self, run: Run) -> bool:
        screen = self.screen
        shown = screen.chat.id if screen.chat else None
        return run.session is screen.session and run.chat_id == shown

    async def begun(self, event: m.AnswerBegun) -> None:
        run, screen = self.run, self.screen
        if run is None:
            return
        was_on_screen = self._is_on_screen(run)
        run.chat_id, run.answer_id = event.chat.id, event.answer.id
        if was_on_screen:
            screen.chat = event.chat
            screen.bars.show_title()
            await self._show_begun(run, event)
        screen.chats.mark()

    async def _show_begun(self, run: Run, event: m.AnswerBegun) -> None:
        transcript = self.screen.transcript
        if run.kind != "continue":
            shown = [turn.message.id for turn in transcript.turns]
            kept = kept_before(shown, event.question)
            has_question = event.question.id in shown
            added = [] if has_question else [event.question]
            await transcript.replace(
                [*kept, event.question.id] if has_question else kept,
                [
                    transcript.make_turn(one, event.siblings.get(one.id, ()))
                    for one in (*added, event.answer)
                ],
            )
        turn = self.turn
        if turn is not None:
            turn.begin()
        transcript.anchor()
        await transcript.prune()

    async def handle(self, event: SessionEvent) -> None:
        from app.session import Answered, Found

        run = self.run
        if run is None:
            return
        if isinstance(event, (Started, Delta)):
            run.take(event)
        if isinstance(event, Found) and self._is_on_screen(run):
            self.screen.transcript.sources[event.user_message_id] = event.sources
            if self.turn is not None:
                self.turn.sources = event.sources
        if isinstance(event, Failed):
            await self._failed(run, event.cause)
        elif isinstance(event, Answered):
            await self._answered(run, event.message)
        elif (turn := self.turn) is not None:
            self._show(turn, run, event)

    def _show(self, turn: AnswerTurn, run: Run, event: SessionEvent) -> None:
        from app.session import Searching

        if isinstance(event, Delta):
            turn.add(event)
        elif isinstance(event, PromptProgress):
            if run.shows_progress:
                turn.progress(event)
        elif isinstance(event, Searching):
            turn.header.show_state(searching_words(event))
        elif isinstance(event, Started):
            turn.header.show_state("reading")

    async def _answered(self, run: Run, message: Message) -> None:
        if message.info is not None:
            usage = message.info.usage
            if self._is_on_screen(run):
                self.screen.used_tokens = usage.prompt_tokens + usage.completion_tokens
                self.screen.draft.show_used()
            for notice in message.info.notices:
                self.screen.tell(notice)
        if (turn := self.turn) is not None:
            turn.finish(message)
        self.screen.titles.after(run.session, message)

    async def _failed(self, run: Run, cause: ErrorInfo) -> None:
        run.has_failed = True
        turn = self.turn
        if turn is not None:
            turn.finish(failed_message(turn.message, run, cause))
        elif self._is_on_screen(run):
            self._give_back(run)
            await self.screen.query(ProblemBlock).remove()
            await self.screen.transcript.add_block(
                ProblemBlock(problem_words(cause), markup=False, classes="problem")
            )
        else:
            self.screen.tell(f"{cause.title} {cause.next_step}")

    async def ended(self) -> None:
        """No more events will come."""
        run, self.run = self.run, None
        gc.unfreeze()
        screen = self.screen
        screen.chats.mark()
        screen.chats.refresh()
        screen.bars.show_footer()
        screen.new_lines.watch_live(False)
        if run is not None and not run.is_stored and not run.has_failed:
            self.restore(run.text, run.attached)
        is_edited = run is not None and run.edited is not None and run.is_stored
        if run is not None and is_edited and self._is_on_screen(run):
            screen.acts.give_back()

    async def resume_view(self) -> None:
        """The running answer's chat was opened again: what has arrived is shown."""
        run, turn = self.run, self.turn
        if run is None or turn is None:
            return
        turn.begin()
        missing = run.arrived[len(turn.text) :] if run.kind != "continue" else ""
        turn.add(Delta("", (), missing, ""))


def searching_words(event: Searching) -> str:
    """`searching work`, `reading part 3 of 12`"""
    text = single_line(event.text, 60)
    return f"{text} · {event.done:,} of {event.total:,}" if event.total else text


def failed_message(begun: Message, run: Run, cause: ErrorInfo) -> Message:
    """An answer that ended by an error, as it is stored: with what had arrived, and the cause."""
    text = begun.text + run.arrived
    reasoning = begun.reasoning + run.reasoning
    info = replace(begun.info or AnswerInfo(), finish_reason="error", error=cause)
    status: Status = "cut" if text or reasoning else "error"
    return replace(begun, text=text, reasoning=reasoning, status=status, info=info)


def kept_before(shown: list[int], question: Message) -> list[int]:
    """Of the turns on screen those that stand before the question."""
    if question.id in shown:
        return shown[: shown.index(question.id)]
    if question.parent_id in shown:
        return shown[: shown.index(question.parent_id) + 1]
    return [] if question.parent_id is None else shown
