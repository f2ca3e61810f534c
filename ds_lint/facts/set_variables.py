"""The environment variables that a launch and its script set, each with its place."""

from __future__ import annotations

import posixpath
import re
from typing import TYPE_CHECKING

from ds_lint.facts.set_variable import SetVariable
from ds_lint.knowledge.environment import may_be_of_library
from ds_lint.launches.surroundings import OF_RANKS
from ds_lint.source.tree import Span

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from ds_lint.facts.launched import LaunchFacts
    from ds_lint.launches.word import Word
    from ds_lint.source.document import Document

_PAIR = re.compile(r"([A-Za-z_]\w*)=(.*)", re.DOTALL)
_FORWARDS = {"mpirun": ("-x",), "mpiexec": ("-x",), "docker": ("-e", "--env"), "podman": ("-e", "--env")}
_EXPORTS = re.compile(r"^#SBATCH[ \t]+--export[= \t]+(\S+)", re.MULTILINE)


def set_variables(launch: LaunchFacts, read: Callable[[str], Document | None]) -> list[SetVariable]:
    """Those that may be of a library; ``read`` gives a file of the project that the launch sources."""
    in_script = list(_of_script(launch))
    replaced = {one.name for one in in_script if not one.is_default}
    found = [
        one._replace(value=None) if one.name in replaced else one
        for one in (*_of_file(launch, read), *_of_launch(launch, read))
    ]
    return list({(one.name, one.is_in_script): one for one in (*found, *in_script)}.values())


def _counts(name: str) -> bool:
    """Whether a finding may be about a variable: its name is that of a library or of a rank, or close to one."""
    return name in OF_RANKS or may_be_of_library(name)


def _of_launch(launch: LaunchFacts, read: Callable[[str], Document | None]) -> Iterator[SetVariable]:
    command, document = launch.launch, launch.document
    for name, value in command.environment.items():
        if _counts(name):
            place = dict(command.set_in).get(name)
            file = document if place is None else read(place)
            span = None if file is None else _before(name, file, launch.place.end if file is document else None)
            if file is not None and span is not None:
                yield SetVariable(name, value, file, span)
    for name, value in _of_words(command.command):
        span = _behind(name, document, launch.place.start)
        if _counts(name) and span is not None:
            yield SetVariable(name, value, document, span)
    for match in _EXPORTS.finditer(document.text):
        for pair in re.finditer(r"([A-Za-z_]\w*)=([^,]*)", match[1]):
            if _counts(pair[1]):
                start = match.start(1) + pair.start()
                yield SetVariable(pair[1], pair[2], document, Span(start, start + len(pair[1])))


def _of_file(launch: LaunchFacts, read: Callable[[str], Document | None]) -> Iterator[SetVariable]:
    """Those of the file that ``deepspeed`` passes to all nodes: ``main`` in deepspeed/launcher/runner.py."""
    command = launch.launch
    name = command.environment.get("DS_ENV_FILE", ".deepspeed_env")
    if command.launcher != "deepspeed" or command.nodes == 1 or name is None or command.cwd is None:
        return
    file = read(posixpath.normpath(posixpath.join(command.cwd, name)))
    for match in re.finditer(r"^([A-Za-z_]\w*)=(.*)$", "" if file is None else file.text, re.MULTILINE):
        if file is not None and _counts(match[1]):
            yield SetVariable(match[1], match[2].strip(), file, Span(*match.span(1)))


def _of_words(words: list[Word]) -> Iterator[tuple[str, Word]]:
    """The variables in the words of a command: after ``env``, and in options of what starts it."""
    options: tuple[str, ...] = ()
    is_env, before = False, ""
    for word in words:
        pair = _PAIR.fullmatch(word or "")
        name = posixpath.basename(word or "")
        if word is None:
            before = ""
            continue
        if pair is not None and (is_env or before in options):
            yield pair[1], pair[2]
        elif word.startswith(("--env=", "--export=")) and options:
            for part in word.partition("=")[2].split(","):
                inner = _PAIR.fullmatch(part)
                if inner is not None:
                    yield inner[1], inner[2]
        elif name == "env":
            is_env = True
        elif name in _FORWARDS or name == "srun":
            options += _FORWARDS.get(name, ("--export",))
        elif is_env and not word.startswith("-"):
            is_env = False
        if word.endswith(".py"):
            return
        before = word


def _of_script(launch: LaunchFacts) -> Iterator[SetVariable]:
    document = launch.script_document
    for one in launch.script.environment if launch.script is not None and document is not None else ():
        if one.name is None or one.is_removed or document is None or not may_be_of_library(one.name):
            continue
        span = _in_line(one.name, document, one.line)
        if span is not None:
            is_set = one.is_default and one.name in launch.launch.environment
            yield SetVariable(one.name, None if is_set else one.value, document, span, True, one.is_default)


def _places(name: str, text: str) -> Iterator[Span]:
    for match in re.finditer(rf"(?<![\w$.\-{{]){re.escape(name)}(?=['\"]?\]?[ \t]*(?:[:?+]?=|:|,)|[ \t]+\S)", text):
        line = text[text.rfind("\n", 0, match.start()) + 1 : match.start()]
        if not line.lstrip().startswith("#"):
            yield Span(match.start(), match.end())


def _before(name: str, document: Document, end: int | None) -> Span | None:
    """Where a variable is set last before an offset."""
    places = list(_places(name, document.text))
    before = [one for one in places if end is None or one.start <= end]
    return before[-1] if before else next(iter(places), None)


def _behind(name: str, document: Document, start: int) -> Span | None:
    """Where a command sets a variable."""
    return next((one for one in _places(name, document.text) if one.start >= start), None)


def _in_line(name: str, document: Document, number: int) -> Span | None:
    """Where the name is in a line of Python, or in the lines after it that belong to the same call."""
    start = 0
    for _ in range(number - 1):
        start = document.text.find("\n", start) + 1
    at = document.text.find(name, start)
    return Span(at, at + len(name)) if at >= 0 else None
