"""Python's tracebacks in the lines of one stream: what was raised where, and which exception led to which.

They may begin or end in the middle, and lines of another process may stand between theirs.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Literal, NamedTuple

if TYPE_CHECKING:
    from ds_lint.logs.lines import LogLine
    from ds_lint.logs.prefixes import Origin

Relation = Literal["cause", "context"]  # of an exception to the one above it: raised from it, or while handling it

_HEADER = re.compile(r"Traceback \(most recent call last\)")
_FRAME = re.compile(r'File "([^"]+)", line (\d+)(?:, in (.+))?$')
# IPython's frames: `File ~/x.py:12, in f(a)`, `/x.py in f(a)`, `Cell In[3], line 2`, `<ipython-input-3-…> in <module>`
_IPYTHON = re.compile(
    r"(?:File (?P<path>\S+?):(?P<line>\d+)(?:, in (?P<function>[\w.<>]+))?"
    r"|(?P<cell>Cell In ?\[\d+\])(?:, |:)line (?P<at>\d+)|(?P<old>(?:/|~|<ipython)\S+) in (?P<in>[\w.<>]+))"
)
_SUFFIXES = (
    "(?:Error|Exception|Exit|Interrupt|Iteration|Warning|KnownException|Failed|Timeout|timeout|error|Empty|Full|Abort(?:ed)?"
    "|NotFound|BadZipFile|Unsupported|Invalid|Conflict|Expired|Denied|Mismatch)"
)
_RAISED = re.compile(r"^((?:[A-Za-z_]\w*\.)*[A-Za-z_]\w*)(?:: ?(.*))?$")
_NAMED = re.compile(rf"^(?:[A-Za-z_]\w*\.)*\w*{_SUFFIXES}$")
# An exception without a traceback above it: where a log begins late, or a program prints one.
_LOOSE = re.compile(r"^((?:[A-Za-z_]\w*\.)*[A-Z]\w*(?:Error|Exception|Interrupt)): (.*)$")
# The boxes of rich: `│ /lib/x.py:134 in __call__    │`, whose lines may be cut in the middle of a path.
_BOX = re.compile(r"^[│|]\s?(.*?)\s*[│|]?$")
_IN_BOX = re.compile(r"^(?P<path>(?:/|[A-Za-z]:\\|\.|in )\S*?\.py):(?P<line>\d+)\s+in\s+(?P<function>[\w<>.]+)$")
_CAUSE = "The above exception was the direct cause of the following exception"
_CONTEXT = "During handling of the above exception, another exception occurred"
_IGNORED = re.compile(r"^Exception ignored in|^Error in sys\.excepthook|^Exception in thread (?:QueueFeeder|Thread-)")
_NATIVE = re.compile(r"terminate called after throwing an instance of '([^']+)'")
_WHAT = re.compile(r"^\s*what\(\): +(.*)$")
# What can't be another line of a message: the next thing that a process or a launcher logs.
_NEXT = re.compile(
    r"^(?:\[?[WEIF]\d{4} \d\d:|\[?\d{4}-\d\d|=====|-{15}|Root Cause|srun: |slurmstepd|wandb: "
    r"|\{'(?:loss|eval_loss|train_)|ERROR:torch|WARNING:torch|torch\.distributed\.elastic|Sending process|\[rank\d+\]:)"
)
LONGEST_MESSAGE = 60  # lines
MOST_FRAMES = 400
_LONGEST_PREFIX = 200  # characters
MOST_RAISED = 500  # of a stream
PATIENCE = 300  # lines of others that may stand inside a traceback


class Frame(NamedTuple):
    """A call of a traceback."""

    path: str
    line: int
    function: str
    at: int  # the line of the log


@dataclass(slots=True)
class RaisedException:
    """An exception that a log shows."""

    name: str  # of its class, as printed
    message: str
    frames: list[Frame]
    origin: Origin
    at: int  # the line of the log with its class
    relation: Relation | None = None  # to the exception above it
    above: RaisedException | None = None
    is_ignored: bool = False  # `Exception ignored in`, which ends nothing
    is_loose: bool = False  # without a traceback
    is_native: bool = False  # of C++

    @property
    def short_name(self) -> str:
        """The name of its class without the module."""
        return self.name.replace("::", ".").rpartition(".")[2]

    @property
    def chain(self) -> list[RaisedException]:
        """The exceptions that led to this one, the innermost first."""
        found, one = [self], self.above
        while one is not None and len(found) < 50:
            found.append(one)
            one = one.above
        return found[::-1]


def _frame(text: str) -> re.Match[str] | None:
    place = text.find('File "')
    is_apart = text[max(0, place - 1) : place] in ("", " ", "\t", "│", "|")
    return _FRAME.match(text, place) if is_apart else None


@dataclass(slots=True)
class RankStream:
    """Follows the tracebacks of one stream of lines."""

    origin: Origin
    raised: list[RaisedException] = field(default_factory=list)
    is_first: bool = True  # nothing was read yet
    _frames: list[Frame] | None = None  # of the traceback that is being read
    _at_frame: bool = False  # the line before is one of the traceback
    _patience: int = 0
    _message_of: RaisedException | None = None
    _message_lines: int = 0
    _pending: tuple[Relation, RaisedException] | None = None
    _last: RaisedException | None = None
    _ignored: bool = False
    _indent: int = 0  # of the traceback that is being read, as pip indents those of its processes
    _prefix: re.Pattern[str] | None = None  # what is before the lines of the traceback, if it is not a known prefix
    _box: str | None = None  # the part of a path that a box of rich has cut

    @property
    def is_open(self) -> bool:
        """Whether the next line may belong to a traceback or message."""
        return self._frames is not None or self._message_of is not None

    def read(self, line: LogLine) -> None:
        """Read the next line."""
        if self._prefix is not None and (self._frames is not None or self._message_of is not None):
            line = self._without_prefix(line)
        text = line.text
        begins, self.is_first = self.is_first, False
        header = "Traceback" in text and _HEADER.search(text)
        if header:
            self._begin(text, header.start())
            return
        if 'File "' in text and (frame := _frame(text)):
            self._add(Frame(frame[1], int(frame[2]), frame[3] or "", line.number))
            return
        if self._frames is not None:
            self._inside(line)
            return
        if self._message_of is not None and self._goes_on(line):
            return
        self._outside(line, begins)

    def _without_prefix(self, line: LogLine) -> LogLine:
        found = self._prefix.match(line.text) if self._prefix is not None else None
        return line if found is None else line._replace(text=line.text[found.end() :])

    def _begin(self, text: str, place: int) -> None:
        if text.lstrip().startswith("Original Traceback") and self._message_of is not None:
            # A worker of the data loader has raised; the exception above only carries its traceback.
            carrier, self._message_of = self._message_of, None
            self._pending = ("cause", carrier)
            carrier.is_ignored = True
        else:
            self._message_of = None
        before = text[:place]
        corner = next((at for at, letter in enumerate(before) if letter in "╭┌"), None)
        self._box = "" if corner is not None else None
        before = before[:corner]
        is_name = before.strip() == "Original" or _NAMED.match(before.strip())  # of a data loader, or as IPython begins
        is_prefix = before.strip() and not is_name and len(before) < _LONGEST_PREFIX
        # `> ` of a quotation, `E   ` of pytest, `stderr: `: the numbers in it may change.
        spaces = len(before) - len(before.rstrip(" "))
        start = re.sub(r"\d+", r"\\d+", re.escape(before.rstrip(" ")))
        self._prefix = re.compile(f"{start} {{0,{spaces}}}") if is_prefix else None
        self._frames = []
        self._indent = len(before) if not before.strip() else 0
        self._at_frame = True
        self._patience = PATIENCE

    def _add(self, frame: Frame) -> None:
        self._message_of = None
        if self._frames is None:
            self._frames = []
        if len(self._frames) < MOST_FRAMES:
            self._frames.append(frame)
        self._at_frame = True
        self._patience = PATIENCE

    def _inside(self, line: LogLine) -> None:
        text = line.text
        if self._box is not None and self._is_of_box(text, line.number):
            return
        if ipython := _IPYTHON.match(text):
            path = ipython["path"] or ipython["cell"] or ipython["old"]
            number = int(ipython["line"] or ipython["at"] or 0)
            self._add(Frame(path, number, ipython["function"] or ipython["in"] or "", line.number))
            return
        if self._indent and text[: self._indent].isspace() and text[self._indent : self._indent + 1] not in ("", " "):
            text = text[self._indent :]
        found = _RAISED.match(text)
        if (
            found
            and len(found[1]) < _LONGEST_PREFIX
            and (_NAMED.match(found[1]) or (self._at_frame and found[1][:1].isupper() and len(text) < 400))
        ):
            self._end(found[1], found[2] or "", line)
            return
        if not text.strip() or text[0] in " \t│|-~^":
            return
        self._at_frame = False
        self._patience -= 1
        if self._patience < 0:
            self._frames = None

    def _is_of_box(self, text: str, at: int) -> bool:
        """Whether a line belongs to a box of rich; its exception stands below it."""
        if text[:1] in "╰└" and text:
            self._box = None
            self._at_frame = True
            return True
        box = _BOX.match(text) if text[:1] in "│|" else None
        if box is None:
            return False
        cut = (self._box or "") + box[1]
        if found := _IN_BOX.match(cut) or _IN_BOX.match(box[1]):
            self._box = ""
            self._add(Frame(found["path"], int(found["line"]), found["function"], at))
        else:
            self._box = box[1] if box[1][:1] in ("/", ".") else ""
        return True

    def _end(self, name: str, message: str, line: LogLine) -> None:
        frames, self._frames = self._frames or [], None
        raised = RaisedException(name, message, frames, self.origin, line.number, is_ignored=self._ignored)
        if self._pending is not None:
            raised.relation, raised.above = self._pending
        self._pending, self._ignored = None, False
        self._keep(raised)

    def _keep(self, raised: RaisedException) -> None:
        if len(self.raised) < MOST_RAISED:  # the first matter
            self.raised.append(raised)
        self._last = self._message_of = raised
        self._message_lines = 0

    def _goes_on(self, line: LogLine) -> bool:
        """Whether a line belongs to the message of the exception above it."""
        raised, text = self._message_of, line.text
        if raised is None or self._message_lines >= LONGEST_MESSAGE or _CAUSE in text or _CONTEXT in text:
            return False
        if line.is_logged or _NEXT.match(text) or _IGNORED.match(text) or _NATIVE.search(text):
            return False
        self._message_lines += 1
        raised.message += f"\n{text}"
        return True

    def _outside(self, line: LogLine, begins: bool) -> None:
        text = line.text
        self._message_of = None
        if _CAUSE in text and self._last is not None:
            self._pending = ("cause", self._last)
        elif _CONTEXT in text and self._last is not None:
            self._pending = ("context", self._last)
        elif _IGNORED.match(text):
            self._ignored = True
        elif native := _NATIVE.search(text):
            self._keep(RaisedException(native[1], "", [], self.origin, line.number, is_native=True))
        elif loose := _LOOSE.match(text):
            raised = RaisedException(loose[1], loose[2], [], self.origin, line.number, is_loose=not begins)
            self._keep(raised)
