"""From a log to what it says, in memory that does not grow with the log.

Most lines of a log say nothing that matters. They are looked at in blocks: only lines with a text that something reads,
an anchor, are taken apart, and all lines of a block in which a traceback is.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from ds_lint.knowledge import symptoms
from ds_lint.logs import course, lines, prefixes, printed
from ds_lint.logs.course import Course
from ds_lint.logs.exits import Exits
from ds_lint.logs.lines import LogLine
from ds_lint.logs.record import Hit, Log
from ds_lint.logs.tracebacks import RankStream

if TYPE_CHECKING:
    import codecs
    from collections.abc import Iterable, Iterator
    from typing import BinaryIO

    from ds_lint.knowledge.symptoms import Symptom
    from ds_lint.logs.prefixes import Origin

BLOCK = 1 << 16  # characters
LARGEST_WHOLE = 64 << 20  # bytes of a notebook or of JSON records, which are read at once
LAST = 3  # lines with which a log ends
_TAIL = 20_000  # characters
MOST_HITS = 20  # kept of a symptom
MOST_STREAMS = 5000
_UNKNOWN = "0.0.0"  # of a build of DeepSpeed that does not know its release
# Texts of what has several lines: all lines of a block are read that has one.
_OF_SEVERAL = ('File "', "Traceback", "Error", "Exception", "Interrupt", "what():", "Cell In", printed.ANCHOR)


class Reader:
    """Reads a log piece by piece."""

    def __init__(self, path: str, rank: int | None = None) -> None:
        """Begin a log."""
        self._course = Course()
        self.log = Log(path, rank, course=self._course)
        self._rank = rank
        self._rest = ""
        self._last = ""  # the end of the last block
        self._exits = Exits()
        self._streams: dict[Origin, RankStream] = {}
        self._config = printed.PrintedConfig()

    def feed(self, text: str) -> None:
        """Read the next piece; a line may be cut by its end."""
        text = self._rest + text
        end = text.rfind("\n") + 1
        if end == 0 and len(text) < lines.LONGEST_WHOLE_LINE:
            self._rest = text
            return
        if end == 0:
            end = len(text)
        self._rest = text[end:]
        for start in range(0, end, BLOCK):
            # Blocks end with a line: the next one begins behind the end of that line.
            self._cut(text, start, min(start + BLOCK, end))

    def _cut(self, text: str, start: int, end: int) -> None:
        first = start if start == 0 else text.find("\n", start - 1, end) + 1
        last = text.find("\n", end - 1)
        last = len(text) if last < 0 else last + 1
        if first == 0 and start > 0:
            return  # one line is longer than a block, and was read with the block before
        self._block(text[first : min(last, len(text))])

    def finish(self) -> Log:
        """The log, when nothing more comes."""
        if self._rest:
            self._block(self._rest)
            self._rest = ""
        last = [raw for raw in self._last.split("\n") if raw.strip()][-LAST:]
        self.log.last_texts = [line.text for raw in last for line in lines.of_raw(raw, 0, None)]
        return self.so_far()

    def so_far(self) -> Log:
        """What the log says up to here."""
        log = self.log
        log.raised = sorted((one for stream in self._streams.values() for one in stream.raised), key=lambda one: one.at)
        log.exits, log.ended_well = self._exits.found, self._exits.ended_well
        log.config, log.config_at = self._config.found, self._config.at
        return log

    def numbered(self, found: Iterable[tuple[int, str]]) -> None:
        """Read lines that are taken out of another format."""
        reads = _Reads("", everything=True)
        for number, raw in found:
            self._line(raw, number, reads)
            self.log.lines = number

    # ------------------------------------------------------------------------------------------------------- of a block

    def _block(self, block: str) -> None:
        reads = _Reads(block)
        number = self.log.lines
        self.log.lines += block.count("\n") + (not block.endswith("\n"))
        if reads.needs_all_lines or self._is_open():
            for raw in block.split("\n")[: self.log.lines - number]:
                number += 1
                self._line(raw, number, reads)
        elif reads.anchors:
            is_plain = reads.is_of_course_only
            for start, end, between in _lines_with(block, reads.anchors):
                number += between
                if is_plain:
                    self._course.read(block[start:end], number + 1)
                else:
                    self._line(block[start:end], number + 1, reads)
        self._last = block[-_TAIL:]

    def _is_open(self) -> bool:
        return self._config.is_open or any(stream.is_open for stream in self._streams.values())

    def _line(self, raw: str, number: int, reads: _Reads) -> None:
        if reads.is_plain and self._rank is None and len(raw) <= lines.LONGEST:
            self._take(LogLine(number, *prefixes.split(raw)), reads)
            return
        for line in lines.of_raw(raw, number, self._rank):
            self._take(line, reads)

    def _take(self, line: LogLine, reads: _Reads) -> None:
        stream = self._streams.get(line.origin)
        if stream is None:
            if len(self._streams) >= MOST_STREAMS:
                return
            stream = self._streams[line.origin] = RankStream(line.origin)
        stream.read(line)
        text = line.text
        for anchor in reads.of_course:
            if anchor in text:
                self._course.read(text, line.number)
                break
        for anchor, form in reads.ends:
            if anchor in text and self._exits.read(line, form):
                break
        for anchor, symptom in reads.symptoms:
            if anchor in text:
                self._hit(symptom, line)
        self._config.read(line)

    def _hit(self, symptom: Symptom, line: LogLine) -> None:
        found = symptom.pattern.search(line.text) if symptom.pattern is not None else None
        if found is None:
            return
        groups = {key: value or "" for key, value in found.groupdict().items()}
        if symptom.role == "release":
            self.log.releases.update({name: release for name, release in groups.items() if release != _UNKNOWN})
        elif symptom.role == "fact":
            self.log.facts.update(groups)
        else:
            kept = self.log.hits.setdefault(symptom.id, [])
            if len(kept) < MOST_HITS:
                named = groups.get("rank", "")
                rank = int(named) if named.isdecimal() else line.origin.rank
                kept.append(Hit(symptom.id, line.number, line.text, rank, groups))


class _Reads:
    """Which anchors a block has, so that each of its lines is asked for these only."""

    __slots__ = ("anchors", "ends", "is_of_course_only", "is_plain", "needs_all_lines", "of_course", "symptoms")

    def __init__(self, block: str, *, everything: bool = False) -> None:
        # One letter beyond Latin-1 makes a search in a text several times as slow as in its bytes.
        data = block.encode("utf-8", "replace")

        def there(anchor: str) -> bool:
            return everything or anchor.encode() in data

        self.of_course = [anchor for anchor in course.ANCHORS if there(anchor)]
        self.ends = [(one.anchor, one) for one in symptoms.of_ends() if there(one.anchor)]
        self.symptoms = [(one.anchor, one) for one in symptoms.of_lines() if there(one.anchor)]
        self.needs_all_lines = any(there(anchor) for anchor in _OF_SEVERAL)
        of_lines = [anchor for anchor, _ in (*self.ends, *self.symptoms)]
        self.anchors = list(dict.fromkeys([*self.of_course, *of_lines]))
        # Without colours and bars of progress, which have to be taken off; prefixes do not matter to numbers.
        self.is_plain = not (everything or any(one in block for one in ("\x1b", "\r", "%|")))
        self.is_of_course_only = self.is_plain and self.anchors == self.of_course


def _lines_with(block: str, anchors: list[str]) -> Iterable[tuple[int, int, int]]:
    """The lines that have an anchor: start, end, and the lines between the one before and this one."""
    starts: dict[int, int] = {}
    for anchor in anchors:
        place = block.find(anchor)
        while place >= 0:
            start = block.rfind("\n", 0, place) + 1
            end = block.find("\n", place)
            end = len(block) if end < 0 else end
            starts[start] = end
            place = block.find(anchor, end)
    before = 0
    for start in sorted(starts):
        yield start, starts[start], block.count("\n", before, start)
        before = start


def is_of_records(file: BinaryIO) -> bool:
    """Whether a file of JSON holds the lines of a log, and no config."""
    start = file.read(1 << 16)
    file.seek(0)
    first, _, more = start.partition(b"\n")
    return bool(more.strip()) and lines.of_record(first.decode("utf-8", "replace")) is not None


def read(path: str, file: BinaryIO) -> Log | None:
    """What a log says; None if it is not text."""
    start = file.read(1 << 16)
    decoder = lines.decoder_of(start)
    if decoder is None:
        return None
    reader = Reader(path, prefixes.rank_of_file(path))
    text = decoder.decode(start)
    if lines.may_be_notebook(text):
        text += decoder.decode(file.read(LARGEST_WHOLE))
        found = lines.of_notebook(text)
        if found is not None:
            reader.numbered(found)
            return reader.finish()
    elif lines.of_record(text.partition("\n")[0]) is not None:
        reader.numbered(_records(text, file, decoder))
        return reader.finish()
    reader.feed(text)
    while data := file.read(1 << 20):
        reader.feed(decoder.decode(data))
    return reader.finish()


def _records(text: str, file: BinaryIO, decoder: codecs.IncrementalDecoder) -> Iterator[tuple[int, str]]:
    """The lines that JSON records hold; what is not a record is a line itself."""
    number = 0
    while text:
        *whole, rest = text.split("\n")
        for line in whole:
            number += 1
            yield from ((number, one) for one in lines.of_record(line) or [line])
        data = file.read(1 << 20)
        text = rest + decoder.decode(data)
        if not data:
            if text:
                yield from ((number + 1, one) for one in lines.of_record(text) or [text])
            return
