"""A file as it was read: its text, its tree, and what is wrong with its syntax."""

from __future__ import annotations

from ds_lint.source.languages import YAML

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, Literal

    from ds_lint.source.languages import Language
    from ds_lint.source.notebook_cells import Notebook
    from ds_lint.source.parts import Places
    from ds_lint.source.tree import KeyPath, Node, Span

    # What a config is for: DeepSpeed's own, the YAML of ``accelerate launch``, a recipe of a training framework, which
    # names one or holds it, the keywords of a call of a class, or the name of a strategy that ``Trainer`` or ``Fabric``
    # of Lightning takes; one follows from the others. Calls of "TrainingArguments" set FSDP up and are not a config of
    # DeepSpeed, "FSDP" is a script that uses FSDP of torch by itself.
    Kind = Literal[
        "deepspeed", "accelerate", "recipe", "DeepSpeedPlugin", "DeepSpeedStrategy", "Trainer", "Fabric",
        "TrainingArguments", "FSDP",
    ]  # fmt: skip

NOT_UTF8 = "not-utf8"  # the kind of issue
UNDEFINED = "undefined-name"  # of Python: a literal of JSON, which no name of the module is
ABSENT = "absent-name"  # of a file that is not in the project (``absent_name.py``)
WORDS = "script-words"  # that a script gets from a launch (``script_words.py``)
LAUNCHER = "launcher-words"  # of a launch (``launcher_words.py``)
CALLED = "called-class"  # of a script, with keywords (``keyword_call.py``)
UNPARSED = "python-syntax"  # of Python that the Python of ds-lint does not parse; ``found`` is what that says


class SyntaxIssue:
    """One construct that some reader refuses or reads differently from what is meant.

    ``kind`` names the construct (``comment``, ``trailing-comma``, ``python-literal``, ...); ``found`` is its text or
    what the message needs of it; ``related`` is a second place that takes part (the first of two duplicate keys).
    """

    __slots__ = ("found", "kind", "path", "related", "span")

    def __init__(
        self, kind: str, span: Span, found: str = "", path: KeyPath | None = None, related: Span | None = None
    ) -> None:
        self.kind = kind
        self.span = span
        self.found = found
        self.path = path  # of the member or item that the construct is in, else None
        self.related = related


CUT_OFF = ("unclosed", "unterminated-string")  # the kinds of issues of a text whose end is missing


