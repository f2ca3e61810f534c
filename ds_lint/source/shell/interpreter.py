"""Follows a script through its commands and notes which of them start a program, and which texts they write.

Nothing runs. Where a condition is not known both branches are followed, and what they leave different is unknown. A
script that is called without words takes the defaults of its options: a loop over ``$#`` or ``getopts`` has no turn.
"""

from __future__ import annotations

import posixpath
import re
from contextlib import suppress
from typing import TYPE_CHECKING, NamedTuple

from ds_lint.source.counts import count
from ds_lint.source.project_texts import ProjectTexts
from ds_lint.source.shell import builtins, conditions, patterns, scanning
from ds_lint.source.shell.assignments import ASSIGNMENT, Assignments, restore
from ds_lint.source.shell.beginnings import may_write_config
from ds_lint.source.shell.filters import filtered
from ds_lint.source.shell.runners import SHELLS, called_script, handed_texts
from ds_lint.source.shell.state import Function, State, merged
from ds_lint.source.shell.syntax import REDIRECTIONS, ShellCommand, WrittenWord, nodes, parse
from ds_lint.source.shell.text_notes import TextNotes
from ds_lint.source.shell.texts import WrittenText, WrittenTexts
from ds_lint.source.shell.unknowns import StandIns, Unknowns, is_known, without_marks
from ds_lint.source.shell.words import LONGEST, TooLongError, WordExpander
from ds_lint.source.slurm import allocation, chooses_tasks, with_options
from ds_lint.source.tree import Span

if TYPE_CHECKING:
    from collections.abc import Callable

    from ds_lint.source.shell.runners import HandedText
    from ds_lint.source.shell.state import Value

_MOST_STEPS = 20_000  # commands of one script, each turn of a loop counted
_MOST_DEPTH = 40  # functions, evals and sourced files within each other
_MOST_TURNS = 100
_MOST_PRINTED = 1000  # texts within `$(...)`
# Variables of a job that a step of it has with values of its own.
_OF_STEP = (
    "SLURM_NNODES",
    "SLURM_NTASKS",
    "SLURM_NPROCS",
    "SLURM_NTASKS_PER_NODE",
    "SLURM_TASKS_PER_NODE",
    "SLURM_GPUS_ON_NODE",
)
_MOST_CALLS = 20  # of one script by another, which may call it in a loop
_SIMPLE = {"command", "variable_assignment", "variable_assignments"}
_PRINT_NOTHING = frozenset(builtins.BUILTINS) - {"echo", "hash", "jobs", "printf", "type"}
_NOT_PLAIN = (*REDIRECTIONS, "variable_assignment")
_TAKES_OUTPUT = re.compile(r"(?:1|&)?>")  # away from `$(...)`
_READING = ("while_statement", "for_statement", "compound_statement")  # which may read line by line
_WRITES = (">", ">|", "&>")
_MOST_ASIDE = 20  # times that the same commands are read aside
_OPTION = re.compile(r"-{1,2}[A-Za-z][\w.-]*(?:=|$)")
_TABS = re.compile(r"^\t+", re.MULTILINE)
_ASSIGNED = re.compile(r"\b([A-Za-z_]\w*)\+?=")


class Around(NamedTuple):
    """A command that runs another script or text, such as ``srun bash -c``: its words, and that text."""

    words: tuple[str, ...]
    text: str


class StartedProgram(NamedTuple):
    """A program that a script starts: its words with the marks of what is unknown, and where its command begins.

    ``line`` counts from 1. ``environment`` are the exported variables, those of the command itself among them.
    ``redirections`` are those of the command as they are written, such as ``>log``. ``around`` are the commands that
    it runs within, the outermost first. ``cut_off`` are the words behind it that bash takes for another command.
    ``set_in`` are the other files that set variables of the environment.
    """

    path: str
    line: int
    words: list[str]
    environment: dict[str, str]
    cwd: str
    redirections: tuple[str, ...] = ()
    around: tuple[Around, ...] = ()
    cut_off: tuple[str, ...] = ()
    set_in: tuple[tuple[str, str], ...] = ()


class WrittenFile(NamedTuple):
    """A file that a script writes, and the lines of the command that writes it, from the first to the last."""

    path: str
    line: int
    end_line: int
    name: str
    cwd: str


class Followed(NamedTuple):
    """What was seen of a script. ``misread`` are lines that the parser does not understand."""

    started: list[StartedProgram]
    unknowns: Unknowns
    misread: list[int]
    written: list[WrittenFile]


def follow(
    text: str,
    path: str,
    read: Callable[[str], str | None] = lambda _: None,
    variables: dict[str, str | None] | None = None,
    stand_ins: StandIns | None = None,
    enters: Callable[[str], bool] = lambda _: False,
) -> Followed:
    """Follow a script.

    ``path`` is its place in the project; ``read`` gives the text of a file that it sources; ``variables`` are in the
    environment, with None for a value that is not known; ``stand_ins`` are in the text. ``enters`` says whether the
    text of a script that it calls is followed, too.
    """
    interpreter = _Interpreter(path, read)
    interpreter.enters = enters
    state = State(".")
    for name, value in (variables or {}).items():
        state.variables[name] = interpreter.unknowns.mark(name) if value is None else value
    state.exported = frozenset(variables or ())
    text = without_marks(text)
    for character, name in (stand_ins.names if stand_ins is not None else {}).items():
        text = text.replace(character, interpreter.unknowns.mark(name))
    interpreter.follow(parse(text), state)
    return Followed(interpreter.started, interpreter.unknowns, sorted(set(interpreter.misread)), interpreter.written)


