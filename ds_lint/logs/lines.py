"""The lines of a log, as a terminal would show them: decoded, without colours, progress bars and carriage returns.

A log is a text of any encoding, a notebook (its outputs), or JSON lines of a container runtime.
"""

from __future__ import annotations

import codecs
import json
import re
from typing import TYPE_CHECKING, NamedTuple

from ds_lint.logs import prefixes
from ds_lint.logs.prefixes import Origin

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

LONGEST = 4000  # characters of a line that are read
LONGEST_WHOLE_LINE = 1 << 22  # characters without an end of line that are kept
_LONGEST_RAW = 1 << 20  # of a line of the file: bars of progress may share one
_ESCAPES = re.compile(r"\x1b(?:\[[0-?]*[ -/]*[@-~]|\][^\x07\x1b]{0,500}(?:\x07|\x1b\\)?|[@-Z\\-_])")
# `45%|████▌     | 9/20 [00:03<00:02,  4.2it/s, loss=0.3]` of tqdm, which writes many on one line into a file.
_BAR = re.compile(
    r"(?:[\w ./-]{0,40}:)?\s{0,4}\d{1,3}%\|[^|\r\n]{0,200}\| *[\d.,kMG]+/[\d.,kMG?]+ \[[^\]\r\n]{0,200}\]?"
)
_BOMS = ((codecs.BOM_UTF8, "utf-8-sig"), (codecs.BOM_UTF16_LE, "utf-16"), (codecs.BOM_UTF16_BE, "utf-16"))


class LogLine(NamedTuple):
    """A line of a log."""

    number: int  # in its file, from 1
    origin: Origin
    text: str
    is_logged: bool  # it has a time or a level


def decoder_of(start: bytes) -> codecs.IncrementalDecoder | None:
    """What decodes a log that begins so; None if it is not text."""
    encoding = next((encoding for bom, encoding in _BOMS if start.startswith(bom)), "utf-8")
    if encoding == "utf-8" and b"\0" in start[:4096]:
        return None
    return codecs.getincrementaldecoder(encoding)("replace")


def of_raw(raw: str, number: int, rank: int | None) -> Iterator[LogLine]:
    """The lines that a terminal would show for one line of a file."""
    text = raw if len(raw) <= _LONGEST_RAW else raw[:_LONGEST_RAW]
    if "\x1b" in text:
        text = _ESCAPES.sub("", text)
    for part in _parts(text):
        origin, rest, is_logged = prefixes.split(part if len(part) <= LONGEST else part[:LONGEST])
        if rank is not None and origin.rank is None:
            origin = Origin(rank, origin.host)
        yield LogLine(number, origin, rest, is_logged)


def _parts(text: str) -> list[str]:
    """What is on one line: between bars of progress, which rewrite it, is what else was printed."""
    if "%|" not in text and "\r" not in text:
        return [text]
    # The pattern of a bar is slow where there is none.
    pieces = (_BAR.sub("\r", part).split("\r") if "%|" in part else [part] for part in text.split("\r"))
    return [part for piece in pieces for part in piece if part.strip()] or [""]


def of_notebook(text: str) -> Iterator[tuple[int, str]] | None:
    """The lines of the outputs of a notebook, with their numbers; None if the text is not a notebook."""
    try:
        cells = json.loads(text)["cells"]
        outputs = [output for cell in cells for output in cell.get("outputs", ())]
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError):
        return None
    return _output_lines(text, outputs)


def _output_lines(text: str, outputs: Iterable[object]) -> Iterator[tuple[int, str]]:
    """The lines with their numbers in the file: a notebook has a line for each line of an output."""
    numbered = text.split("\n")
    place = 0
    for output in outputs:
        for line in _lines_of_output(output):
            start = json.dumps(line[:60], ensure_ascii=False)[1:-1]
            found = next((at for at in range(place, min(place + 2000, len(numbered))) if start in numbered[at]), place)
            place = found
            yield found + 1, line


def _lines_of_output(output: object) -> list[str]:
    if not isinstance(output, dict):
        return []
    value = output.get("traceback") or output.get("text")
    if value is None and isinstance(output.get("data"), dict):
        value = output["data"].get("text/plain")
    pieces = [value] if isinstance(value, str) else value if isinstance(value, list) else []
    joiner = "\n" if output.get("traceback") else ""
    return joiner.join(piece for piece in pieces if isinstance(piece, str)).split("\n")


_NOTEBOOK = re.compile(r'\s*\{\s*"(?:cells|metadata|nbformat|nbformat_minor)"\s*:')
_TEXTS = ("log", "message", "msg", "line", "text")  # names under which a record of a log has its text


def may_be_notebook(start: str) -> bool:
    """Whether a file that begins so may be a notebook."""
    return _NOTEBOOK.match(start) is not None


def of_record(line: str) -> list[str] | None:
    """The lines of a JSON record, as ``{"log": "...", "stream": "stderr"}`` of Docker; None if it is none."""
    if not line.startswith("{"):
        return None
    try:
        record = json.loads(line)
    except (ValueError, RecursionError):
        return None
    value = next((record[key] for key in _TEXTS if isinstance(record.get(key), str)), None)
    return None if value is None else value.rstrip("\n").split("\n")