class Document:
    r"""A config in the text of its file. Lines end at ``\n``; a carriage return before it counts as a column.

    A file of JSON is one config. Any other file may hold several: each is a document of its own, with the same text and
    a root in it. ``is_dict`` tells a dict, which no library reads from a file; ``is_fragment`` a config that may get
    further keys where nothing is known of them, so that a missing key says nothing.
    """

    __slots__ = (
        "_line_starts",
        "command",
        "comments",
        "composed",
        "content",
        "index",
        "is_dict",
        "is_fragment",
        "is_python",
        "issues",
        "keys_above",
        "kind",
        "language",
        "may_have_own_keys",
        "named",
        "notebook",
        "path",
        "places",
        "preset",
        "root",
        "stack",
        "stand_ins",
        "suppressions",
        "taker",
        "text",
    )

    def __init__(self, path: str, text: str, root: Node | None, issues: list[SyntaxIssue]) -> None:
        self.path = path
        self.text = text
        self.content = (
            text  # what is read as the config, at the same offsets (the rest is blank), or else at ``places``
        )
        self.root = root  # None for an empty or unreadable text
        self.issues = issues
        self.language: Language = "json"
        self.kind: Kind = "deepspeed"
        self.named: Document | None = None  # by a recipe: the config, if it is found
        self.command: tuple[Any, ...] | None = None  # whose flags or variables are the config: what no other has
        self.preset: Any = None  # which config of a framework it is, by the word that names it (``launches/preset.py``)
        self.index = 0  # among the configs of the file
        self.stack: str | None = None  # the stack that loads it, if its place in the file tells
        self.comments: list[Span] | None = None  # of the language of the file; None: those that hjson skips
        self.notebook: Notebook | None = None  # then the text is that of its code cells
        self.places: Places | None = None  # of the content in the text, where its offsets are others
        self.stand_ins: list[Span] = []  # of the text, such as ``$LR``: the content has something else there
        self.taker: Node | None = None  # the keywords of the call that takes what a call makes
        self.is_dict = False
        self.is_fragment = any(issue.kind in CUT_OFF for issue in issues)
        self.is_python = False  # it is written in Python, not in JSON
        self.keys_above: KeyPath | None = None  # of a mapping inside of a file: those that lead to it
        self.composed: Any = None  # ``ComposedPlaces`` of a mapping that files and words of a launch make together
        self.may_have_own_keys = False  # of what reads the file, which is not known
        self.suppressions: list[Any] | None = None  # once they are needed (``diagnostics/suppression.py``)
        self._line_starts: list[int] | None = None

    @property
    def is_utf8(self) -> bool:
        """Whether the text is what the bytes were: those that are not UTF-8 were replaced when it was read."""
        return all(issue.kind != NOT_UTF8 for issue in self.issues)

    @property
    def is_unparsed(self) -> bool:
        """Whether this is a module, or cells of a notebook, that Python does not parse."""
        return any(issue.kind == UNPARSED for issue in self.issues)

    @property
    def is_of_names(self) -> bool:
        """Whether this is a file with names or words that may be wrong, whatever configs the file has beside them."""
        return any(issue.kind in (ABSENT, CALLED, LAUNCHER, WORDS) for issue in self.issues)

    @property
    def is_of_fsdp(self) -> bool:
        """Whether this is a script that uses FSDP of torch by itself, whatever configs it has beside that."""
        return self.kind == "FSDP"

    @property
    def has_config(self) -> bool:
        """Whether there is a config in it that can be read."""
        return not (self.is_unparsed or self.is_of_names or self.is_of_fsdp)

    @property
    def is_inline(self) -> bool:
        """Whether this is a mapping inside of a file that holds other settings, too."""
        return self.keys_above is not None

    @property
    def is_in_yaml(self) -> bool:
        """Whether this is a config without braces in a file of YAML, which hjson reads otherwise than YAML."""
        is_yaml = self.language == "json" and self.path.endswith(YAML)
        return is_yaml and any(issue.kind == "no-braces" for issue in self.issues)

    @property
    def has_own_comments(self) -> bool:
        """Whether the language of the file has comments, which the config that it becomes does not."""
        return self.comments is not None

    @property
    def content_end(self) -> int:
        """Where in the text the content ends, without the white space behind it."""
        end = len(self.content.rstrip())
        if self.places is None:
            return end
        from ds_lint.source.tree import Span

        return self.places.span(Span(end, end)).end

    def has_stand_in(self, span: Span) -> bool:
        """Whether the content has something else than the text in a part of this range."""
        return any(one.start < span.end and span.start < one.end for one in self.stand_ins)

    def line_starts(self) -> list[int]:
        """The offset at which each line starts."""
        if self._line_starts is None:
            starts = [0]
            found = self.text.find("\n")
            while found != -1:
                starts.append(found + 1)
                found = self.text.find("\n", found + 1)
            self._line_starts = starts
        return self._line_starts

    def position(self, offset: int) -> tuple[int, int]:
        """Line and column of an offset, both from 1, columns in code points."""
        from bisect import bisect_right

        starts = self.line_starts()
        line = bisect_right(starts, offset)
        return line, offset - starts[line - 1] + 1

    # In the file, which is more than the text if that is of the cells of a notebook.

    @property
    def file_text(self) -> str:
        """What is in the file."""
        return self.text if self.notebook is None else self.notebook.file_text

    def span_in_file(self, span: Span) -> Span:
        """A range of the text as one of the file."""
        return span if self.notebook is None else self.notebook.places.span(span)

    def ends_in_file(self, span: Span) -> tuple[tuple[int, int], tuple[int, int]]:
        """Line and column in the file where a range of the text starts, and where it ends."""
        position = self.position if self.notebook is None else self.notebook.position
        inside = self.span_in_file(span)
        return position(inside.start), position(inside.end)

    def written_in_file(self, text: str) -> str:
        """What an edit of the text writes into the file."""
        return text if self.notebook is None else self.notebook.encoded(text)

    def cell_at(self, offset: int) -> tuple[int, int] | None:
        """The cell of a notebook that an offset is in, from 1, and the line in it; None in any other file."""
        if self.notebook is None:
            return None
        cell = self.notebook.cell_at(offset)
        return cell.number, self.position(offset)[0] - self.position(cell.start)[0] + 1

    def shown_place(self, offset: int) -> str:
        """Line and column of an offset as texts show it, in a notebook with the cell: ``cell 3:2:5``."""
        line, column = self.position(offset)
        cell = self.cell_at(offset)
        return f"{line}:{column}" if cell is None else f"cell {cell[0]}:{cell[1]}:{column}"
