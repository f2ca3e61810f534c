"""Whether a file of a project creates another one, as far as its text shows around the name.

A name that stands where something only reads it, such as behind ``--deepspeed``, makes nothing. Anywhere else it may:
as the target of a rule, behind ``>`` or ``cp``, in ``open(name, "w")``. So what is not understood counts as making.
"""

from __future__ import annotations

import ast
import json
import posixpath
import re
from typing import TYPE_CHECKING, NamedTuple

from ds_lint.launches.launchers import by_module, by_program
from ds_lint.launches.options import CONFIG_FLAGS
from ds_lint.source.python_names import ModuleNames, dotted_name
from ds_lint.source.python_syntax import parsed

if TYPE_CHECKING:
    from collections.abc import Iterator

_FLAGS = (
    *CONFIG_FLAGS,
    "accelerate_config",
    "config",
    "config_file",
    "deepspeed_config_file",
    "deepspeed_hostfile",
    "hostfile",
)
_BEHIND_FLAG = re.compile(
    r"(?:^|[\s\"'(\[,=])(?:-H|--?(?:"
    + "|".join(re.escape(one).replace("_", "[_-]") for one in _FLAGS)
    + r"))[\"']?(?:\s*[=,]\s*|\s+)[\"']?[^\s\"']*$"
)
_KEYWORDS = ("config", "config_params", "deepspeed", "deepspeed_config_file", "deepspeed_hostfile", "hf_ds_config")
_BEHIND_KEYWORD = re.compile(r"\b(?:" + "|".join(_KEYWORDS) + r")[\"']?\s*[:=]\s*[rf]?[\"']?[^\s\"',]*$")
_VALUE = r"""("[^"]*"|'[^']*'|\([^()]*\)|[^\s;&|<>()]*)\s*(?:\#.*)?"""
_ASSIGNMENT = re.compile(
    rf"\s*(?:(?:export|local|readonly|override|declare|ENV|ARG)\s+(?:-\w+\s+)*)*([A-Za-z_]\w*)\s*[:?+]{{0,2}}=\s*{_VALUE}"
)
_LOOP = re.compile(r"\s*for\s+([A-Za-z_]\w*)\s+in\b([^<>]*)")
_VARIABLE = re.compile(r"[A-Za-z_]\w*\+?=|(?:export|local|readonly|declare)$|-$")
_QUOTED_VALUE = re.compile(r"(\b[A-Za-z_]\w*\+?=)[\"'(]")
_PRINTS = re.compile(r"\s*@?(?:echo|printf)\b[^>|]*")
_COMMANDS = re.compile(r"&&|\|\||[;|&]|\b(?:then|do|else)\b|^\s*[^\s()]+\)")
_PYTHON = re.compile(r"python[\d.]*")
_CREATION = re.compile(
    r"\b(?:cop(?:y|ies)|cp|creat\w*|download\w*|generat\w*|make|mv|place|put|renam\w*|save\w*|wget|write|writes)\b|>",
    re.IGNORECASE,
)
DOCUMENTATION = (".md", ".rst", ".txt", ".markdown")
_PATTERN = re.compile(r"(?:[\w./-]|%\w|%|\$\{[^{}]*\}|\$\w+|\{[^{}]*\})+$")
_LONGEST = 200  # characters of one
_HOLE = re.compile(r"\$\{[^{}]*\}|\$\w+|\{[^{}]*\}|%\w?")
_NAMES = re.compile(r"[^\s/\"'=:;,()]+")
_FEWEST_LETTERS = 3  # of a pattern that tells which file is meant
# What brings files that no text of the project names.
_BRINGS = re.compile(
    r"^[ \t!]*(?:sudo[ \t]+)?make[ \t\n]|%cd\b|"
    r"\b(?:git[ \t]+(?:clone|pull|checkout|submodule)|tar[ \t]+-?\w*x|unzip|7z[ \t]+x|gunzip|rsync|scp|rclone|gdown|"
    r"dvc[ \t]+(?:checkout|get|import|pull|repro)|aws[ \t]+s3|gsutil|gcloud[ \t]+storage|azcopy|hdfs[ \t]+dfs|"
    r"(?:hf|huggingface-cli|modelscope)[ \t]+download|kaggle[ \t]+(?:competitions|datasets)|"
    r"snapshot_download|hf_hub_download|urlretrieve|extractall|drive\.mount|os\.chdir|upload\()",
    re.MULTILINE,
)