class ScriptTexts(NamedTuple):
    """The texts that a script writes, and where its comments are if any may be for ds-lint."""

    texts: list[WrittenText]
    comments: list[Span]


def texts_of(text: str, path: str) -> ScriptTexts:
    """Follow a script for what it writes; no line of it ends with a carriage return.

    What does not run counts too, since another time it may.
    """
    program = parse(without_marks(text), 0)
    reading = _ScriptReading()
    interpreter = _Interpreter(path, lambda _: None, reading)
    state = State(".")
    for name, value in allocation(text).variables.items():
        state.variables[name] = interpreter.unknowns.mark(name) if value is None else value
    interpreter.follow(program, state)
    if interpreter.is_broken_off:
        names = (*state.variables, *_ASSIGNED.findall(text))
        state.variables = {name: interpreter.unknowns.mark(name) for name in names}
        state.positional = None
        for command in program.named:
            interpreter.read_aside([command], state)
    for function in reading.functions:
        if function.body.at not in reading.called:
            interpreter.read_aside([function.body], state)
    comments = nodes(program.node, text, "#") if "ds-lint" in text else ()
    spans = [Span(one.start_byte, one.end_byte) for one in comments if one.type == "comment"]
    return ScriptTexts(reading.texts.in_order(), spans)


class _ScriptReading:
    """What the commands of a script write, beside those that run also those that do not."""

    def __init__(self) -> None:
        self.texts = WrittenTexts()
        self.unknowns = Unknowns()
        self.aside: dict[int, int] = {}  # by where commands begin that do not run: how often they were read
        self.steps = 0  # of those
        self.functions: list[Function] = []
        self.called: set[int | None] = set()  # where the bodies of functions begin that ran


class _EndlessError(Exception):
    """The script does more than scripts do."""


