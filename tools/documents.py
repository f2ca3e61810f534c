"""Run the commands that README.md and docs/ show, and hold what they print against what is shown.

    python -m tools.documents                       check every document
    python -m tools.documents --write docs/ci.md    rewrite the output that one shows
    python -m tools.documents --smoke README.md     the training runs too

The info string of a fenced block says what it is::

    ```json title="ds_config.json"    a file of the document's folder, whatever the language
    ```console                        commands behind "$ ", each with what it prints; a line "..." leaves something out
    ```sh                             a script that must end with status 0, or with N: status=N
    ```sh install                     a script that installs something: in an environment of its own, in a checkout
    ```console smoke                  (or sh) with the libraries that --smoke trains with
    ```sh not-run="the reason"        (or console) one that no test can run

Every other block is prose. The blocks of a document are run in their order, in one folder that is empty at first, or
for README.md has ``examples/``, and print what they print into a pipe. What ``--write`` writes is to be read before it
is committed.

A summary may leave out the releases: ``Checked against ...; stack trainer``. Else each new release of a library would
change each document.
"""

from __future__ import annotations

import argparse
import os
import re
import shlex
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from ds_lint.rule_pages import pages
from tools.differences import show

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from ds_lint.source.tree import Span

ROOT = Path(__file__).parent.parent
README = "README.md"
SECONDS = 300  # for one command
KINDS = ("console", "sh")
WORDS = ("install", "smoke")
LEFT_OUT = "..."
_AGAINST = "Checked against "
_RELEASES = re.compile(f"(?<={_AGAINST})[^;]*(?=;)")

_UNWANTED = ("COLUMNS", "FORCE_COLOR", "GITHUB_ACTIONS", "PYTHONIOENCODING")


class Block(NamedTuple):
    """A fenced block, with what its info string says."""

    language: str
    words: frozenset[str]
    options: dict[str, str]
    text: str
    span: Span
    line: int
    fence: int  # the offset of its info string's line

    @property
    def is_file(self) -> bool:
        """Whether it is written into the folder of the document."""
        return "title" in self.options and self.language not in KINDS

    @property
    def is_run(self) -> bool:
        """Whether it is run at all."""
        return self.language in KINDS and "not-run" not in self.options


class Command(NamedTuple):
    """A command of a console block, with the output that is below it."""

    text: str
    shown: str


class DocumentError(ValueError):
    """A block that is not written as this module's docstring says, or a script that failed."""


def documents() -> list[str]:
    """Every document, by its path in the repository."""
    return [README, *sorted(str(path.relative_to(ROOT)) for path in (ROOT / "docs").rglob("*.md"))]


def text_of(document: str) -> str:
    """The text of a document."""
    return (ROOT / document).read_text(encoding="utf-8")


def blocks(text: str) -> list[Block]:
    """The fenced blocks of a document."""
    return [_block(block) for block in pages.blocks(text)]


def _block(block: pages.Block) -> Block:
    language, *rest = shlex.split(block.info) or [""]
    options = dict(word.partition("=")[::2] for word in rest if "=" in word)
    words = frozenset(word for word in rest if "=" not in word)
    if language in KINDS and (strange := words - set(WORDS)):
        raise DocumentError(f"line {block.line}: a block has no word {', '.join(sorted(strange))}")
    return Block(language, words, options, block.text, block.span, block.line, block.fence)


def without_words(text: str) -> str:
    """The text with fences that name for readers the language, and the name of a file."""
    for block in reversed(blocks(text)):
        title = f' title="{block.options["title"]}"' if "title" in block.options else ""
        text = f"{text[: block.fence]}```{block.language}{title}\n{text[block.span.start :]}"
    return text


def commands(block: Block) -> list[Command]:
    """The commands of a console block."""
    first, *parts = re.split(r"^\$ ", block.text, flags=re.MULTILINE)
    if first.strip():
        raise DocumentError(f"line {block.line}: output without a command before it")
    found = []
    for part in parts:
        command, _, shown = part.partition("\n")
        while command.endswith("\\") and shown.startswith("> "):
            line, _, shown = shown.removeprefix("> ").partition("\n")
            command = command[:-1] + line
        found.append(Command(command, shown))
    return found


def matches(shown: str, printed: str) -> bool:
    """Whether a command printed what is shown; a line of three dots stands for any lines."""
    pattern = "".join(
        r"(?:.*\n)*" if line == LEFT_OUT + "\n" else re.escape(line) for line in shown.splitlines(keepends=True)
    )
    return re.fullmatch(pattern, printed) is not None


def without_seconds(text: str) -> str:
    """What a training run printed, but for how long it took."""
    return re.sub(r"[\d.,]+ s\b", "S s", text)


def without_releases(shown: str, printed: str) -> str:
    """What a command printed, without the releases in its summary if the document leaves them out."""
    return _RELEASES.sub(LEFT_OUT, printed) if f"{_AGAINST}{LEFT_OUT};" in shown else printed


