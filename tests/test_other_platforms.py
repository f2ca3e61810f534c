"""Windows and macOS, as far as a machine with Linux can show it: the same output without what POSIX alone has."""

from __future__ import annotations

import ast
import ctypes
import importlib.metadata
import json
import ntpath
import os
import shutil
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace

import pygls.uris
import pytest

from ds_lint.facts import cgroups, gpu, host
from ds_lint.lsp.documents import OpenDocuments
from ds_lint.output import sarif, terminal
from ds_lint.output.project_root import Root
from ds_lint.output.text import slashed
from ds_lint.project import globs

ROOT = Path(__file__).parent.parent
BROKEN = ROOT / "examples" / "broken.json"
_STANDARD = ("os", "signal", "time", "socket", "select")
_MODULES = ("fcntl", "grp", "pty", "pwd", "resource", "syslog", "termios", "tty", "_posixsubprocess")


def typeshed(module):
    """The stub of a module of the standard library."""
    folder = Path(importlib.metadata.distribution("mypy").locate_file("mypy/typeshed/stdlib"))
    found = folder / f"{module}.pyi"
    return ast.parse((found if found.exists() else folder / module / "__init__.pyi").read_text(encoding="utf-8"))


def names_in(body):
    for node in body:
        match node:
            case ast.FunctionDef(name=name) | ast.ClassDef(name=name) | ast.AnnAssign(target=ast.Name(id=name)):
                yield name
            case ast.Assign(targets=[ast.Name(id=name)]):
                yield name
            case ast.ImportFrom(names=names):
                yield from (one.asname or one.name for one in names)
            case ast.If():
                yield from names_in([*node.body, *node.orelse])


def on_windows(body):
    """The names that a stub gives on Windows: what is under another platform is left out."""
    for node in body:
        if isinstance(node, ast.If) and "sys.platform" in (test := ast.unparse(node.test)):
            is_there = "== 'win32'" in test or ("!= " in test and "!= 'win32'" not in test)
            yield from on_windows(node.body if is_there else node.orelse)
            if not is_there and " and " in test:
                continue
        elif isinstance(node, ast.If):
            yield from on_windows([*node.body, *node.orelse])
        else:
            yield from names_in([node])


def absent(module):
    """What a module has on Linux and not on Windows."""
    stub = typeshed(module).body
    return sorted(set(names_in(stub)) - set(on_windows(stub)))


@pytest.fixture(scope="module")
def windows():
    """The environment of a process that gets what Windows has, with the encoding of a pipe there."""
    lists = "\n".join([*(f"{one} {','.join(absent(one))}" for one in _STANDARD), f"modules {','.join(_MODULES)}"])
    return {
        "PYTHONPATH": os.pathsep.join([str(ROOT / "tests" / "without_posix"), str(ROOT)]),
        "DS_TEST_ABSENT": lists,
        "PYTHONWARNDEFAULTENCODING": "1",
    }


def ran(arguments, cwd, environment=(), stdin=b""):
    """What a command line gives: the status, and the bytes of both outputs."""
    usual = {name: value for name, value in os.environ.items() if not name.startswith(("PYTHON", "DS_LINT", "GITHUB"))}
    return subprocess.run(
        [sys.executable, "-m", "ds_lint", *arguments],
        cwd=cwd, input=stdin, capture_output=True, timeout=120, check=False,
        env={**usual, "PYTHONPATH": str(ROOT), **dict(environment)},
    )  # fmt: skip


def test_names_of_posix_are_those_of_typeshed():
    found = {one: absent(one) for one in _STANDARD}
    assert {"fork", "geteuid", "getuid", "fchown", "killpg", "statvfs", "sysconf", "uname"} <= set(found["os"])
    assert {"SIGKILL", "SIGHUP", "SIGALRM", "setitimer", "pthread_sigmask"} <= set(found["signal"])
    assert not {"getpid", "kill", "replace", "link", "chmod", "O_BINARY", "startfile"} & set(found["os"])
    assert not {"SIGTERM", "SIGINT", "signal"} & set(found["signal"])