class _Interpreter:
    def __init__(
        self,
        path: str,
        read: Callable[[str], str | None],
        reading: _ScriptReading | None = None,
        *,
        is_aside: bool = False,  # in what does not run
    ) -> None:
        self.path = path
        self.read = read
        self.enters: Callable[[str], bool] = lambda _: False
        self.callers = [path]  # the scripts that call each other
        self.calls: dict[str, int] = {}  # by script: how often it was called
        self.reading = reading
        self.is_broken_off = False
        self.unknowns = Unknowns() if reading is None else reading.unknowns
        self.words = WordExpander(self.unknowns, self.output)
        self.notes = None if reading is None else TextNotes(reading.texts, self.words, is_reached=not is_aside)
        self.assignments = Assignments(self.words)
        self.started: list[StartedProgram] = []
        self.written: list[WrittenFile] = []
        self.misread: list[int] = []
        self.steps = 0
        self.depth = 0
        self.line: int | None = None  # of the command that evaluates a text, instead of the line in that text
        self.is_silent = int(reading is not None)  # as in a command substitution, which starts nothing that trains
        self.redirections: tuple[str, ...] = ()  # of the command that runs
        self.printing: list[str] | None = None  # what is printed within `$(...)`, if that is known
        self.breaks: list[list[State]] = []
        self.frames: list[dict[str, Value | None]] = []  # of functions: what their local variables hide

    def follow(self, program: ShellCommand, state: State) -> None:
        """Follow the script from its first command."""
        state.variables["0"] = self.unknowns.mark("$0", self.path)
        state.variables["BASH_SOURCE"] = self.unknowns.mark("BASH_SOURCE", self.path)
        try:
            self.note_misread(program)
            self.block(program.named, state)
        except (_EndlessError, TooLongError, RecursionError):
            self.is_broken_off = True
            self.misread.append(1)

    def note_misread(self, program: ShellCommand) -> None:
        """Note the lines that the parser did not understand."""
        left = [program]
        while left:
            command = left.pop()
            if command.kind == "ERROR" or command.node.is_missing:
                self.misread.append(command.line + 1)
            elif command.is_broken:
                left += command.children

    def read_aside(self, commands: list[ShellCommand], state: State) -> None:
        """Read commands that do not run here for the texts in them."""
        reading, start = self.reading, commands[0].at if commands else None
        if reading is None or start is None or reading.aside.get(start, 0) >= _MOST_ASIDE:
            return
        if not may_write_config(commands[0].source.text[commands[0].node.start_byte : commands[-1].end]):
            return
        reading.aside[start] = reading.aside.get(start, 0) + 1
        other = _Interpreter(self.path, self.read, reading, is_aside=True)
        other.steps, other.depth, other.frames = reading.steps, self.depth, [{}]
        inside = state.copy()
        inside.ended = None
        with suppress(_EndlessError, TooLongError, RecursionError), other.within():
            other.block(commands, inside)
        reading.steps = max(reading.steps, other.steps)

    # What runs. Each method returns whether the command succeeds, as far as that is known.

    def block(self, commands: list[ShellCommand], state: State) -> bool | None:
        """Run commands one after the other."""
        status: bool | None = True
        left = list(reversed(commands))
        while left and state.ended is None:
            command = left.pop()
            if left and left[-1].node.start_byte == command.node.end_byte and {command.kind, left[-1].kind} <= _SIMPLE:
                status = self.rejoined(command, left.pop(), state)
            else:
                status = self.run(command, state)
        self.read_aside(left[::-1], state)
        return status

    def rejoined(self, command: ShellCommand, rest: ShellCommand, state: State) -> bool | None:
        """Run a command that the parser cuts in two, as it does at the second dollar of ``X=./$A/$B/``."""
        words = scanning.raw_words(command.text + rest.text)
        count = next((number for number, word in enumerate(words) if not ASSIGNMENT.match(word)), len(words))
        fields = [field for word in words[count:] for field in self.words.fields(word, state)]
        return self.called(words[:count], fields, state, None, command.line + 1)

    def run(self, command: ShellCommand, state: State) -> bool | None:
        self.steps += 1
        if self.steps > _MOST_STEPS:
            raise _EndlessError
        method = getattr(self, f"run_{command.kind}", None)
        if method is not None:
            result: bool | None = method(command, state)
            return result
        self.print(None)
        return self.block(command.named, state) if command.kind == "ERROR" else None

    def run_program(self, command: ShellCommand, state: State) -> bool | None:
        return self.block(command.named, state)

    def run_do_group(self, command: ShellCommand, state: State) -> bool | None:
        return self.block(command.named, state)

    def run_else_clause(self, command: ShellCommand, state: State) -> bool | None:
        return self.block(command.named, state)

    def run_compound_statement(self, command: ShellCommand, state: State) -> bool | None:
        if command.text.startswith("(("):
            return self.assignments.arithmetic(command.text[2:-2], state)
        return self.block(command.named, state)

    def run_subshell(self, command: ShellCommand, state: State) -> bool | None:
        inside = state.copy()
        return self.block(command.named, inside)

    def run_redirected_statement(self, command: ShellCommand, state: State) -> bool | None:
        body = command.field("body")
        if body is None:
            self.print(None)  # `$(< file)`
            return True
        outside = self.printing
        is_elsewhere = any(_TAKES_OUTPUT.match(part.text) for part in command.named if part.kind == "file_redirect")
        if is_elsewhere:
            self.printing = None
        status = self.redirected(command, body, state)
        self.printing = outside if is_elsewhere else self.printing
        return status

    def redirected(self, command: ShellCommand, body: ShellCommand, state: State) -> bool | None:
        words = self.in_last_line(body, state) if body.kind == "command" else []
        self.note_written(command, words, state)
        if body.kind != "command":
            is_last = body.kind in ("list", "pipeline")  # the parser counts the redirections of the last one to all
            if self.notes is not None and not is_last:
                self.notes.given(command.named, "", state)
            given = next((part for part in command.named if part.kind == "herestring_redirect" or part.heredoc), None)
            text = self.given(given, state) if given is not None and not is_last else None
            status = self.with_input(body, text, state)
            if self.notes is not None and is_last:
                self.notes.given(command.named, _program(body), state)
            return status
        if self.notes is not None:
            self.notes.given(command.named, _program(body), state)
        given = next((part for part in command.named if part.kind == "herestring_redirect" or part.heredoc), None)
        words += [WrittenWord(word.kind, word.text, word) for part in command.named for word in _words_behind(part)]
        redirected = [part for part in command.named if part.kind == "file_redirect" and part.heredoc is None]
        if any("\n" in part.text.replace("\\\n", "") for part in redirected):  # `>` at the end of a line
            self.misread.append(command.line + 1)
        written = tuple(map(_redirection, redirected))
        self.redirections, before = written, self.redirections
        status = self.simple(words, state, None if given is None else self.given(given, state))
        self.redirections = before
        return status

    def with_input(self, body: ShellCommand, text: str | None, state: State) -> bool | None:
        """Run what reads a text line by line, if that is known."""
        outside = state.given
        state.given = None if text is None or not is_known(text) else text.removesuffix("\n").split("\n")[::-1]
        status = self.run(body, state)
        state.given = outside
        return status

    def note_written(self, command: ShellCommand, words: list[WrittenWord], state: State) -> None:
        """Note the files that a command with redirections writes: behind ``>``, or as the words of ``tee``."""
        if self.line is not None or self.is_silent:
            return
        names: list[str] = []
        for part in command.named:
            target = part.field("destination") if part.kind == "file_redirect" else None
            if target is not None and part.children[0].kind in _WRITES:
                names += self.words.fields(target.text, state)
        if words and words[0].text == "tee":
            names += [field for word in words[1:] for field in self.words.fields(word.text, state)]
        lines = command.line + 1, command.end_line + 1
        self.written += [WrittenFile(self.path, *lines, name, state.cwd) for name in names]

    def given(self, redirection: ShellCommand, state: State) -> str | None:
        """What a here-document or ``<<<`` gives to a command; None if that is more than any variable takes."""
        heredoc = redirection.heredoc
        if heredoc is None:
            return self.words.text(redirection.text[3:].strip(), state) + "\n"
        text = redirection.source.text[heredoc.start : heredoc.end]
        if len(text) > LONGEST:
            return None
        text = _TABS.sub("", text) if heredoc.strips_tabs else text
        return text if heredoc.is_quoted else self.words.body(text, state)

    def run_pipeline(self, command: ShellCommand, state: State) -> bool | None:
        if not command.named:
            return True
        for part in command.named[:-1]:
            outside, self.printing = self.printing, None
            self.run(part, state.copy())
            self.printing = outside
        last, text = command.named[-1], None
        if self.printing is not None or last.kind in _READING:
            text = self.piped(command.named[:-1], state)
        if last.kind not in _READING and text is not None:
            fields = self.plain_words(last, state)
            self.print(filtered(fields, text) if fields else None)
            outside, self.printing = self.printing, None
            status = self.run(last, state.copy())
            self.printing = outside
            return status
        if last.kind not in _READING:
            self.print(None)
        return self.with_input(last, text, state.copy())

    def piped(self, parts: list[ShellCommand], state: State) -> str | None:
        """What the last of these commands prints, each of which reads what the one before prints."""
        text = self.printed_by(parts[:1], state.copy())
        for part in parts[1:]:
            fields = self.plain_words(part, state)
            text = filtered(fields, text) if fields and text is not None else None
        return text

    def plain_words(self, command: ShellCommand, state: State) -> list[str]:
        """The words of a simple command without redirections; none if it is another one."""
        if command.kind != "command" or any(part.kind in _NOT_PLAIN for part in command.words):
            return []
        return [field for part in command.words for field in self.words.fields(part.text, state)]

    def run_list(self, command: ShellCommand, state: State) -> bool | None:
        parts = command.named
        if len(parts) != 2:
            return self.block(parts, state)
        first = self.run(parts[0], state)
        operator = next((part.kind for part in command.children if part.kind in ("&&", "||")), "&&")
        wanted = operator == "&&"
        if state.ended is not None or first is (not wanted):
            self.read_aside(parts[1:], state)
            return first
        if first is not None or (self.printing is not None and wanted and parts[0].text.startswith("cd ")):
            return self.run(parts[1], state)
        before = self.printing
        after = state.copy()
        second = self.run(parts[1], after)
        self.may_have_printed(before)
        state.take(merged(after, state, self.unknowns))
        return conditions.both(first, second) if wanted else None

    def run_negated_command(self, command: ShellCommand, state: State) -> bool | None:
        return conditions.negated(self.block(command.named, state))

    def run_test_command(self, command: ShellCommand, state: State) -> bool | None:
        text = command.text
        if text.startswith("(("):
            return self.assignments.arithmetic(text[2:-2], state)
        return conditions.holds(text, state, self.words)

    def run_if_statement(self, command: ShellCommand, state: State) -> bool | None:
        """Branches as (condition, body): those before the first that is certainly taken may all be."""
        before, printed = state, self.printing
        results, is_taken = list[State](), False
        status: bool | None = None
        for condition, body in _branches(command):
            holds = True if condition is None else None if is_taken else self.block(condition, before)
            by_default = self.without_call(condition, before) if holds is None and condition and not is_taken else None
            if is_taken or before.ended is not None or holds is False or by_default is False:
                self.read_aside(body, before)
                continue
            inside = before.copy()
            status = self.block(body, inside)
            if by_default and inside.ended == "exit":  # it wants words
                continue
            holds = holds or by_default
            results.append(inside)
            is_taken = holds is True
        if not is_taken:
            results.append(before)
        if len(results) > 1:
            self.may_have_printed(printed)
        self.go_on(state, results)
        return status if is_taken and len(results) == 1 else None

    def without_call(self, condition: list[ShellCommand], state: State) -> bool | None:
        """Whether a test holds in a script that is called without words, which then takes defaults."""
        if state.positional is not None or len(condition) != 1 or condition[0].kind != "test_command":
            return None
        return conditions.holds(condition[0].text, state, self.words, is_called=False)

    def go_on(self, state: State, results: list[State]) -> None:
        """Go on with what all branches that may have run leave alike."""
        after = results[0]
        for result in results[1:]:
            after = merged(after, result, self.unknowns)
        state.take(after.copy())

    def run_case_statement(self, command: ShellCommand, state: State) -> bool | None:
        value = command.field("value")
        text = "" if value is None else self.words.text(value.text, state)
        results, is_certain, falls = list[State](), False, False
        printed, status = self.printing, None
        for item in command.named:
            if item.kind != "case_item":
                continue
            written = item.fields("value")
            commands = [part for part in item.named if part.node.id not in {pattern.node.id for pattern in written}]
            matches = False if is_certain else self.matches(text, [pattern.text for pattern in written], state)
            if matches is False and not falls:
                self.read_aside(commands, state)
                continue
            inside = results.pop() if falls else state.copy()
            status = self.block(commands, inside)
            results.append(inside)
            ends = item.children[-1].kind
            is_certain = (matches is True or falls or is_certain) and ends not in (";&", ";;&")
            falls = ends == ";&" and (matches is True or falls)
            if ends == ";;&" and matches is True:
                state.take(results.pop())
        if not is_certain:
            results.append(state)
        if len(results) > 1:
            self.may_have_printed(printed)
        self.go_on(state, results)
        return status if len(results) == 1 and is_certain else None

    def matches(self, text: str, of: list[str], state: State) -> bool | None:
        """Whether one of the patterns of a case matches."""
        found: bool | None = False
        for raw in of:
            pattern = self.words.text(raw, state)
            if set(pattern) == {"*"}:
                return True
            if not (is_known(text) and is_known(pattern)) or len(text) > 2000:
                found = None
            elif patterns.matches(text, pattern):
                return True
        return found

    def run_for_statement(self, command: ShellCommand, state: State) -> bool | None:
        variable, body = command.field("variable"), command.field("body")
        if variable is None or body is None:
            return None
        values = command.fields("value")
        items = [field for value in values for field in self.words.fields(value.text, state)]
        if not values and " in" not in command.text[: body.node.start_byte - command.node.start_byte]:
            items = self.words.fields('"$@"', state)
        if not all(map(is_known, items)):
            self.print(None)
        if not items:
            inside = state.copy()
            inside.variables[variable.text] = self.unknowns.mark(variable.text)
            self.read_aside([body], inside)
        self.turns([{variable.text: item} for item in items[:_MOST_TURNS]], body, state)
        if not all(is_known(item) for item in items):
            self.read_again(body, state)
        return True

    def read_again(self, body: ShellCommand, state: State) -> None:
        """Another turn of a loop for what it writes: how many there are is not known."""
        if self.reading is not None and state.ended is None and may_write_config(body.text):
            self.turns([{}], body, state.copy())

    def turns(self, turns: list[dict[str, str]], body: ShellCommand, state: State) -> bool:
        """Run the body of a loop with the variables of each turn; returns whether it leaves the loop for certain."""
        self.breaks.append([])
        for variables in turns:
            state.variables.update(variables)
            self.run(body, state)
            if state.ended == "continue":
                state.ended = None
            if state.ended is not None:
                break
        is_left = state.ended == "break"
        if is_left:
            state.ended = None
        for left in self.breaks.pop():
            left.ended = None
            state.take(merged(state, left, self.unknowns))
        return is_left or state.ended is not None

    def run_c_style_for_statement(self, command: ShellCommand, state: State) -> bool | None:
        body = command.field("body")
        head = command.text[: body.node.start_byte - command.node.start_byte] if body is not None else ""
        inside = head[head.find("((") + 2 : head.rfind("))")].split(";")
        if body is None or len(inside) != 3:
            return None
        self.assignments.arithmetic(inside[0], state)
        for _ in range(_MOST_TURNS):
            holds = self.assignments.arithmetic(inside[1], state) if inside[1].strip() else True
            if holds is False:
                return True
            is_left = self.turns([{}], body, state)
            if is_left or holds is None:
                self.read_again(body, state)
                return None
            self.assignments.arithmetic(inside[2], state)
        return None

    def run_while_statement(self, command: ShellCommand, state: State) -> bool | None:
        body = command.field("body")
        if body is None:
            return None
        condition = [part for part in command.named if part.node.id != body.node.id]
        text = " ".join(part.text for part in condition)
        if state.positional is None and re.search(r"\$#|\$\{#|getopts|\$\{?1\b", text):
            self.read_aside([body], state)
            return True  # the options of a script that is called without any
        is_until = command.text.startswith("until")
        for _ in range(_MOST_TURNS):
            holds = self.block(condition, state)
            holds = conditions.negated(holds) if is_until else holds
            if holds is False or state.ended is not None:
                self.read_aside([body], state)
                return True
            if holds is None:
                self.print(None)
                inside = state.copy()
                self.turns([{}], body, inside)
                self.read_again(body, inside)
                state.take(merged(inside, state, self.unknowns))
                return None
            if self.turns([{}], body, state):
                return None
        return None

    def run_function_definition(self, command: ShellCommand, state: State) -> bool | None:
        name, body = command.field("name"), command.field("body")
        if name is not None and body is not None:
            function = state.functions[name.text] = Function(body, self.path)
            if self.reading is not None and body.at is not None:
                self.reading.functions.append(function)
        return True

    def run_variable_assignment(self, command: ShellCommand, state: State) -> bool | None:
        if self.notes is not None:
            self.notes.assigned(command, state)
        name = self.assignments.assign(command.text, state)
        if name is not None:
            state.note_set(name, self.path)
        return True

    def run_variable_assignments(self, command: ShellCommand, state: State) -> bool | None:
        for part in command.named:
            self.run_variable_assignment(part, state)
        return True

    def run_unset_command(self, command: ShellCommand, state: State) -> bool | None:
        for word in command.text.split()[1:]:
            name, _, index = re.sub("['\"]", "", word).rstrip("]").partition("[")
            array, key = state.variables.get(name), count(index) if index.isdigit() else index
            if index and isinstance(array, dict) and key is not None:
                array.pop(key, None)
            elif not index and not name.startswith("-"):
                state.variables.pop(name, None)
                state.exported -= {name}
                state.unset |= {name}
        return True

    def run_declaration_command(self, command: ShellCommand, state: State) -> bool | None:
        """``export``, ``local``, ``declare``, ``readonly`` or ``typeset``."""
        if self.notes is not None:
            for part in command.named:
                self.notes.assigned(part, state)
        keyword, *rest = scanning.raw_words(command.text)
        flags = "".join(word for word in rest if word.startswith("-"))
        for written in rest:
            if written.startswith("-"):
                continue
            word = written
            if ASSIGNMENT.match(word) is None and ("$" in word or word[:1] in "'\""):  # such as `export $VARIABLES`
                fields = self.words.fields(word, state)
                for given, sign, value in (field.partition("=") for field in fields if is_known(field)):
                    if sign and given.isidentifier():
                        state.variables[given] = value
                        state.exported |= {given} if keyword == "export" else set()
                continue
            if self.frames and keyword in ("local", "declare", "typeset") and "g" not in flags:
                hidden = word.partition("=")[0]
                self.frames[-1].setdefault(hidden, state.variables.get(hidden))
            name = self.assignments.assign(word, state, is_map="A" in flags)
            if name is None and re.fullmatch(r"[A-Za-z_]\w*", word):
                name = word
                if keyword not in {"export", "readonly"} and "x" not in flags:
                    state.variables[word] = {} if "a" in flags.lower() else ""
            elif name is not None:
                state.note_set(name, self.path)
            if name is not None and (keyword == "export" or "x" in flags):
                state.exported |= {name}
        return True

    # Commands

    def run_command(self, command: ShellCommand, state: State) -> bool | None:
        return self.simple(self.in_last_line(command, state), state, None)

    def in_last_line(self, command: ShellCommand, state: State) -> list[WrittenWord]:
        """The words of a command. The parser counts the lines before it to some, which run here."""
        words = command.words
        start = 0
        for number in range(1, len(words)):
            before, after = words[number - 1], words[number]
            if {before.kind, after.kind} & {"heredoc_redirect"}:
                continue
            ends = before.command.node.start_byte + len(before.text), after.command.node.start_byte
            if "\n" in command.source.text[slice(*ends)].replace("\\\n", ""):
                self.simple(words[start:number], state, None)
                start = number
        return words[start:]

    def simple(self, words: list[WrittenWord], state: State, given: str | None) -> bool | None:
        """A command with its assignments, words and what it reads."""
        assignments, fields = list[str](), list[str]()
        if self.notes is not None:
            self.notes.command(words, state)
        for part in words:
            if part.kind == "variable_assignment" and not fields:
                assignments.append(part.text)
            elif part.kind == "herestring_redirect" or part.command.heredoc is not None:
                given = self.given(part.command, state)
            elif part.kind not in REDIRECTIONS:
                fields += self.words.fields(part.text, state)
        return self.called(assignments, fields, state, given, words[0].command.line + 1 if words else 1)

    def called(
        self, assignments: list[str], fields: list[str], state: State, given: str | None, line: int
    ) -> bool | None:
        """Assign, for good or for one command, and call that."""
        line = self.line if self.line is not None else line
        if not fields:
            for text in assignments:
                name = self.assignments.assign(text, state)
                if name is not None:
                    state.note_set(name, self.path)
            return True
        if not assignments:
            return self.call(fields, state, given, line)
        before, exported = dict(state.variables), state.exported
        names = [name for text in assignments if (name := self.assignments.assign(text, state)) is not None]
        state.exported |= {*names}
        set_in, state.set_in = state.set_in, {**state.set_in, **dict.fromkeys(names, self.path)}
        status = self.call(fields, state, given, line)
        for name in names:
            restore(state, name, before.get(name))
        state.exported, state.set_in = exported, set_in
        return status

    def call(self, fields: list[str], state: State, given: str | None, line: int) -> bool | None:
        """A function, a builtin, or a program that starts."""
        name = fields[0]
        if name in state.functions:
            return self.function(state.functions[name], fields, state)
        if name == "eval":
            return self.evaluate(" ".join(fields[1:]), state, line)
        if name in ("source", "."):
            return self.source(fields[1:], state)
        if name in ("command", "builtin", "exec") and len(fields) > 1 and not fields[1].startswith("-"):
            status = self.call(fields[1:], state, given, line)
            if name == "exec":
                state.ended = state.ended or "exit"
            return status
        texts = handed_texts(fields, given)
        if texts:
            return self.handed(texts, fields, state, line)
        if name in {"break", "continue"}:
            state.ended = name
            if name == "break" and self.breaks:
                self.breaks[-1].append(state.copy())
            return True
        self.print_of(fields, state, given)
        builtin = builtins.BUILTINS.get(name)
        if builtin is not None:
            return builtin(fields[1:], state, given, self.words)
        self.script(fields, state)
        self.start(fields, state, line)
        return None

    def start(self, fields: list[str], state: State, line: int) -> None:
        """Note a program that starts; one with the name of an option is what is left of the one before."""
        if _OPTION.match(fields[0]) and self.started and self.started[-1].path == self.path:
            before = self.started[-1]
            self.started[-1] = before._replace(cut_off=(*before.cut_off, *fields))
        elif not self.is_silent:
            environment = {key: state.text(key) or "" for key in sorted(state.exported) if key in state.variables}
            origins = ((key, state.set_in.get(key, self.path)) for key in environment)
            set_in = tuple((key, path) for key, path in origins if path != self.path)
            one = StartedProgram(self.path, line, fields, environment, state.cwd, self.redirections, set_in=set_in)
            self.started.append(one)

    def function(self, function: Function, fields: list[str], state: State) -> bool | None:
        positional = state.positional
        is_handed_on = positional is None and fields[1:] == [self.unknowns.mark("$@")]
        state.positional = None if is_handed_on else fields[1:]
        self.frames.append({})
        outside, self.path = self.path, function.path
        if self.reading is not None:
            self.reading.called.add(function.body.at)
        with self.within():
            status = self.run(function.body, state)
        self.path = outside
        for name, value in self.frames.pop().items():
            restore(state, name, value)
        state.positional = positional
        if state.ended == "return":
            state.ended = None
        return status

    def evaluate(self, text: str, state: State, line: int) -> bool | None:
        """Run a text that the script has put together."""
        outside, self.line = self.line, line
        with self.within():
            status = self.block(parse(text).named, state)
        self.line = outside
        return status

    def handed(self, texts: list[HandedText], fields: list[str], state: State, line: int) -> bool | None:
        """Texts that a command hands to a shell of its own: ``bash -c TEXT NAME WORD...``."""
        status: bool | None = None
        begin = len(self.started)
        for one in texts:
            if posixpath.basename(fields[0]) == "xargs":
                one = one._replace(text=one.text.replace("{}", self.unknowns.mark("{}")))  # noqa: PLW2901
            inside = self.shell_within(state, fields, one.text, has_environment=one.environment)
            inside.positional = one.words[1:]
            if not one.is_here:
                inside.cwd = self.unknowns.mark("PWD")
            status = self.evaluate(one.text, inside, line)
        if posixpath.basename(fields[0]) in SHELLS:
            return status
        self.put_around(begin, Around(tuple(fields), texts[0].text))
        self.start(fields, state, line)
        return None

    def script(self, fields: list[str], state: State) -> None:
        """Follow a script of the project that a command may run."""
        at = called_script(fields)
        path = self.file(fields[at], state) if at is not None else None
        text = self.read(path) if path is not None and path not in self.callers and not self.is_silent else None
        if at is None or path is None or text is None or not self.enters(text):
            return
        self.calls[path] = self.calls.get(path, 0) + 1
        if self.calls[path] > _MOST_CALLS:
            return
        begin = len(self.started)
        inside = self.shell_within(state, fields, text)
        inside.positional = fields[at + 1 :] or None
        inside.variables["0"] = inside.variables["BASH_SOURCE"] = self.unknowns.mark("$0", path)
        outside, self.path = (self.path, self.line), path
        self.line = None
        self.callers.append(path)
        with self.within():
            self.block(parse(without_marks(text)).named, inside)
        self.callers.pop()
        self.path, self.line = outside
        self.put_around(begin, Around(tuple(fields), text))

    def shell_within(self, state: State, fields: list[str], text: str, *, has_environment: bool = True) -> State:
        """The shell that a command starts for a text."""
        inside = state.copy()
        inside.exported = inside.exported if has_environment else frozenset()
        inside.variables = {name: value for name, value in inside.variables.items() if name in inside.exported}
        inside.functions = {}
        if posixpath.basename(fields[0]) == "sbatch":
            job = with_options(allocation(text), fields[1:]).variables
            inside.variables |= {
                name: self.unknowns.mark(name) if value is None else value for name, value in job.items()
            }
            inside.exported |= job.keys()
        srun = next((at for at, word in enumerate(fields) if posixpath.basename(word) == "srun"), None)
        if srun is not None and chooses_tasks(fields[srun + 1 :]):
            inside.variables |= {name: self.unknowns.mark(name) for name in _OF_STEP if name in inside.variables}
        return inside

    def put_around(self, begin: int, around: Around) -> None:
        """Note of the programs that have started since then what they run within."""
        self.started[begin:] = [one._replace(around=(around, *one.around)) for one in self.started[begin:]]

    def file(self, name: str, state: State) -> str | None:
        """The place in the project of a file that a command names."""
        path, cwd = self.unknowns.path(name), self.unknowns.path(state.cwd)
        if path is None or cwd is None:
            return None
        path = posixpath.normpath(posixpath.join(cwd, path))
        return self.read.place(path) if isinstance(self.read, ProjectTexts) else path

    def source(self, fields: list[str], state: State) -> bool | None:
        """``source FILE``, if the project has it."""
        path = self.file(fields[0], state) if fields else None
        text = self.read(path) if path is not None else None
        if path is None or text is None:
            return None
        outside, self.path = self.path, path
        positional = state.positional
        state.positional = fields[1:] or positional
        with self.within():
            status = self.block(parse(without_marks(text)).named, state)
        self.path = outside
        state.positional = positional if fields[1:] else state.positional
        if state.ended == "return":
            state.ended = None
        return status

    def output(self, text: str, state: State, at: int | None) -> str:
        """What ``$(text)`` gives, with a mark if that is unknown; ``at`` is where the text begins in the script."""
        mark = self.unknowns.mark(f"$({text.strip()})")
        commands = parse(text, at).named
        if self.reading is not None and at is not None and may_write_config(text):
            self.printed_by(commands, state.copy())
        printed = self.printed_by(commands, state.copy())
        return mark if printed is None else printed.rstrip("\n")

    def printed_by(self, commands: list[ShellCommand], state: State) -> str | None:
        """What commands print in a shell of its own; None if that is unknown. None of them starts a training."""
        outside, self.printing = self.printing, list[str]()
        self.is_silent += 1
        try:
            with self.within():
                self.block(commands, state)
            return None if self.printing is None else "".join(self.printing)
        finally:
            self.is_silent -= 1
            self.printing = outside

    def print(self, text: str | None) -> None:
        """Note what a command prints; nothing is known any more if that is unknown."""
        if self.printing is not None:
            is_much = len(self.printing) > _MOST_PRINTED or sum(map(len, self.printing)) > LONGEST
            self.printing = None if text is None or is_much else [*self.printing, text]

    def print_of(self, fields: list[str], state: State, given: str | None) -> None:
        """Note what a command prints."""
        if self.printing is None:
            return
        text = filtered(fields, given) if given is not None else None
        if text is None and fields[0] not in _PRINT_NOTHING:
            text = builtins.printed(fields, state, self.words)
            if text is not None and not (fields[0] == "printf" or fields[1:2] == ["-n"]):
                text += "\n"
        self.print("" if fields[0] in _PRINT_NOTHING or fields[:2] == ["printf", "-v"] else text)

    def may_have_printed(self, before: list[str] | None) -> None:
        """Forget what was printed if what ran since may not have run."""
        if self.printing is not None and before is not None and len(self.printing) > len(before):
            self.printing = None

    def within(self) -> _Depth:
        """A text within the one before."""
        return _Depth(self)


