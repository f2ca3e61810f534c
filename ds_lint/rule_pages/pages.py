"""The rule pages: one Markdown file a rule, read as documentation, by ``ds-lint explain`` and ``rules``, and by tests.

A page's examples are fenced blocks whose info string says what they show::

    ```json bad stack=deepspeed world-size=4
    {"train_batch_size": 3}
    ```
    ```findings
    1:22: DS512 [error] ... (rejected)
    ```
    ```json fixed
    {"train_batch_size": 4}
    ```

A ``bad`` block is followed by a ``findings`` block with everything that ds-lint says about it, and, where that is to be
shown, by what ``--fix`` makes of it; ``fixed unsafe`` is with ``--unsafe-fixes``. A ``good`` block stands alone. Every
other fenced block is prose. ``deepspeed=0.16.9`` and the like name the release that it is linted with, and
``from=0.14.4`` the release of DeepSpeed that an upgrade leaves; ``world-size=4``, ``nodes=2``, ``gpu=T4`` and
``host-memory=64GB`` are facts, and so are ``model=mixtral``, a folder below tests/models, ``libaio=missing``, and
``trainer-args=--bf16|--max_grad_norm=0.5``, flags with a bar between them. Two options are for what a page cannot hold
as it is: ``encoding=latin-1`` says in which bytes the file is stored, ``ellipsis=2000`` that ``x...`` stands for 2,000
times ``x``. ``smoke`` says that the findings are those of a training run, too. A block ``json policy`` is a policy that
the examples below it are held to. Blocks such as ``bash run.sh`` and ``python train.py`` are files beside the config of
the examples below them, up to the next such block; the first launch in them is one of the config. An example in Bash is
a launch with the names of files. A block
``text requirements.txt`` pins the releases that they are linted with.
"""

from __future__ import annotations

import re
from typing import NamedTuple

from ds_lint.diagnostics.finding import STACKS
from ds_lint.facts import Sources
from ds_lint.knowledge import resources, tables
from ds_lint.knowledge.keys import Target
from ds_lint.record import Record, field
from ds_lint.source.tree import Span
from ds_lint.targets.pin import LIBRARIES

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator

    from ds_lint.diagnostics.finding import Finding, Stack
    from ds_lint.diagnostics.rule import Rule

KINDS = ("bad", "good")
FINDINGS = "findings"
FIXED = "fixed"
POLICY = "json policy"
REQUIREMENTS = "requirements.txt"
HOSTS = "hosts"  # the hostfile of ``deepspeed``
FENCE = "```"
TABLE = "| severity | effect | since |\n|---|---|---|\n"  # one row below it


class PageError(ValueError):
    """A page that is not written as this module's docstring says."""


class Fixed(Record):
    """What the fixes make of an example: the text, where it is in the page, and which fixes are applied."""

    text: str
    span: Span
    safeties: tuple[str, ...]


class Example(Record):
    """One config of a page. ``findings`` are the lines that a bad one expects; ``findings_span`` is where they are.

    ``fixed`` is what the fixes make of it, where the page shows that.

    ``line`` is the number in the page of the config's first line, counted from 1, for messages about the example.
    """

    kind: str
    language: str
    config: str
    line: int
    stack: Stack | None = None
    before: Target | None = None  # what an upgrade leaves
    policy: str | None = None  # a JSON Schema of an organisation
    files: dict[str, str] = field(factory=dict)  # beside the config, by name
    checkpoint: str | None = None  # that the launch resumes from: its ranks, stage2, stage3, mixed or weights
    encoding: str = "utf-8"
    is_run: bool = False  # whether it is trained with
    findings: list[str] = field(factory=list)
    fixed: Fixed | None = None

    def __post_init__(self) -> None:
        self.target = Target()
        self.facts = Sources()
        self.findings_span = Span(0, 0)

    @property
    def data(self) -> bytes:
        """The config as the bytes of a file."""
        return self.config.encode(self.encoding)


class Block(Record):
    """A fenced block: its info string, its text, the offsets of the text in the page, and the line it begins on.

    ``fence`` is the offset of the line before the text, which has the info string.
    """

    info: str
    text: str
    span: Span
    line: int
    fence: int


class Row(NamedTuple):
    """What the table of a page says of the findings of its rule, the worst first, and since when there is the rule."""

    severities: list[str]
    effects: list[str]
    since: str


def path(rule: Rule | Finding) -> str:
    """Where the page of a rule lies, or of the rule that found something."""
    return resources.path("rules", f"{rule.code}-{rule.name}.md")


def page(rule: Rule | Finding) -> str:
    """The page of a rule, or of the rule that found something; raises OSError where there is none."""
    with open(path(rule), encoding="utf-8") as file:
        return file.read()


def summary(rule: Rule) -> str:
    """What the rule catches, in one sentence: the first paragraph of its page."""
    return first_paragraph(page(rule))


def first_paragraph(text: str) -> str:
    """The paragraph after the title, on one line."""
    _, _, below_title = text.partition("\n")
    return " ".join(below_title.strip().partition("\n\n")[0].split())