COMMANDS = {
    "check": ["check", "broken.json"],
    "sarif": ["check", "--output-format", "sarif", "."],
    "fix": ["check", "broken.json", "--fix", "--unsafe-fixes"],
    "diff": ["check", "broken.json", "--diff"],
    "a report in a file": ["check", "broken.json", "--output-format", "json", "--output-file", "report.json"],
    "explain a key": ["explain", "zero_optimization.stage"],
    "rules": ["rules"],
    "effective": ["effective", "clean.json", "--stack", "deepspeed"],
    "a page": ["memory", "clean.json", "--parameters", "7B", "--world-size", "8", "--plot", "memory.html"],
    "memory": ["memory", "clean.json", "--parameters", "7B", "--world-size", "8", "--here", "--plot", "-"],
    "convert": ["convert", "clean.json", "--to", "fsdp"],
    "upgrade": ["upgrade", "clean.json", "--from", "0.16.9"],
    "init": ["init", "--stage", "3", "--output-file", "new.json"],
    "doctor": ["doctor", "train.log"],
    "settings": ["check", "--show-settings"],
}


def lint(folder, arguments, environment=(), stdin=b"", files=()):
    """The status of a command, what it prints, and the files of its folder afterwards."""
    shutil.rmtree(folder, ignore_errors=True)  # the same path, which reports name
    folder.mkdir()
    for name, content in {
        "broken.json": BROKEN.read_bytes(),
        "clean.json": (ROOT / "examples" / "clean.json").read_bytes(),
        "train.log": b"RuntimeError: CUDA out of memory. Tried to allocate 2.00 GiB\n",
        **dict(files),
    }.items():
        (folder / name).write_bytes(content)
    result = ran(arguments, folder, environment, stdin)
    assert b"Traceback" not in result.stderr, result.stderr.decode()
    left = {one.name: one.read_bytes() for one in sorted(folder.iterdir())}
    return result.returncode, result.stdout.decode(), result.stderr.decode(), left


@pytest.mark.parametrize("name", COMMANDS)
def test_a_command_needs_nothing_of_posix(tmp_path, windows, name):
    """A pipe of Windows has another encoding and other line ends, and what is printed is the same anyway."""
    folder = tmp_path / "project"
    here = lint(folder, COMMANDS[name])
    there = lint(folder, COMMANDS[name], windows)
    assert here[0] in (0, 1), here[2]
    assert there == here


def test_standard_input_and_line_ends_stay_as_they_are(tmp_path, windows):
    text = BROKEN.read_bytes().replace(b"\n", b"\r\n")
    fixed = [lint(tmp_path / "project", ["check", "-", "--fix"], environment, text)[1] for environment in ({}, windows)]
    assert fixed[0] == fixed[1]
    assert '"gradient_clipping": 1.0,\r\n' in fixed[1]
    files = lint(tmp_path / "project", ["check", "a.json", "--fix"], windows, files=[("a.json", text)])[3]
    assert b'"gradient_clipping": 1.0,\r\n' in files["a.json"]
    assert files["a.json"].count(b"\n") == files["a.json"].count(b"\r\n")


def test_what_no_code_page_has_is_printed(tmp_path, windows):
    config = '{"zero_optimization": {"st\u00e4ge\u2265\u6587": 3}}'.encode()
    status, out, _, _ = lint(tmp_path / "project", ["check", "a.json"], windows, files=[("a.json", config)])
    assert status == 1
    assert "st\u00e4ge\u2265\u6587" in out
    own = {**windows, "PYTHONIOENCODING": "cp1252"}  # what the user asks for
    result = ran(["check", "a.json"], tmp_path / "project", own)
    assert "st\u00e4ge\\u2265\\u6587".encode("cp1252") in result.stdout


