"""The page of knowledge bases: listing, making, adding to, exporting and forgetting them."""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from app import messages as m
from app.errors import in_one_line, to_error_info
from app.knowledge.errors import BadBaseName, IndexDamaged
from app.screens.knowledge.bases import BaseRow, BasesPage, at_home
from app.screens.page import AskPage, ChoosePage, ConfirmPage
from app.widgets.path_suggester import PathSuggester
from engine.errors import LocalchatError

if TYPE_CHECKING:
    from app.screens.chat import ChatScreen
    from app.session import Session


class BaseActs:
    """What is asked for on the page; it runs in threads."""

    def __init__(self, screen: ChatScreen) -> None:
        self.screen = screen
        self._page: BasesPage | None = None

    # ---- what is shown

    def show(self) -> None:
        if self.screen.knowledge.session is None:
            return
        self._page = BasesPage(self, self.screen.knowledge, self.screen.overrides)
        self.screen.app.push_screen(self._page, self._chosen)
        self.reload()

    def _chosen(self, name: str | None) -> None:
        self._page = None
        if name is not None:
            self.screen.knowledge.choose(name)

    def reload(self) -> None:
        """Reads again what there is, where the page is open."""
        session = self.screen.stored_session
        if session is not None and self._page is not None:
            self.screen.work.in_thread(lambda: m.BasesListed(tuple(base_rows(session))), "bases")

    def listed(self, event: m.BasesListed) -> None:
        if self._page is not None and self._page.is_attached:
            self._page.show(event.rows)

    def redraw(self) -> None:
        """Another base is in use."""
        if self._page is not None and self._page.is_attached:
            self._page.show(self._page.rows)

    def advanced(self, name: str) -> None:
        if self._page is not None and self._page.is_attached:
            self._page.advanced(name)

    def show_files(self, name: str) -> None:
        self.screen.sources.show_files(name)

    # ---- what is asked for

    def sync(self, name: str) -> None:
        self.screen.knowledge.sync(name)

    def ask_new(self) -> None:
        """The folder first: it mostly gives the name."""
        hint = "A folder or file with documents, such as ~/Documents. It is only read."
        self._ask_place("new knowledge base", hint, self._ask_name)

    def _ask_place(self, title: str, hint: str, take: Callable[[Path], None]) -> None:
        """A path that exists; asked again where it does not."""

        def check(place: str | None) -> None:
            from app.knowledge.base_file import check_root

            if place is None or not place.strip():
                return
            try:
                take(check_root(path_of(place)))
            except LocalchatError as error:
                self.screen.tell(in_one_line(to_error_info(error)))
                ask(place)

        def ask(value: str) -> None:
            page = AskPage(title, f"{hint} → takes what is offered.", value, PathSuggester())
            self.screen.app.push_screen(page, check)

        ask("")

    def _ask_name(self, folder: Path, proposed: str = "") -> None:
        """Asked again where the name cannot be or is taken."""
        from app.knowledge.base_file import name_for

        hint = f"A name for {folder}:"
        page = AskPage("new knowledge base", hint, proposed or name_for(folder))

        def check(typed: str | None) -> None:
            if typed is None or not typed.strip():
                return
            try:
                self._create(self._free(typed.strip()), folder)
            except BadBaseName as error:
                self.screen.tell(in_one_line(to_error_info(error)))
                self._ask_name(folder, typed)

        self.screen.app.push_screen(page, check)

    def _free(self, typed: str) -> str:
        """A name that no base has."""
        from app.knowledge.base_file import checked_name

        name = checked_name(typed)
        if self._page is not None and name in [row.name for row in self._page.rows]:
            raise BadBaseName(f"There is a knowledge base “{name}” already.")
        return name

    def _create(self, name: str, folder: Path) -> None:
        session = self.screen.knowledge.session
        if session is None:
            return

        def create() -> m.BaseMade:
            session.knowledge.all.create(name, [folder]).close()
            return m.BaseMade(name)

        self.screen.work.in_thread(create, "base")

    def made(self, name: str) -> None:
        if self._page is not None:
            self._page.wanted = name
        self.reload()
        self.screen.knowledge.read_again(name)

    def ask_folder(self, name: str) -> None:
        hint = f"A folder or file more for {name}."
        self._ask_place("one folder more", hint, lambda place: self._add(name, place))

    def _add(self, name: str, place: Path) -> None:
        session = self.screen.knowledge.session
        if session is None:
            return

        def add() -> m.BaseMade:
            session.base(name).add(place)
            return m.BaseMade(name)

        self.screen.work.in_thread(add, "base")

    def ask_drop(self, row: BaseRow) -> None:
        """Which folder, where there are several; then whether."""
        name = row.name
        if row.status is None:
            self.screen.tell(row.problem)
            return
        roots = row.status.roots
        if not roots:
            self.screen.tell(f"{name} has no folder.")
        elif len(roots) == 1:
            self._confirm_drop(name, roots[0])
        else:
            page = ChoosePage(f"take a folder out of {name}", map(at_home, roots))
            self.screen.app.push_screen(
                page,
                lambda number: None if number is None else self._confirm_drop(name, roots[number]),
            )

    def _confirm_drop(self, name: str, root: Path) -> None:
        key = self.screen.key("bases.add")
        page = ConfirmPage(
            f"Take {at_home(root)} out of {name}?",
            f"What was read of it goes. The documents stay where they are; {key} adds it again.",
            "Take it out",
        )
        self.screen.app.push_screen(page, lambda yes: self._drop(name, root) if yes else None)

    def _drop(self, name: str, root: Path) -> None:
        session = self.screen.knowledge.session
        if session is None:
            return

        def drop() -> m.BaseMade:
            session.base(name).drop(root)
            return m.BaseMade(name)

        self.screen.work.in_thread(drop, "base")

    def ask_export(self, name: str) -> None:
        hint = "A new file for all passages with their places, one JSON object a line."
        page = AskPage(f"export {name}", hint, f"~/{name}.jsonl", PathSuggester())
        self.screen.app.push_screen(
            page, lambda place: self._export(name, place) if place else None
        )

    def _export(self, name: str, place: str) -> None:
        session = self.screen.knowledge.session
        if session is None:
            return

        def export() -> m.Told:
            path = path_of(place)
            if os.path.lexists(path):
                return m.Told(f"{path} exists; nothing was written.", is_problem=True)
            session.base(name).export(path)
            return m.Told(f"Written to {path}")

        self.screen.work.in_thread(export, "export")

    def ask_remove(self, name: str) -> None:
        page = ConfirmPage(
            f"Forget {name}?",
            "Its index goes. The documents stay where they are, answers keep what they cite.",
            "Forget it",
        )
        self.screen.app.push_screen(page, lambda yes: self._remove(name) if yes else None)

    def _remove(self, name: str) -> None:
        session = self.screen.knowledge.session
        if session is not None:
            self.screen.knowledge.forget(session, name)


def base_rows(session: Session) -> list[BaseRow]:
    """All bases; what is wrong with one does not hide the others."""
    rows = []
    for name in session.knowledge.all.names():
        try:
            rows.append(BaseRow(name, session.base(name).status()))
        except (LocalchatError, OSError) as error:
            problem = in_one_line(replace(to_error_info(error), next_step=""))
            rows.append(BaseRow(name, problem=problem, is_damaged=isinstance(error, IndexDamaged)))
    return rows


def path_of(typed: str) -> Path:
    """What a person typed for a path; it need not exist."""
    return Path(os.path.abspath(os.path.expanduser(typed.strip())))