def row(text: str) -> Row:
    """What the table of a page says; raises PageError where there is none."""
    _, found, rest = text.partition(TABLE)
    if not found:
        raise PageError(f"no table that begins with {TABLE.splitlines()[0]!r}")
    severities, effects, since = (cell.strip() for cell in rest.partition("\n")[0].strip("|").split("|"))
    return Row(severities.split(", "), effects.split(", "), since)


def fixes(text: str) -> list[str]:
    """Which fixes a page says that its rule offers: safe ones, unsafe ones, or both."""
    ways_out = text.partition("## How to fix")[2]
    return [safety for flag, safety in (("`--fix`", "safe"), ("`--unsafe-fixes`", "unsafe")) if flag in ways_out]


def examples(text: str) -> list[Example]:
    """The examples of a page, in its order; raises PageError where one is not written as it should be."""
    found: list[Example] = []
    open_example: Example | None = None  # a bad one that still waits for its findings
    policy: str | None = None
    files: dict[str, str] = {}
    for block in blocks(text):
        if block.info == POLICY:
            policy = block.text
        elif (name := file_name(block)) is not None:
            is_for_others = bool(found) and found[-1].files is files
            files = {name: block.text} if is_for_others else {**files, name: block.text}
        elif block.info == FINDINGS:
            if open_example is None:
                raise PageError(f"line {block.line}: findings without a bad example before them")
            open_example.findings = block.text.splitlines()
            open_example.findings_span = block.span
            open_example = None
        elif (safeties := _SAFETIES.get(block.info.partition(" ")[2])) is not None:
            if open_example is not None or not found or found[-1].kind != "bad":
                raise PageError(f"line {block.line}: a fixed config without a bad one and its findings before it")
            found[-1].fixed = Fixed(block.text, block.span, safeties)
        elif (example := _example(block)) is not None:
            _expect_closed(open_example)
            example.policy = policy
            example.files = files
            found.append(example)
            open_example = example if example.kind == "bad" else None
    _expect_closed(open_example)
    return found


def file_name(block: Block) -> str | None:
    """The name of the file that a block shows beside the configs below it; None if it shows something else."""
    language, _, name = block.info.partition(" ")
    if language == "text" and name in (REQUIREMENTS, HOSTS):
        return name
    return name if re.fullmatch(r"[\w-]+\.(?:sh|py|yaml)", name) and language in ("bash", "python", "yaml") else None


_SAFETIES = {FIXED: ("safe",), f"{FIXED} unsafe": ("safe", "unsafe")}  # by the words after the language


def _expect_closed(example: Example | None) -> None:
    if example is not None:
        raise PageError(f"line {example.line}: a bad example without findings after it")


def _example(block: Block) -> Example | None:
    """The example that a block holds; None for a block that is prose."""
    language, *words = block.info.split() or [""]
    if not words or words[0] not in KINDS:
        return None
    example = Example(words[0], language, block.text, block.line)
    for word in words[1:]:
        option, _, value = word.partition("=")
        if not _set(example, option, value):
            raise PageError(f"line {block.line}: an example has no option {word!r}")
    return example


def _set(example: Example, option: str, value: str) -> bool:
    """Set an option; false where there is no such option or value."""
    if option == "stack" and value in STACKS:
        example.stack = value
    elif option in LIBRARIES and value in tables.load(option)["releases"]:
        setattr(example.target, option, value)
    elif option == "from" and value in tables.load("deepspeed")["releases"]:
        example.before = Target(deepspeed=value)
    elif option == "checkpoint" and (value.isdigit() or value in ("weights", "mixed", "stage2", "stage3")):
        example.checkpoint = value
    elif option == "libaio" and value == "missing":
        example.facts.async_io = False
    elif option == "model":
        example.facts.model = resources.path("tests", "models", value)
    elif (fact := next((one for one in Sources.options() if one.dashed == option), None)) is not None:
        if fact.is_number and not value.isdigit():
            return False
        setattr(example.facts, fact.name, int(value) if fact.is_number else value.replace("|", " "))
    elif option == "smoke" and not value:
        example.is_run = True
    elif option == "encoding":
        example.encoding = value
    elif option == "ellipsis" and value.isdigit():
        example.config = re.sub(r"(.)\.\.\.", lambda found: found[1] * int(value), example.config)
    else:
        return False
    return True


def blocks(text: str) -> Iterator[Block]:
    """Every fenced block, the fences themselves left out."""
    opening: tuple[str, int, int, int] | None = None  # info string, offset and line number of the text; its own offset
    offset = 0
    for number, line in enumerate(text.splitlines(keepends=True), start=1):
        if line.startswith(FENCE):
            if opening is None:
                opening = line[len(FENCE) :].strip(), offset + len(line), number + 1, offset
            else:
                info, start, first, fence = opening
                yield Block(info, text[start:offset], Span(start, offset), first, fence)
                opening = None
        offset += len(line)
    if opening is not None:
        raise PageError(f"line {opening[2] - 1}: a fenced block without an end")