class Folder:
    """The folder that the blocks of a document are run in, in a shell that finds this checkout's ds-lint."""

    def __init__(self, place: Path) -> None:
        self.path = place / "work"
        self._environment = _environment(place)
        self.path.mkdir()

    def write(self, block: Block) -> None:
        """Write the file that a block shows."""
        path = self.path / block.options["title"]
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(block.text, encoding="utf-8")

    def printed_by(self, command: str) -> str:
        """What a command prints, on either stream."""
        return self._run(command).stdout

    def run_script(self, block: Block) -> None:
        """Run a script; raises DocumentError where it ends with another status than it should."""
        ended = self._run(block.text)
        if ended.returncode != int(block.options.get("status", 0)):
            raise DocumentError(f"line {block.line}: status {ended.returncode}\n{ended.stdout}")

    def _run(self, script: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            ["bash", "-euo", "pipefail", "-c", script],
            cwd=self.path,
            env=self._environment,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            encoding="utf-8",
            timeout=SECONDS,
            check=False,
        )


def _environment(place: Path) -> dict[str, str]:
    """Variables of a shell in which ``ds-lint`` is this checkout's, and nothing of the user's counts."""
    programs, home = place / "programs", place / "home"
    programs.mkdir(parents=True)
    home.mkdir()
    shim = programs / "ds-lint"
    shim.write_text(f'#!/bin/sh\nexec {shlex.quote(sys.executable)} -m ds_lint "$@"\n', encoding="utf-8")
    shim.chmod(0o755)
    kept = {name: value for name, value in os.environ.items() if name not in _UNWANTED}
    return kept | {
        "HOME": str(home),
        "NO_COLOR": "1",
        "PATH": os.pathsep.join((str(programs), str(Path(sys.executable).parent), os.environ["PATH"])),
        "PYTHONPATH": str(ROOT),
        "PYTHONUNBUFFERED": "1",  # both streams are one here, and lines keep the order of a terminal
        "PYTHONUTF8": "1",
    }


class Difference(NamedTuple):
    """A command that prints something else than its document shows."""

    line: int
    command: str
    shown: str
    printed: str


def run(document: str, place: Path, *, smoke: bool = False) -> Iterator[tuple[Block, list[Difference]]]:
    """Run the blocks of a document in order, in a folder below ``place``; what each shows wrongly."""
    folder = Folder(place)
    if document == README:  # whose reader is in a checkout
        shutil.copytree(ROOT / "examples", folder.path / "examples")
    yield from run_blocks(text_of(document), folder, smoke=smoke)


def run_blocks(text: str, folder: Folder, *, smoke: bool = False) -> Iterator[tuple[Block, list[Difference]]]:
    """Run the blocks of a text in order; what each shows wrongly."""
    for block in blocks(text):
        if block.is_file:
            folder.write(block)
        elif not block.is_run or "install" in block.words or ("smoke" in block.words and not smoke):
            continue
        elif block.language == "sh":
            folder.run_script(block)
        else:
            yield block, list(_differences(block, folder))


def _differences(block: Block, folder: Folder) -> Iterator[Difference]:
    for command in commands(block):
        shown = command.shown
        printed = without_releases(shown, folder.printed_by(command.text))
        if "smoke" in block.words:
            is_same = matches(without_seconds(shown), without_seconds(printed))
        else:
            is_same = matches(shown, printed)
        if not is_same:
            yield Difference(block.line, command.text, shown, printed)


def corrected(text: str, outcome: Iterable[tuple[Block, list[Difference]]]) -> str:
    """The text with what its commands printed when its blocks were run."""
    edits: list[tuple[Span, str]] = []
    for block, differences in outcome:
        right = block.text
        for one in differences:
            before, after = f"{one.command}\n{one.shown}", f"{one.command}\n{one.printed}"
            right = right.replace(before, after, 1)
        if right != block.text:
            edits.append((block.span, right))
    for span, right in reversed(edits):
        text = text[: span.start] + right + text[span.end :]
    return text


def main() -> int:
    """Check or rewrite documents."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("documents", nargs="*", default=documents(), metavar="DOCUMENT", help="(default: all)")
    parser.add_argument("--smoke", action="store_true", help="also run the blocks that train")
    parser.add_argument("--write", action="store_true", help="write what the commands print")
    options = parser.parse_args()
    wrong = 0
    for document in options.documents:
        text = text_of(document)
        with tempfile.TemporaryDirectory() as place:
            try:
                right = corrected(text, run(document, Path(place), smoke=options.smoke))
            except DocumentError as error:
                sys.stderr.write(f"{document}: {error}\n")
                wrong += 1
                continue
        if right == text:
            continue
        if options.write:
            (ROOT / document).write_text(right, encoding="utf-8", newline="\n")
            sys.stdout.write(f"rewrote {document}\n")
        else:
            show(document, text, right)
            wrong += 1
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
