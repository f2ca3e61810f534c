"""One config as the rules see it: its tree, what the target knows of each key, and who may load it."""

from __future__ import annotations

from ds_lint.diagnostics.finding import STACKS
from ds_lint.source.dialect import hjson_refusal
from ds_lint.source.spelling import AUTO
from ds_lint.source.tree import Node, Span, as_read, dotted

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from typing import Any, TypeVar

    from ds_lint.diagnostics.finding import Foreign, Stack
    from ds_lint.facts.training import Argument
    from ds_lint.knowledge.keys import Key
    from ds_lint.semantics.accelerate.file import AccelerateFile
    from ds_lint.semantics.basis import Basis
    from ds_lint.semantics.config_call import ConfigCall
    from ds_lint.semantics.preset_config import PresetConfig
    from ds_lint.source.document import Document
    from ds_lint.source.tree import KeyPath, Member, Scalar

    Result = TypeVar("Result")


class Visit:
    """One key of the config, with what the target knows of it (None: nothing) and of the section it is in."""

    __slots__ = ("key", "member", "path", "section")

    def __init__(self, path: KeyPath, member: Member, key: Key | None, section: Key) -> None:
        self.path = path
        self.member = member
        self.key = key
        self.section = section

    @property
    def value(self) -> Node:
        """The value under the key."""
        return self.member.value


class Reading:
    """A value as some of the possible stacks read it."""

    __slots__ = ("kind", "stacks", "value")

    def __init__(self, stacks: tuple[Stack, ...], kind: str, value: Scalar) -> None:
        self.stacks = stacks
        self.kind = kind
        self.value = value