class _NamePlace(NamedTuple):
    """Where a line has the name, or a variable with it."""

    start: int
    end: int


class SoughtFile(NamedTuple):
    """A file that may be made, by its name without folders; ``reader`` is the script of the launch that reads it."""

    name: str
    reader: str = ""


def brings_files(text: str) -> bool:
    """Whether a text has a command after which there may be any file."""
    return _BRINGS.search(text) is not None


def has_name(text: str, name: str) -> bool:
    """Whether a text has the name of a file, or a pattern with variables that may be it."""
    return name in text or any(True for _ in _patterns(text, name))


def _patterns(text: str, name: str) -> Iterator[_NamePlace]:
    """The places of words with variables that may be a name."""
    _, ending = posixpath.splitext(name)
    position = text.find(ending) if ending else -1
    while position >= 0:
        end = position + len(ending)
        found = _PATTERN.search(text, max(0, position - _LONGEST), end)
        if found is not None and _HOLE.search(found[0]) is not None and not text[end : end + 1].isalnum():
            parts = _HOLE.split(found[0].rpartition("/")[2])
            letters = sum(map(len, parts)) - len(ending)
            if len(parts) > 1 and letters >= _FEWEST_LETTERS and re.fullmatch(".*".join(map(re.escape, parts)), name):
                yield _NamePlace(found.start(), end)
        position = text.find(ending, end)


def may_make(path: str, text: str, sought: SoughtFile) -> bool:
    """Whether a file with this text may make another one."""
    if path.endswith(DOCUMENTATION):
        return any(_CREATION.search(line) for line in text.split("\n") if sought.name in line)
    if path.endswith(".ipynb"):
        return _in_lines(_cells(text), sought)
    if path.endswith(".py"):
        return _in_python(text, sought)
    return _in_lines(text, sought)


def _cells(text: str) -> str:
    try:
        cells = json.loads(text).get("cells", [])
        found = ["".join(one["source"]) for one in cells if one.get("cell_type") == "code"]
    except (ValueError, AttributeError, KeyError, TypeError):
        return text
    return "\n".join(found)


# In the shell, and in what holds it.


def _in_lines(text: str, sought: SoughtFile) -> bool:
    lines = text.replace("\\\r\n", " ").replace("\\\n", " ").split("\n")
    word = re.compile(rf"(?<![\w.-]){re.escape(sought.name)}(?![\w-]|\.\w)")
    known: dict[str, None] = {}  # variables that have the name
    while True:
        before = len(known)
        variable = re.compile(rf"\$[({{]?(?:{'|'.join(known)})\b[^\s\"';]*") if known else None
        for line in lines:
            if line.lstrip().startswith(("#", "//")):
                continue
            places = [_NamePlace(*one.span()) for one in word.finditer(line)]
            places += _patterns(line, sought.name)
            places += [_NamePlace(*one.span()) for one in variable.finditer(line)] if variable is not None else []
            for place in places:
                if _is_only_read(line, place, sought.reader):
                    continue
                variable_name = _assigned(line, place)
                if variable_name is None:
                    return True
                known[variable_name] = None
        if len(known) == before:
            return False


def _assigned(line: str, place: _NamePlace) -> str | None:
    """The variable that gets a name, in a command of its own or in a loop."""
    before, after = _COMMANDS.split(line[: place.start])[-1], _COMMANDS.split(line[place.end :])[0]
    command = before + line[place.start : place.end] + after
    found = _ASSIGNMENT.fullmatch(command) or _LOOP.fullmatch(command)
    return found[1] if found is not None and len(before) >= found.start(2) else None


def _is_only_read(line: str, place: _NamePlace, reader: str) -> bool:
    """Whether a name in a line is only read: behind a flag, as the program that starts, or printed."""
    before = line[: place.start]
    if _BEHIND_KEYWORD.search(before) or _PRINTS.fullmatch(line):
        return True
    command = _QUOTED_VALUE.sub(r"\1 ", _COMMANDS.split(before)[-1])
    words = [word.strip("\"'(),[]@{}!") for word in command.split()]
    if words and not before[-1:].isspace():
        words.pop()  # the start of the name itself
    programs = [number for number, word in enumerate(words) if _starts(word)]
    behind = words[programs[-1] + 1 :] if programs else []
    scripts = [word for word in behind if word.endswith(".py")]
    if _BEHIND_FLAG.search(before):
        if not programs:  # the flag is in a variable, or behind one
            first = next((word for word in words if not _VARIABLE.match(word)), "-")
            return first.startswith(("-", "$"))
        is_plain = _PYTHON.fullmatch(posixpath.basename(words[programs[-1]])) is not None
        is_other = bool(scripts) and posixpath.basename(scripts[0]) != reader
        return "config" not in behind[:1] and not (is_plain and is_other)
    if not programs:
        return False
    return not scripts or (behind[-1] == scripts[0] and not line[place.start : place.end].endswith(".py"))