@pytest.mark.parametrize("words", [["check", "clean.json", "--smoke"], ["smoke", "--", "python", "train.py"]])
def test_training_runs_say_what_they_need(tmp_path, windows, words):
    status, out, err, _ = lint(tmp_path / "project", words, windows)
    assert (status, out) == (2, "")
    assert err == (
        "ds-lint: training runs need Linux or macOS, where ds-lint forks their ranks; on Windows, start ds-lint in "
        "WSL 2\n"
    )


def test_the_language_server_answers(tmp_path, windows):
    """An editor on Windows opens a text with mistakes, and gets them."""
    uri = (tmp_path / "ds.json").as_uri()
    text = BROKEN.read_text(encoding="utf-8")
    document = {"uri": uri, "languageId": "json", "version": 1, "text": text}
    told = [
        {"id": 1, "method": "initialize", "params": {"processId": None, "rootUri": None, "capabilities": {}}},
        {"method": "initialized", "params": {}},
        {"method": "textDocument/didOpen", "params": {"textDocument": document}},
        {"id": 2, "method": "textDocument/codeLens", "params": {"textDocument": {"uri": uri}}},
        {"id": 3, "method": "shutdown"},
        {"method": "exit"},
    ]
    messages = [json.dumps({"jsonrpc": "2.0", **one}).encode() for one in told]
    stdin = b"".join(b"Content-Length: %d\r\n\r\n%s" % (len(one), one) for one in messages)
    result = ran(["lsp"], tmp_path, windows, stdin)
    assert result.returncode == 0, result.stderr.decode()
    assert b'"code":"DS101"' in result.stdout.replace(b" ", b"")


# -------------------------------------------------------------------------------------------------------------- paths


@pytest.mark.parametrize(
    ("path", "directory", "expected", "is_inside"),
    [
        ("C:\\p\\configs\\a.json", "C:\\p", "configs/a.json", True),
        ("c:\\P\\a.json", "C:\\p", "a.json", True),  # names differ in nothing but case
        ("C:\\other\\a.json", "C:\\p", "../other/a.json", False),
        ("D:\\a.json", "C:\\p", "D:/a.json", False),  # nothing leads from drive to drive
        ("\\\\server\\share\\a.json", "C:\\p", "//server/share/a.json", False),
        ("C:\\p\\..a.json", "C:\\p", "..a.json", True),
    ],
)
def test_paths_of_windows(path, directory, expected, is_inside):
    assert globs.relative(path, directory, ntpath) == expected
    assert globs.is_below(path, directory, ntpath) is is_inside


@pytest.mark.parametrize(
    ("path", "relative", "uri"),
    [
        ("sub\\a b.json", "sub/a b.json", "file:///C:/p/sub/a%20b.json"),
        ("..\\a.json", None, "file:///C:/a.json"),
        ("D:\\a.json", None, "file:///D:/a.json"),
        ("\\\\server\\share\\a.json", None, "file://server/share/a.json"),
        ("c:\\P\\a.json", "a.json", "file:///c:/P/a.json"),
    ],
)
def test_reports_name_files_with_slashes(path, relative, uri):
    root = Root("C:\\p", "C:\\p", ntpath)
    assert "\\" not in slashed(path, "\\")
    assert slashed("a\\b", "/") == "a\\b"  # a name on Linux
    assert root.relative(path) == relative
    assert sarif.file_uri(root.absolute(path)) == uri


@pytest.mark.parametrize(
    ("pattern", "path", "is_meant"),
    [("configs/old/", "configs\\old\\a.json", True), ("*.json", "a\\b.json", True), ("/a.json", "b\\a.json", False)],
)
def test_patterns_have_slashes_everywhere(pattern, path, is_meant):
    assert globs.matches(globs.relative(f"C:\\p\\{path}", "C:\\p", ntpath), pattern) is is_meant