class Config:
    """What rules ask of one config.

    ``stacks`` are the stacks that may load it: one where it is known, all of them where nothing tells. ``written`` is
    its tree, and ``root`` the same with the values that are known to stand for an ``"auto"``. What it is checked
    against is explained at ``Basis``.
    """

    __slots__ = (
        "accelerate",
        "basis",
        "before",
        "call",
        "derived",
        "document",
        "facts",
        "filled",
        "is_upgrade",
        "knowledge",
        "policies",
        "preset",
        "quoted",
        "remarkable",
        "root",
        "stacks",
        "unknown",
        "visits",
        "written",
    )

    def __init__(self, document: Document, root: Node, basis: Basis) -> None:
        self.document = document
        self.root = self.written = root
        self.basis = basis
        self.knowledge = basis.knowledge
        self.facts = basis.facts
        self.before = basis.before
        self.is_upgrade = basis.is_upgrade
        self.policies = basis.policies
        self.accelerate: AccelerateFile | None = None  # of a YAML of ``accelerate launch``, which ``root`` follows from
        self.call: ConfigCall | None = None  # of a class, which makes ``root`` of the keywords
        self.preset: PresetConfig | None = None  # that a framework ships, of which the text has the name alone
        self.quoted: list[Document] = []  # files that findings refer to, which were read for their sake
        self.derived: dict[str, Any] = {}  # what ``once`` remembers: of each function its answer
        self.filled: dict[Span, str] = {}  # where an "auto" stands for which a value is checked, and what fills it
        self.stacks: tuple[Stack, ...] = (basis.stack,) if basis.stack else self._possible_stacks()
        self._look(root)

    def fill(self, root: Node, added: list[Member], filled: dict[Span, str]) -> None:
        """Let rules see values in place of ``"auto"``, and the sections that the stack adds."""
        self.filled = filled
        self.root = Node(root.kind, root.span, root.value, [*root.members, *added], root.items)
        self._look(root)

    def _look(self, root: Node) -> None:
        self.visits: list[Visit] = []
        _visit(root, self.knowledge.root, self.visits)
        if (new := root.get("bf16")) is not None and new.kind != "null":
            self.visits = [visit for visit in self.visits if visit.path[0] != "bfloat16"]  # nothing looks at it
        self.unknown = [visit for visit in self.visits if visit.key is None]
        self.remarkable = [visit for visit in self.visits if visit.key is not None and visit.key.is_remarkable]

    @property
    def maker(self) -> AccelerateFile | ConfigCall | PresetConfig | None:
        """What the config is made of, with settings of other names; None if the text is the config."""
        return self.preset or (self.accelerate if self.accelerate is not None else self.call)

    @property
    def opening(self) -> Span:
        """The opening of the config: where to point for what is not there. Of a preset it is the word."""
        if self.preset is not None:
            return self.root.span
        start = self.root.span.start
        return Span(start, min(start + 1, self.root.span.end))

    @property
    def document_start(self) -> Span:
        """The first key of the file: where to point for what is not there."""
        root = self.document.root
        return root.members[0].key_span if root is not None and root.members else self.opening

    @property
    def from_file(self) -> bool:
        """Whether DeepSpeed reads a file with hjson; a dict it takes as it is."""
        return not self.document.is_dict

    @property
    def world_size(self) -> int | None:
        """The number of ranks, or None if it is not known."""
        return self.facts.world_size

    @property
    def is_empty(self) -> bool:
        """Whether there is nothing in the file, which hjson reads as an empty object."""
        return self.document.root is None

    @property
    def is_binary(self) -> bool:
        """Whether the file is not text in any encoding; one of a single byte a letter has no NUL in it."""
        return not self.document.is_utf8 and "\0" in self.document.text

    @property
    def foreign(self) -> Foreign | None:
        """What the file is where it is not a config at all."""
        if not self.document.has_config:
            return "python" if self.document.is_unparsed else "fsdp" if self.document.is_of_fsdp else "names"
        return "yaml" if self.is_yaml else "binary" if self.is_binary else None

    @property
    def is_cut_off(self) -> bool:
        """Whether the text ends in the middle of a member, so that the rest of it is unknown."""
        issues = self.document.issues
        if all(issue.kind != "unclosed" for issue in issues):
            return False
        end = self.document.content_end
        breaks_off = ("unterminated-string", "stray-text")
        return (
            any(issue.kind in breaks_off and issue.span.end >= end for issue in issues)
            or self.document.content.rstrip()[-1:] in "{[,:"
            or self.is_last_word(self._last_value)
        )

    @property
    def is_excerpt(self) -> bool:
        """Whether the text shows a part of a config: it breaks off, or has an ellipsis where a member could be.

        No reader takes such a text, so it never runs as it is, and what is missing is not a mistake. A text without
        either is used as it is, however short: the stack refuses it for what it lacks.
        """
        return self.is_cut_off or any(
            issue.kind == "stray-text" and issue.found.strip(", ") in ("...", "\u2026")
            for issue in self.document.issues
        )

    def is_last_word(self, value: Node | None) -> bool:
        """Whether the text ends before this value, so that its key may have been meant to be longer."""
        return value is not None and value.kind == "missing" and value.span.end >= self.document.content_end

    @property
    def _last_value(self) -> Node | None:
        node = self.document.root
        while node is not None and (node.members or node.items):
            node = node.members[-1].value if node.members else node.items[-1]
        return node

    @property
    def is_yaml(self) -> bool:
        """Whether the file is YAML: a mark where it starts, or no braces around it, and sections by indentation.

        By the name of the file it is also what hjson cannot read.
        """
        kinds = {issue.kind for issue in self.document.issues}
        if kinds.isdisjoint({"no-braces", "stray-text"}):
            return False
        from re import MULTILINE, search

        if search(r"\A\ufeff?(?:\s|#[^\n]*\n)*(?:---(?=\s)|%YAML\b)", self.document.content) is not None:
            return True
        if "no-braces" not in kinds:
            return False
        if search(r"^\w+:[ \t]*(#.*)?\r?\n[ \t]+[\w-]+", self.document.content, MULTILINE) is not None:
            return True
        return self.document.is_in_yaml and hjson_refusal(self.document) is not None

    @property
    def stack(self) -> Stack | None:
        """The stack that loads this config, or None if it is unknown."""
        return self.stacks[0] if len(self.stacks) == 1 else None

    def node(self, *path: str) -> Node | None:
        """The node under a key path, or None if there is none or the target knows no such key."""
        found = self.root.at(path)
        return found if found is not None and self.knowledge.knows(path) else None

    def value(self, *path: str) -> Scalar:
        """The scalar under a key path; None if there is none."""
        node = self.node(*path)
        return node.value if node is not None else None

    def member(self, *path: str) -> Member | None:
        """The member at a key path, or None."""
        section = self.root.at(path[:-1])
        found = section.member(path[-1]) if section is not None else None
        return found if found is not None and self.knowledge.knows(path) else None

    def section(self, *path: str) -> Node | None:
        """The object under a key path, or None if there is none or it is not an object."""
        node = self.node(*path)
        return node if node is not None and node.kind == "object" else None

    def is_written(self, path: KeyPath) -> bool:
        """Whether the file itself says what is at a key path: no stack filled or added it."""
        node = self.written.at(path)
        return node is not None and node.span not in self.filled

    def readings(self, node: Node) -> list[Reading]:
        """The value as the possible stacks read it: one reading unless hjson and json differ on it."""
        if node.kind == "float" and self.from_file and "deepspeed" in self.stacks and not self.knowledge.reads_json:
            rounded = as_read(node)
            if isinstance(rounded, int):
                others = tuple(stack for stack in self.stacks if stack != "deepspeed")
                readings = [Reading(("deepspeed",), "integer", rounded)]
                return readings + ([Reading(others, node.kind, node.value)] if others else [])
        return [Reading(self.stacks, node.kind, node.value)]

    def filled_by(self, path: KeyPath) -> tuple[str, ...]:
        """The stacks that replace an ``"auto"`` at this path."""
        filled = self.knowledge.trainer["fills"].get(dotted(path))
        return tuple(filled["by"]) if filled else ()

    def argument(self, name: str) -> Argument | None:
        """A field of TrainingArguments: what was given, else the default of the target; None where it is not known."""
        if self.facts.training is None:
            return None
        from ds_lint.facts.argument_values import argument  # not needed without training arguments

        return argument(self.facts.training, self.knowledge, name, of_trl=self._releases_of_trl)

    def created(self, name: str) -> Argument | None:
        """The same as it is when TrainingArguments are made, which the script may change afterwards."""
        if self.facts.training is None:
            return None
        from ds_lint.facts.argument_values import argument

        return argument(self.facts.training, self.knowledge, name, is_creation=True, of_trl=self._releases_of_trl)

    def default_of_trl(self, name: str) -> Any:
        """The default that the class of trl has for a field of its own; None if the field is given, or not known."""
        if self.facts.training is None:
            return None
        from ds_lint.facts.argument_values import default_of_class

        return default_of_class(self.facts.training, self.knowledge, name, self._releases_of_trl)

    def _releases_of_trl(self) -> list[str]:
        """The releases of trl that the project may use."""
        from ds_lint.knowledge.called_classes import possible_releases  # few scripts have a class of trl

        pin = self.basis.pins.get("trl")
        return possible_releases(None if pin is None else pin.specifier, self.knowledge.target["transformers"])

    def _possible_stacks(self) -> tuple[Stack, ...]:
        """Training arguments mean the Trainer.

        Any "auto" in a place that is filled means Trainer or Accelerate; in a Trainer-only place, the Trainer.
        """
        if self.facts.training is not None:
            return ("trainer",)
        if self.document.is_fragment:
            return STACKS  # an "auto" may be filled in by the program
        stacks = STACKS
        for path in _filled_autos(self):
            stacks = tuple(stack for stack in self.knowledge.trainer["fills"][path]["by"] if stack in stacks)
        return stacks or ("trainer",)