def _starts(word: str) -> bool:
    name = posixpath.basename(word)
    return name in by_program() or word in by_module() or _PYTHON.fullmatch(name) is not None


# In Python.

_EXISTENCE = ("exists", "isfile", "is_file")


def _in_python(text: str, sought: SoughtFile) -> bool:
    name = sought.name
    try:
        names = ModuleNames(parsed(text))
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return True
    for node in names.every(ast.Constant):
        if not (isinstance(node.value, str) and name in node.value and name in _NAMES.findall(node.value)):
            continue
        if not _only_reads(node, node.value, names, sought, set()):
            return True
    for joined in names.every(ast.JoinedStr):
        source = ast.unparse(joined)
        if any(True for _ in _patterns(source, name)) and not _only_reads(joined, "", names, sought, set()):
            return True
    return False


def _only_reads(node: ast.AST, text: str, names: ModuleNames, sought: SoughtFile, seen: set[str]) -> bool:
    """Whether an expression with the name is only given to what reads the file."""
    parent = names.parents.get(node)
    if isinstance(parent, ast.Expr):
        return True
    if isinstance(parent, ast.keyword):
        if parent.arg in ("description", "epilog", "help", "usage", *_KEYWORDS):
            return True
        call = names.parents.get(parent)
        if parent.arg == "default" and isinstance(call, ast.Call):
            first = call.args[0] if call.args else None
            option = first.value if isinstance(first, ast.Constant) else ""
            return str(option).lstrip("-").replace("-", "_") in _FLAGS
        return False
    if isinstance(parent, (ast.List, ast.Tuple)):
        texts = [
            one.value if isinstance(one, ast.Constant) and isinstance(one.value, str) else "?" for one in parent.elts
        ]
        index = next((number for number, one in enumerate(parent.elts) if one is node), 0)
        line = " ".join([*texts[:index], text or sought.name])
        return _is_only_read(line, _NamePlace(len(line) - len(text or sought.name), len(line)), sought.reader)
    if text and any(map(str.isspace, text.strip())):
        return not _in_lines(text, sought)
    if isinstance(parent, (ast.Assign, ast.AnnAssign)) and parent.value is node:
        targets = parent.targets if isinstance(parent, ast.Assign) else [parent.target]
        return all(_reads_name(target, names, sought, seen) for target in targets)
    if isinstance(parent, ast.Call):
        return _is_read_by(parent, node, names, sought, seen)
    if isinstance(parent, (ast.BinOp, ast.JoinedStr, ast.IfExp)):
        return _only_reads(parent, "", names, sought, seen)
    return isinstance(parent, ast.Compare)


def _reads_name(target: ast.expr, names: ModuleNames, sought: SoughtFile, seen: set[str]) -> bool:
    found = dotted_name(target)
    if not found:
        return False
    if found in seen:
        return True
    seen.add(found)
    return all(_only_reads(use, "", names, sought, seen) for use in names.uses.get(found, []))


def _is_read_by(call: ast.Call, node: ast.AST, names: ModuleNames, sought: SoughtFile, seen: set[str]) -> bool:
    function = dotted_name(call.func)
    last = function.rpartition(".")[2] or getattr(call.func, "attr", "")
    if last == "open":
        modes = [*call.args[1:2], *(key.value for key in call.keywords if key.arg == "mode")]
        texts = [one.value for one in modes if isinstance(one, ast.Constant)]
        return len(texts) == len(modes) and not any(set("wax+") & set(str(mode)) for mode in texts)
    if last in ("join", "Path", "str", "abspath", "fspath", "realpath", "expanduser", "joinpath"):
        return _only_reads(call, "", names, sought, seen)
    return last in ("HfDeepSpeedConfig", "HfTrainerDeepSpeedConfig", "DeepSpeedPlugin", "print", "info")
