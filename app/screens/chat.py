"""The main screen: chats, transcript, prompt. It owns the state of the conversation on screen.

Slow work runs in threads that post messages (`app/messages.py`); the handlers here are the only
ones to change widgets. What an answer, a model load, a slash command or a turn key does is in the
modules beside this one.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from textual import events, on
from textual.app import ComposeResult
from textual.containers import Container, Horizontal, VerticalScroll
from textual.content import Content
from textual.screen import Screen
from textual.widgets import Static

from app import messages as m
from app.keys import bindings, first_shown
from app.screens.answering import Answering
from app.screens.bars import Bars
from app.screens.chat_list import ChatList
from app.screens.completing import Completing
from app.screens.draft import Draft
from app.screens.knowledge.base_acts import BaseActs
from app.screens.knowledge.knowledge import Knowledge
from app.screens.knowledge.source_acts import SourceActs
from app.screens.loading import Loading
from app.screens.overlays import Overlays
from app.screens.setting_changes import SettingChanges
from app.screens.slash_commands import SlashCommands
from app.screens.titles import Titles
from app.screens.turn_acts import TurnActs
from app.screens.work import Work
from app.slash import Line, parse, unescape
from app.store.draft import KeptDraft, draft_from
from app.widgets.answer_text import AnswerText
from app.widgets.bars import Completions, Footer, LoadBar, TitleBar, UndoBar
from app.widgets.new_lines import NewLines
from app.widgets.prompt import Prompt
from app.widgets.sidebar import Sidebar
from app.widgets.transcript import Transcript
from app.widgets.turn import Turn

if TYPE_CHECKING:
    from app.session import Session
    from app.settings import Settings
    from app.store.conversation import Chat
    from engine.messages import Loaded

NARROW, TINY_WIDTH, TINY_HEIGHT, SMALL_WIDTH, SMALL_HEIGHT = 100, 60, 16, 20, 6
"""Below these columns and lines the layout folds; below the last two only a notice fits."""

POLL_S = 1.5
"""How often other processes' changes and the engine's memory are looked at."""


class ChatScreen(Screen[None]):
    """One conversation at a time, and the list of all."""

    BINDINGS = bindings("chat")
    AUTO_FOCUS = "#prompt"

    def __init__(self, settings: Settings, overrides: dict[str, str]) -> None:
        super().__init__()
        self.settings = settings
        self.overrides = overrides
        self.session: Session | None = None
        self.stored_session: Session | None = None
        """The session with the chats on disk; differs from `session` in a private chat."""
        self.chat: Chat | None = None
        """None: a chat that has no message yet."""
        self.loaded: Loaded | None = None
        self.used_tokens = 0
        self.work = Work(self)
        self.bars = Bars(self)
        self.draft = Draft(self)
        self.completing = Completing(self)
        self.answering = Answering(self)
        self.loader = Loading(self)
        self.chats = ChatList(self)
        self.commands = SlashCommands(self)
        self.acts = TurnActs(self)
        self.titles = Titles(self)
        self.knowledge = Knowledge(self)
        self.bases = BaseActs(self)
        self.sources = SourceActs(self)
        self.changes = SettingChanges(self)
        self.overlays = Overlays(self)

    # ---- layout

    def compose(self) -> ComposeResult:
        yield TitleBar(id="title")
        yield LoadBar(id="load")
        with Horizontal(id="body"):
            yield Sidebar()
            with Container(id="main"):
                transcript = Transcript(self.key("chat.continue"), self.key("chat.sources"))
                yield transcript
                with VerticalScroll(id="page", can_focus=False):
                    yield Static(id="page-text", markup=False)
                yield NewLines(transcript)
        yield UndoBar()
        yield Completions()
        yield Prompt(self.settings.chat.enter_sends, self.overrides)
        yield Footer(self.overrides)
        yield Static(Content("Make the window a little larger."), id="too-small", markup=False)

    def on_mount(self) -> None:
        self.load_bar.load = None
        self.set_interval(POLL_S, self._poll)
        self.overlays.show_empty()
        self.bars.show_footer()
        self.draft.show_used()

    def on_resize(self, event: events.Resize) -> None:
        width, height = event.size
        self.set_class(width < NARROW, "-narrow")
        self.set_class(width < TINY_WIDTH or height < TINY_HEIGHT, "-tiny")
        self.set_class(width < SMALL_WIDTH or height < SMALL_HEIGHT, "-too-small")
        self.chats.fold(is_narrow=width < NARROW)

    @property
    def transcript(self) -> Transcript:
        return self.query_one(Transcript)

    @property
    def prompt(self) -> Prompt:
        return self.query_one(Prompt)

    @property
    def new_lines(self) -> NewLines:
        return self.query_one(NewLines)

    @property
    def load_bar(self) -> LoadBar:
        return self.query_one(LoadBar)

    def key(self, action_id: str) -> str:
        return first_shown(action_id, self.overrides)

    # ---- what is told

    @on(m.Told)
    def _told(self, event: m.Told) -> None:
        from app.sanitize import clean

        self.notify(
            clean(event.text),
            severity="error" if event.is_problem else "information",
            markup=False,
            timeout=6,
        )

    @on(m.Shown)
    def _shown(self, event: m.Shown) -> None:
        self.overlays.show_lines(event.title, event.lines)

    def tell(self, text: str) -> None:
        self.post_message(m.Told(text))

    def on_descendant_focus(self) -> None:
        self.bars.show_footer()

    def _poll(self) -> None:
        self.chats.poll()
        self.bars.show_engine()
        self.bars.show_documents()

    # ---- the prompt

    @on(m.Submitted)
    async def _submitted(self, event: m.Submitted) -> None:
        self.completing.hide()
        self.draft.count("")
        line = parse(event.text)
        if line is not None:
            self.commands.run(line)
        elif self.acts.editing is not None:
            self.acts.send_edit(event)
        else:
            self.answering.send(unescape(event.text), unescape(event.written), event.attached)

    @on(m.NothingSubmitted)
    def _nothing_submitted(self) -> None:
        self.draft.show_empty(True)

    @on(m.DraftTyped)
    def _typed(self) -> None:
        self.draft.show_empty(False)
        self.completing.typed()

    @on(m.DraftChanged)
    def _changed(self, event: m.DraftChanged) -> None:
        self.chats.save_draft(self.prompt.draft)
        self.draft.count(event.text)

    @on(m.DraftCounted)
    def _counted(self, event: m.DraftCounted) -> None:
        self.draft.counted(event)

    @on(m.PasteFolded)
    def _folded(self, event: m.PasteFolded) -> None:
        self.draft.count_paste(event)

    @on(m.PasteCounted)
    def _paste_counted(self, event: m.PasteCounted) -> None:
        self.draft.paste_counted(event)

    @on(m.LastWanted)
    def _last_wanted(self) -> None:
        question = self.transcript.last_question
        if question is not None:
            self.prompt.set_draft(draft_from(question.message))

    # ---- actions, thin: the work is in the modules beside

    def action_stop_or_back(self) -> None:
        if self.answering.stop() or self.loader.stop() or self.acts.leave_edit():
            return
        if self.chats.close_overlay():
            return
        self.prompt.focus()
        self.transcript.anchor()

    def action_new_chat(self) -> None:
        self.chats.new_chat()

    def action_models(self) -> None:
        self.loader.choose()

    def action_search(self) -> None:
        self.chats.search()

    def action_toggle_sidebar(self) -> None:
        self.chats.toggle()

    def action_details(self) -> None:
        self.overlays.details()

    def action_sources(self) -> None:
        self.sources.show()

    def action_knowledge(self) -> None:
        self.bases.show()

    def action_regenerate(self) -> None:
        self.answering.regenerate_last()

    def action_continue_answer(self) -> None:
        self.answering.continue_last()

    def action_external_editor(self) -> None:
        self.overlays.edit_externally()

    def action_settings(self) -> None:
        self.changes.show()

    def action_delete_chat(self) -> None:
        self.chats.delete()

    def action_undo_delete(self) -> None:
        self.chats.undo()

    def action_turn_previous(self) -> None:
        self.acts.move(-1)

    def action_turn_next(self) -> None:
        self.acts.move(1)

    def check_action(self, action: str, parameters: tuple[object, ...]) -> bool | None:
        if action == "undo_delete":
            return self.chats.can_undo
        return True

    def run_slash(self, name: str, argument: str) -> None:
        """From the palette: a command that needs an argument is put into the prompt."""
        if argument and not argument.startswith("["):
            self.prompt.set_draft(KeptDraft(f"/{name} "))
            self.prompt.focus()
        else:
            self.commands.run(Line(name, ""))

    # ---- messages of turns

    @on(Turn.Acted)
    def _turn_acted(self, event: Turn.Acted) -> None:
        self.acts.act(event.turn, event.what)

    @on(AnswerText.LinkClicked)
    def _link_clicked(self, event: AnswerText.LinkClicked) -> None:
        self.overlays.ask_link(event.href)

    @on(m.BranchWanted)
    def _branch_wanted(self, event: m.BranchWanted) -> None:
        self.acts.branch(event.message_id, event.step)

    # ---- messages about documents

    @on(m.BasesListed)
    def _bases_listed(self, event: m.BasesListed) -> None:
        self.bases.listed(event)

    @on(m.BasesNamed)
    def _bases_named(self, event: m.BasesNamed) -> None:
        self.completing.named(event)

    @on(m.BaseUsed)
    def _base_used(self, event: m.BaseUsed) -> None:
        self.knowledge.used(event.name)

    @on(m.BaseMade)
    def _base_made(self, event: m.BaseMade) -> None:
        self.bases.made(event.name)

    @on(m.BaseAdvanced)
    def _base_advanced(self, event: m.BaseAdvanced) -> None:
        self.knowledge.advanced(event)

    @on(m.SyncTroubled)
    def _sync_troubled(self, event: m.SyncTroubled) -> None:
        self.knowledge.troubled(event)

    @on(m.SourceWanted)
    def _source_wanted(self, event: m.SourceWanted) -> None:
        self.sources.find(event.message_id, event.number)

    @on(m.SourcesFound)
    def _sources_found(self, event: m.SourcesFound) -> None:
        self.sources.found(event)

    # ---- messages for the modules beside

    @on(m.ChatRenamed)
    def _chat_renamed(self, event: m.ChatRenamed) -> None:
        shown, renamed = self.chat, event.chat
        if shown and (shown.id, shown.private) == (renamed.id, renamed.private):
            self.chat = renamed
            self.bars.show_title()
        self.chats.refresh()

    @on(m.Attached)
    def _attached(self, event: m.Attached) -> None:
        self.prompt.attach(event.name, event.text)
        if event.notice:
            self.tell(f"{event.name}: {event.notice}.")

    @on(m.DeleteAsked)
    def _delete_asked(self, event: m.DeleteAsked) -> None:
        self.acts.ask_delete(event)

    @on(m.SessionReady)
    def _session_ready(self, event: m.SessionReady) -> None:
        self.session = self.stored_session = event.session
        for notice in event.notices:
            self.tell(notice)
        self.loader.begin(self.loader.wanted)
        self.chats.open_first()

    @on(m.SessionFailed)
    def _session_failed(self, event: m.SessionFailed) -> None:
        self.loader.failed(m.LoadFailed(event.error))

    @on(m.LoadAdvanced)
    def _load_advanced(self, event: m.LoadAdvanced) -> None:
        self.loader.advanced(event)

    @on(m.ModelLoaded)
    def _model_loaded(self, event: m.ModelLoaded) -> None:
        self.loader.done(event.loaded)

    @on(m.LoadFailed)
    def _load_failed(self, event: m.LoadFailed) -> None:
        self.loader.failed(event)

    @on(m.AnswerBegun)
    async def _answer_begun(self, event: m.AnswerBegun) -> None:
        await self.answering.begun(event)

    @on(m.AnswerEvent)
    async def _answer_event(self, event: m.AnswerEvent) -> None:
        await self.answering.handle(event.event)

    @on(m.AnswerEnded)
    async def _answer_ended(self) -> None:
        await self.answering.ended()

    @on(m.ChatOpened)
    async def _chat_opened(self, event: m.ChatOpened) -> None:
        await self.chats.opened(event)

    @on(m.ChatsListed)
    def _chats_listed(self, event: m.ChatsListed) -> None:
        self.chats.listed(event)

    @on(m.ChatChosen)
    def _chat_chosen(self, event: m.ChatChosen) -> None:
        self.chats.choose(event)

    @on(m.SearchTyped)
    @on(m.ChatsChanged)
    def _chats_changed(self) -> None:
        self.chats.refresh()

    @on(m.DraftRestored)
    def _draft_restored(self, event: m.DraftRestored) -> None:
        if not self.prompt.text:
            self.prompt.set_draft(event.draft)