@pytest.mark.parametrize(
    ("uri", "path"),
    [
        ("file:///c%3A/My%20Project/ds.json", "c:\\My Project\\ds.json"),  # as VS Code writes it
        ("file:///C:/p/ds.json", "c:\\p\\ds.json"),
        ("file://server/share/ds.json", "\\\\server\\share\\ds.json"),
    ],
)
def test_an_editor_names_files_of_windows(monkeypatch, uri, path):
    monkeypatch.setattr(pygls.uris, "IS_WIN", True)
    monkeypatch.setattr(os, "path", ntpath)
    assert OpenDocuments().path_of(uri) == path


# ------------------------------------------------------------------------------------------------------------- console


class Console:
    """``kernel32`` as far as ds-lint asks it: a console with a mode, or something else."""

    def __init__(self, *, is_console=True, takes_escapes=True):
        self.is_console, self.takes_escapes, self.mode = is_console, takes_escapes, 3

    def GetConsoleMode(self, _handle, mode):  # noqa: N802 - as Windows calls it
        mode._obj.value = self.mode
        return int(self.is_console)

    def SetConsoleMode(self, _handle, mode):  # noqa: N802 - the same
        self.mode = mode if self.takes_escapes else self.mode
        return int(self.takes_escapes)


class Stream:
    """A terminal."""

    encoding = "utf-8"

    def isatty(self):
        return True

    def fileno(self):
        return 1


@pytest.mark.parametrize(
    ("console", "has_colour", "mode"),
    [
        (Console(), True, 7),
        (Console(takes_escapes=False), False, 3),  # before Windows 10
        (Console(is_console=False), True, 3),
    ],
)
def test_a_console_is_told_to_understand_colours(monkeypatch, console, has_colour, mode):
    monkeypatch.setattr(sys, "platform", "win32")
    monkeypatch.setattr(ctypes, "windll", SimpleNamespace(kernel32=console), raising=False)
    monkeypatch.setitem(sys.modules, "msvcrt", SimpleNamespace(get_osfhandle=lambda number: number))
    assert terminal.terminal_of(Stream(), {"COLUMNS": "80"}).colour is has_colour
    assert console.mode == mode


def test_a_closed_pipe_of_windows_is_no_error(tmp_path, windows):
    """Where the reader has gone, Windows says that an argument is invalid."""
    code = (
        "import ds_lint.cli, sys\n"
        "class Gone:\n"
        "    encoding = 'utf-8'\n"
        "    def isatty(self): return False\n"
        "    def write(self, _): raise OSError(22, 'Invalid argument')\n"
        "    def flush(self): pass\n"
        "    def fileno(self): return 1\n"
        "sys.stdout = Gone()\n"
        "sys.argv = ['ds-lint', 'rules']\n"
        "ds_lint.cli.console()\n"
    )
    usual = {name: value for name, value in os.environ.items() if not name.startswith(("PYTHON", "DS_LINT"))}
    for environment, status in ((windows, 0), ({"PYTHONPATH": str(ROOT)}, 2)):
        command = [sys.executable, "-c", code]
        own = {**usual, **environment}
        result = subprocess.run(command, env=own, cwd=tmp_path, capture_output=True, timeout=60, check=False)
        assert result.returncode == status, result.stderr.decode()


# ----------------------------------------------------------------------------------------------------------- machines


def test_a_machine_that_tells_nothing_is_unknown(monkeypatch, tmp_path):
    """macOS and Windows have no /proc, no cgroups and no /dev/shm, and mostly no nvidia-smi."""
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.setattr(host, "_MEMINFO", str(tmp_path / "none"))
    monkeypatch.setattr(cgroups, "_CGROUPS", str(tmp_path / "none"))
    monkeypatch.setattr(host, "_SHARED", str(tmp_path / "none"))
    assert (host.memory(), host.free_memory(), host.shared_memory(), gpu.here()) == (None, None, None, None)
    monkeypatch.setattr(sys, "platform", "win32")
    assert host.shared_memory() is None