def once(function: Callable[[Config], Result]) -> Callable[[Config], Result]:
    """Let a question that many rules ask of a config be answered once."""
    name = function.__qualname__

    def remembered(config: Config) -> Result:
        if name not in config.derived:
            config.derived[name] = function(config)
        answer: Result = config.derived[name]
        return answer

    remembered.__doc__ = function.__doc__
    return remembered


def _filled_autos(config: Config) -> Iterator[str]:
    if AUTO in config.document.text:
        for path in config.knowledge.trainer["fills"]:
            if config.value(*path.split(".")) == AUTO:
                yield path


def _visit(node: Node, section: Key, visits: list[Visit]) -> None:
    """Collect every key that DeepSpeed may look at, sections before what they hold.

    Below a key that DeepSpeed does not know, or that takes its keys from elsewhere (``optimizer.params``), nothing.
    """
    for member in node.members:
        if node.member(member.key) is not member:
            continue  # an earlier duplicate; the last one is what is read
        key = section.child(member.key)
        visits.append(Visit((*section.path, member.key), member, key, section))
        value = member.value
        if key is None or not (value.members or value.items):
            continue
        if key.is_section:
            if "removed" in key.facts or key.facts.get("unknown") == "by-type":
                continue
            if value.kind == "object":
                _visit(value, key, visits)
            elif (item := key.item()) is not None:
                for element in value.items:
                    _visit(element, item, visits)
        elif value.kind == "object" and key.is_scalar and "unread" not in key.facts:
            _visit(value, key, visits)