class _Depth:
    """Counts how far texts are within each other."""

    def __init__(self, interpreter: _Interpreter) -> None:
        self._interpreter = interpreter

    def __enter__(self) -> None:
        self._interpreter.depth += 1
        if self._interpreter.depth > _MOST_DEPTH:
            raise _EndlessError

    def __exit__(self, *_: object) -> None:
        self._interpreter.depth -= 1


def _program(command: ShellCommand) -> str:
    """The name of a program as it is written without quotes; of several commands that of the last."""
    while command.kind in ("list", "pipeline", "redirected_statement") and command.named:
        command = command.field("body") or command.named[-1]
    name = command.field("name")
    return "" if name is None else re.sub("['\"]", "", name.text)


def _words_behind(redirection: ShellCommand) -> list[ShellCommand]:
    """The words of a command behind the file of a redirection, which the parser counts to that: ``>log --fp16``."""
    if redirection.kind != "file_redirect":
        return []
    words = redirection.fields("destination")[1:]
    return [word for word in words if "\n" not in _up_to(redirection, word)]  # else those of the next command


def _redirection(command: ShellCommand) -> str:
    """A redirection as it is written, with the first word behind its operator only."""
    first, *_ = [*command.fields("destination"), command]
    return "".join(_up_to(command, first).split())


def _up_to(command: ShellCommand, word: ShellCommand) -> str:
    """The text of a command up to the end of one of its words, in one line."""
    text = command.source.text[command.node.start_byte : word.node.end_byte]
    return text.replace("\\\n", "")


def _branches(command: ShellCommand) -> list[tuple[list[ShellCommand] | None, list[ShellCommand]]]:
    """The conditions of an ``if`` with what each leads to; None is ``else``."""
    found: list[tuple[list[ShellCommand] | None, list[ShellCommand]]] = []
    condition, body, in_condition = list[ShellCommand](), list[ShellCommand](), True
    for part in command.children:
        if part.kind in ("elif_clause", "else_clause", "fi"):
            break
        if part.kind == "then":
            in_condition = False
        elif part.node.is_named:
            (condition if in_condition else body).append(part)
    found.append((condition, body))
    for part in command.named:
        if part.kind == "elif_clause":
            found += _branches(part)
        elif part.kind == "else_clause":
            found.append((None, part.named))
    return found
