"""Notes the texts of each command that runs, expanded as the variables are at that moment."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ds_lint.source.shell.assignments import ASSIGNMENT
from ds_lint.source.shell.beginnings import begins_like_config, may_write_config
from ds_lint.source.shell.syntax import REDIRECTIONS
from ds_lint.source.shell.texts import PlacedText, WrittenText

if TYPE_CHECKING:
    from ds_lint.source.shell.heredocs import Heredoc
    from ds_lint.source.shell.state import State
    from ds_lint.source.shell.syntax import ShellCommand, WrittenWord
    from ds_lint.source.shell.texts import WrittenTexts
    from ds_lint.source.shell.words import WordExpander


class TextNotes:
    """Notes texts; ``is_reached`` says whether the commands that write them run."""

    def __init__(self, texts: WrittenTexts, words: WordExpander, *, is_reached: bool) -> None:
        self._texts = texts
        self._words = words
        self._is_reached = is_reached

    def command(self, words: list[WrittenWord], state: State) -> None:
        """The words of a simple command."""
        kinds = ("variable_assignment", *REDIRECTIONS)
        name = next((word.text.replace("'", "").replace('"', "") for word in words if word.kind not in kinds), "")
        for word in words:
            if word.kind == "variable_assignment":
                self.assigned(word.command, state)
            elif word.kind in REDIRECTIONS:
                self.given([word.command], name, state)
            else:
                self._word(word.text, word.command.at, name, state)

    def assigned(self, assignment: ShellCommand, state: State) -> None:
        """The value of ``NAME=value``."""
        match = ASSIGNMENT.match(assignment.text)
        if match is not None and assignment.at is not None:
            value = assignment.text[match.end() :]
            self._word(value, assignment.at + match.end(), "", state, is_assigned=True)

    def given(self, redirections: list[ShellCommand], name: str, state: State) -> None:
        """What redirections give to a command: here-documents, and the word behind ``<<<``."""
        for part in redirections:
            if part.kind == "herestring_redirect" and part.at is not None:
                word = part.text[3:].lstrip()
                self._word(word, part.at + len(part.text) - len(word), name, state)
            elif (heredoc := part.heredoc) is not None:
                self._heredoc(part, heredoc, name, state)

    def _word(self, word: str, at: int | None, name: str, state: State, *, is_assigned: bool = False) -> None:
        """A word that begins like a config, and what the substitutions in it write."""
        if at is None or not may_write_config(word) or self._texts.is_settled(at, is_reached=self._is_reached):
            return
        placed = PlacedText(word, at, self._words.unknowns, splits=not is_assigned)
        self._words.pieces(word, state, placed)
        if placed.is_one_word and begins_like_config(word):
            self._texts.note(WrittenText(at, name, placed.parts, is_body=False, is_reached=self._is_reached))

    def _heredoc(self, redirection: ShellCommand, heredoc: Heredoc, name: str, state: State) -> None:
        text, base = redirection.source.text[heredoc.start : heredoc.end], redirection.source.base
        if base is None or not may_write_config(f"{name} <<\n{text}"):
            return
        at = base + heredoc.start
        if self._texts.is_settled(at, is_reached=self._is_reached):
            return
        placed = PlacedText(text, at, self._words.unknowns)
        if heredoc.is_quoted:
            placed.add(text, 0, len(text), is_quoted=True)
        else:
            self._words.pieces_of_body(text, state, placed)
        parts = placed.without_tabs() if heredoc.strips_tabs else placed.parts
        self._texts.note(WrittenText(at, name, parts, is_body=True, is_reached=self._is_reached))
