"""Rules about the file and its syntax (DS0xx): what json rejects, what hjson rejects, and what they read differently.

The Trainer and Accelerate read a config with Python's json, DeepSpeed with hjson. What json rejects depends on the
construct alone; what hjson does with a construct depends on the text around it, so ``hjson.parse`` repeats its reading.
"""

from __future__ import annotations

import sys
from bisect import bisect_right

from ds_lint.diagnostics.finding import Edit, Fix, Related
from ds_lint.diagnostics.problem import ADVICE, OVERRIDDEN, RISK, WRONG_RESULT, Outcome, Problem, rejected
from ds_lint.diagnostics.rule import rule
from ds_lint.fixes import edits
from ds_lint.source.dialect import (
    ALWAYS,
    DEPENDS,
    NEVER,
    as_hjson_reads,
    is_readable,
    reads_alike,
    reads_value_alike,
    refused_by,
)
from ds_lint.source.document import NOT_UTF8, UNDEFINED, UNPARSED
from ds_lint.source.limits import MOST_NESTING_JSON
from ds_lint.source.recognition import looks_like_accelerates
from ds_lint.source.spelling import as_json
from ds_lint.source.tree import Span

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator

    from ds_lint.diagnostics.finding import Stack
    from ds_lint.semantics.config import Config
    from ds_lint.source.document import Document, SyntaxIssue
    from ds_lint.source.tree import KeyPath, Member, Node

# What a message says about a construct that is not JSON, and what to do.
_WORDS = {
    "comment": (
        "JSON does not allow comments",
        "Delete the comment, or move its text to a top-level key that starts with an underscore.",
    ),
    "trailing-comma": ("JSON does not allow trailing commas", "Delete the comma."),
    "unquoted-key": ("JSON requires double quotes around keys", "Put the key in double quotes."),
    "unquoted-value": ("JSON requires double quotes around strings", "Put the value in double quotes."),
    "single-quotes": ("JSON does not allow single quotes", "Use double quotes."),
    "triple-quotes": ("JSON does not allow ''' strings", "Use a string in double quotes."),
    "bom": ("JSON does not allow a byte order mark", 'Save the file as "UTF-8", not as "UTF-8 with BOM".'),
    "no-braces": ("JSON requires braces around the config", "Put { and } around the config."),
    "missing-comma": ("a comma is missing between two members", "Add the comma."),
    "extra-comma": ("there is an extra comma", "Delete it."),
    "missing-key": ("a value has no key", "Add the key, or delete the value."),
    "missing-colon": ("a colon is missing after a key", "Add the colon."),
    "missing-value": ("a key has no value", "Add the value, or delete the key."),
    "number-format": (
        "JSON does not allow this number format",
        "Write it as JSON does: 0.5, 1.0 or 16, with no extra leading zero, plus sign or underscore.",
    ),
    "bad-escape": ("JSON does not allow this escape", "Write two backslashes for this one."),
    "unterminated-string": ("a string is never closed", "Add the closing quote."),
    "unclosed": ("a bracket is never closed", "Close it."),
    "unopened": ("the first brace is missing", "Add { before the config."),
    "stray-text": ("unexpected text", "Delete it."),
}
_CONTROL_CHARACTERS = {"\n": "a line break", "\r": "a carriage return", "\t": "a tab", "\0": "a NUL", "\x1b": "an ESC"}
_SEEN = "\n\r\t"  # which need no number to be known by
_LIMITS = {
    "deep-nesting": "objects and arrays are nested too deep",
    "long-integer": "an integer has more digits than Python can read",
}
_LONGEST = 60  # characters of a string that a message repeats
_OF_JSON = {"false": "False", "null": "None", "true": "True"}
_ONCE = "comment"  # one finding for all of them: a file with comments has many


@rule("DS001", "not-utf8", severity="error", effects=("rejected",), kind="syntax", alone_on="binary")
def not_utf8(config: Config) -> Iterator[Problem]:
    """The file is not UTF-8."""
    for issue in _of(config, NOT_UTF8):
        yield Problem(
            None,
            issue.span,
            f"the file is not UTF-8 ({issue.found}): it cannot be loaded",
            rejected("load"),
            help="Save the file as UTF-8.",
            label="not UTF-8",
        )


@rule("DS002", "hjson-only-syntax", severity="error", effects=("rejected",), kind="syntax")
def hjson_only_syntax(config: Config) -> Iterator[Problem]:
    """Comments, trailing commas and other syntax that DeepSpeed reads and the Trainer and Accelerate reject."""
    seen: set[str] = set()
    for issue in config.document.issues:
        words = _words(issue)
        if words is None or not _hjson_reads_it(config, issue) or issue.kind in seen:
            continue
        if issue.kind == _ONCE:
            seen.add(_ONCE)
        what, instead = words
        yield Problem(
            issue.path,
            issue.span,
            f"{what}: the Trainer and Accelerate reject the file, but DeepSpeed reads it",
            {stack: rejected("load") for stack in config.stacks if stack != "deepspeed"},
            help=instead,
            label=issue.kind.replace("-", " "),
            severity="warning" if "deepspeed" in config.stacks else "error",
            fix=_offered(config, _as_strict_json(config, issue)),
        )


@rule("DS003", "duplicate-key", severity="error", effects=("rejected", "overridden"), kind="syntax")
def duplicate_key(config: Config) -> Iterator[Problem]:
    """The same key appears twice in one object."""
    befores: dict[KeyPath, dict[int, Member]] = {}  # by object
    for issue in _of(config, "duplicate-key"):
        name = issue.found.strip("\"'")
        path = issue.path
        yield Problem(
            path,
            issue.span,
            f"duplicate key `{name}`: {_DUPLICATE[_who_loads(config)]}",
            {stack: rejected("load") if stack == "deepspeed" else OVERRIDDEN for stack in config.stacks},
            help="Delete one of the two.",
            label="this one wins with the Trainer",
            related=[Related(issue.related, "the first")] if issue.related else [],
            fix=_offered(config, _without_the_one_before(config, path, issue.span, befores)) if path else None,
        )


@rule("DS004", "python-literal", severity="error", effects=("rejected", "wrong-result"), kind="syntax")
def python_literal(config: Config) -> Iterator[Problem]:
    """``True``, ``False`` or ``None`` instead of ``true``, ``false`` or ``null``."""
    for issue in _of(config, "python-literal"):
        right = _as_json_literal(issue)
        yield Problem(
            issue.path,
            issue.span,
            f"`{issue.found}` is Python, not JSON: {_what_happens(config, issue)}",
            _outcomes(config, issue),
            help=f"Write {right}.",
            label=f"{right} in JSON",
            fix=_offered(config, _as_strict_json(config, issue)),
        )


@rule("DS005", "not-a-number", severity="error", effects=("rejected", "wrong-result", "risk"), kind="syntax")
def not_a_number(config: Config) -> Iterator[Problem]:
    """``NaN``, ``Infinity`` and ``1e400``, which json reads as numbers and hjson does not."""
    for issue in config.document.issues:
        if issue.kind not in ("not-a-number", "infinite-number"):
            continue
        yield Problem(
            issue.path,
            issue.span,
            f"`{issue.found}` is not a finite number: {_what_becomes_of_it(config, issue)}",
            dict.fromkeys(config.stacks, RISK) | _outcomes(config, issue),
            help="Write a finite number, or delete the key.",
            label="not a finite number",
        )


@rule("DS006", "broken-syntax", severity="error", effects=("rejected", "wrong-result"), kind="syntax")
def broken_syntax(config: Config) -> Iterator[Problem]:
    """Everything else that is not JSON."""
    for issue in config.document.issues:
        words = _words(issue)
        if words is None or _hjson_reads_it(config, issue):
            continue
        what, instead = words
        yield Problem(
            issue.path,
            issue.span,
            f"{what}: {_what_happens(config, issue)}",
            _outcomes(config, issue),
            help=instead,
            label=issue.kind.replace("-", " "),
            fix=_offered(config, _as_strict_json(config, issue)),
        )


@rule("DS007", "template", severity="info", effects=("risk",), kind="syntax")
def template(config: Config) -> Iterator[Problem]:
    """The file contains a placeholder that is replaced before DeepSpeed reads it."""
    for issue in _of(config, "template"):
        yield Problem(
            issue.path,
            issue.span,
            f"`{issue.found}` is a placeholder: the values that replace placeholders are not checked",
            RISK,
            help="Check the rendered file too: pipe it into `ds-lint check -`.",
            label="placeholder",
        )
        return


@rule("DS008", "not-an-object", severity="error", effects=("rejected",), kind="syntax")
def not_an_object(config: Config) -> Iterator[Problem]:
    """The config is an array, a string or a number."""
    for issue in _of(config, "not-an-object"):
        yield Problem(
            None,
            issue.span,
            "a DeepSpeed config must be a JSON object in braces, but this file contains something else",
            {stack: rejected("parse" if stack == "deepspeed" else "initialize") for stack in config.stacks},
            help='Write an object, for example {"train_micro_batch_size_per_gpu": 1}.',
            label="not an object",
        )


@rule("DS009", "deep-nesting", severity="error", effects=("rejected",), kind="syntax")
def deep_nesting(config: Config) -> Iterator[Problem]:
    """The file has more levels, or a number more digits, than Python can read."""
    for issue in config.document.issues:
        if issue.kind in _LIMITS:
            yield Problem(
                None,
                issue.span,
                f"{_LIMITS[issue.kind]}: "
                + ("the file cannot be loaded" if _json_rejects(issue) else "DeepSpeed cannot load the file"),
                _outcomes(config, issue),
                help="Shorten the value: no DeepSpeed key needs this.",
                label="too deep" if issue.kind == "deep-nesting" else "too long",
            )


@rule("DS010", "empty-file", severity="error", effects=("rejected",), kind="syntax")
def empty_file(config: Config) -> Iterator[Problem]:
    """The file is empty."""
    for issue in _of(config, "empty"):
        yield Problem(
            None,
            issue.span,
            "the file is empty: the Trainer and Accelerate cannot load it, and DeepSpeed finds no batch size",
            {stack: rejected("parse" if stack == "deepspeed" else "load") for stack in config.stacks},
            help='Write a config, at least {"train_micro_batch_size_per_gpu": 1}.',
            label="empty",
        )


@rule("DS014", "unparsed-python", severity="warning", effects=("advice",), kind="syntax", alone_on="python")
def unparsed_python(config: Config) -> Iterator[Problem]:
    """The Python that runs ds-lint does not parse a module, or a cell of a notebook, that may have a config."""
    what = "cell" if config.document.notebook is not None else "module"
    release = ".".join(map(str, sys.version_info[:2]))
    for issue in _of(config, UNPARSED):
        yield Problem(
            None,
            issue.span,
            f"Python cannot parse this {what} ({issue.found}), so the configs in it are not checked",
            ADVICE,
            help=f"ds-lint runs with Python {release}: run it with the release that the {what} is written for, or "
            "correct the syntax.",
            label="not parsed",
        )


@rule("DS015", "json-literal", severity="error", effects=("rejected",), kind="syntax")
def json_literal(config: Config) -> Iterator[Problem]:
    """``true``, ``false`` or ``null`` instead of ``True``, ``False`` or ``None`` in Python."""
    for issue in _of(config, UNDEFINED):
        right = _OF_JSON[issue.found]
        yield Problem(
            issue.path,
            issue.span,
            f"`{issue.found}` is JSON, not Python, and no name of the module: the script raises a NameError",
            rejected("load"),
            help=f"Write {right}.",
            label=f"{right} in Python",
            fix=Fix(f"Write {right}", "safe", [Edit(issue.span, right)]),
        )


@rule("DS011", "yaml", severity="error", effects=("rejected", "wrong-result"), kind="syntax", alone_on="yaml")
def yaml(config: Config) -> Iterator[Problem]:
    """The config is YAML, which json rejects and hjson misreads."""
    if not config.is_yaml:
        return
    tree = _hjson_tree(config)
    broken = tree is None
    texts = [] if tree is None else [member.key for member in tree.members if _is_section_as_text(config, member)]
    outcomes: dict[Stack, Outcome] = {stack: rejected("load") for stack in config.stacks if stack != "deepspeed"}
    if "deepspeed" in config.stacks:
        outcomes["deepspeed"] = rejected("load") if broken else rejected("parse") if texts else WRONG_RESULT
    start = config.root.span.start
    first_line = Span(start, config.document.text.find("\n", start) if "\n" in config.document.text[start:] else start)
    if looks_like_accelerates(config.document.text):
        yield Problem(
            None,
            first_line,
            "this is YAML, but `accelerate launch --config_file` reads a file whose name ends with .json as JSON",
            outcomes,
            help="Give the file a name that ends with .yaml.",
            label="Accelerate's config",
        )
        return
    if broken:
        what_happens = "the file cannot be read"
    elif texts and config.stack == "deepspeed":
        what_happens = f"DeepSpeed reads `{texts[0]}` as a string and raises an error"
    else:
        what_happens = "DeepSpeed loses indented sections, and the Trainer and Accelerate cannot read it"
    yield Problem(
        None,
        first_line,
        f"this is YAML, not JSON: {what_happens}",
        outcomes,
        help="Write it as JSON: put every section in braces and every key in double quotes.",
        label="YAML",
    )


def _words(issue: SyntaxIssue) -> tuple[str, str] | None:
    """What a message says about a construct that is not JSON, and what to do; None if another rule reports it."""
    if issue.kind != "control-character":
        return _WORDS.get(issue.kind)
    character = issue.found[0]
    name = _CONTROL_CHARACTERS.get(character, "a control character")
    number = "" if character in _SEEN else f" (U+{ord(character):04X})"
    return f"a string contains {name}{number}", f"Write {as_json(character)[1:-1]}, or delete it."


def _offered(config: Config, fix: Fix | None) -> Fix | None:
    """The fix to offer: none is safe in a text that no library can read after all safe fixes."""
    if fix is not None and fix.safety == "safe" and not _can_be_read_once_fixed(config):
        return Fix(fix.title, "unsafe", fix.edits)
    return fix


def _can_be_read_once_fixed(config: Config) -> bool:
    """Whether json or hjson can read the text, as it is or after all safe fixes of its syntax."""
    if "can be read" not in config.derived:
        document = config.document
        is_template = any(issue.kind == "template" for issue in document.issues)  # which is filled in before it is read
        config.derived["can be read"] = is_template or is_readable(document) or is_readable(_fixed(config))
    answer: bool = config.derived["can be read"]
    return answer


def _fixed(config: Config) -> Document:
    """The text after all safe fixes of its syntax; of those that meet, the first."""
    from ds_lint.fixes.application import edited
    from ds_lint.source import documents

    chosen: list[Edit] = []
    for issue in config.document.issues:
        fix = _as_strict_json(config, issue)
        for edit in fix.edits if fix is not None and fix.safety == "safe" else ():
            if not chosen or chosen[-1].span.end <= edit.span.start:
                chosen.append(edit)
    return documents.again(config.document, edited(config.document.text, chosen)) or config.document


def _as_json_literal(issue: SyntaxIssue) -> str:
    return {"true": "true", "false": "false"}.get(issue.found.lower(), "null")


def _as_strict_json(config: Config, issue: SyntaxIssue) -> Fix | None:
    """The JSON for a construct, if its meaning is clear."""
    if issue.kind == "python-literal":
        right = _as_json_literal(issue)
        return Fix(f"Write {right}", "safe", [Edit(issue.span, right)])
    if issue.kind in ("trailing-comma", "extra-comma"):
        return Fix("Delete the comma", "safe", [Edit(issue.span, "")])
    if issue.kind == "missing-comma":
        return Fix("Add the comma", "safe", [Edit(issue.span, ",")])
    written = config.document.text[issue.span.start : issue.span.end]
    if issue.kind in ("unquoted-key", "unquoted-value", "single-quotes") and not any(one in written for one in '"\\'):
        inside = written[1:-1] if issue.kind == "single-quotes" else written
        # A bare word may be a string, or a variable of the script that the text was copied from.
        is_word = issue.kind == "unquoted-value" and not _hjson_reads_it(config, issue)
        return Fix("Use double quotes", "unsafe" if is_word else "safe", [Edit(issue.span, f'"{inside}"')])
    if issue.kind == "number-format":
        return _as_json_number(config, issue)
    return None


def _as_json_number(config: Config, issue: SyntaxIssue) -> Fix | None:
    """``1_000`` and ``.5`` as JSON writes them."""
    path = issue.path
    node = config.document.root.at(path) if config.document.root is not None and path else None
    if node is None or node.span != issue.span or not isinstance(node.value, (int, float)):
        return None
    number = as_json(node.value)
    return Fix(f"Write {number}", "safe", [Edit(issue.span, number)])


def _without_the_one_before(
    config: Config, path: KeyPath, span: Span, befores: dict[KeyPath, dict[int, Member]]
) -> Fix | None:
    """Delete the duplicate before one, which json does not use; if it differs from the last one, the fix is unsafe.

    So the fixes of many duplicates have a member each, and delete all but the last together.
    """
    section = config.written.at(path[:-1])
    if section is None:
        return None
    if path[:-1] not in befores:
        befores[path[:-1]] = _befores(section)
    member, other = befores[path[:-1]].get(span.start), section.member(path[-1])
    if member is None or other is None:
        return None
    text = config.document.text
    one, another = (text[found.value.span.start : found.value.span.end] for found in (member, other))
    return edits.deletion(config, path, "safe" if one == another else "unsafe", member=member)


def _befores(section: Node) -> dict[int, Member]:
    """By the start of each duplicate the one before it."""
    last: dict[str, Member] = {}
    found = {}
    for member in section.members:
        if member.key in last:
            found[member.key_span.start] = last[member.key]
        last[member.key] = member
    return found


def _is_section_as_text(config: Config, member: Member) -> bool:
    key = config.knowledge.root.child(member.key)
    return key is not None and key.is_section and member.value.kind == "string"


def _who_loads(config: Config) -> tuple[bool, bool]:
    """Whether DeepSpeed alone loads the file, and whether it may."""
    return config.stack == "deepspeed", "deepspeed" in config.stacks


_DUPLICATE = {
    (True, True): "DeepSpeed rejects the file",
    (False, True): "DeepSpeed rejects the file, the Trainer and Accelerate silently use the last one",
    (False, False): "the last one silently overrides the first",
}


def _of(config: Config, kind: str) -> Iterator[SyntaxIssue]:
    return (issue for issue in config.document.issues if issue.kind == kind)


def _outcomes(config: Config, issue: SyntaxIssue) -> dict[Stack, Outcome]:
    """What each stack does with a construct; a stack that reads it correctly is missing."""
    outcomes: dict[Stack, Outcome] = {}
    if _json_rejects(issue):
        outcomes = {stack: rejected("load") for stack in config.stacks if stack != "deepspeed"}
    if "deepspeed" in config.stacks and not _hjson_reads_it(config, issue):
        outcomes["deepspeed"] = rejected("load") if _hjson_tree(config) is None else WRONG_RESULT
    return outcomes


def _json_rejects(issue: SyntaxIssue) -> bool:
    if issue.kind == "deep-nesting":
        return int(issue.found) > MOST_NESTING_JSON
    return refused_by(issue.kind).json == ALWAYS


def _what_happens(config: Config, issue: SyntaxIssue) -> str:
    if "deepspeed" not in config.stacks or _hjson_tree(config) is None:
        return "the file cannot be read"
    alone = _what_deepspeed_reads(config, issue)
    if config.stack == "deepspeed":
        return alone
    return f"the Trainer and Accelerate reject the file, and {alone}"


def _what_becomes_of_it(config: Config, issue: SyntaxIssue) -> str:
    """What happens to a number that hjson does not read as one: json computes with it."""
    if "deepspeed" not in config.stacks:
        return "the run computes with it"
    alone = "DeepSpeed cannot read the file"
    if _hjson_tree(config) is not None:
        alone = _what_deepspeed_reads(config, issue)
    return alone if config.stack == "deepspeed" else f"{alone}, the Trainer and Accelerate compute with it"


def _what_deepspeed_reads(config: Config, issue: SyntaxIssue) -> str:
    value = _hjson_value(config, issue)
    if not isinstance(value, str):
        return "DeepSpeed misreads the file"
    if len(value) > _LONGEST:
        return f"DeepSpeed reads a string that starts with {value[:_LONGEST]!r}"
    return f"DeepSpeed reads the string {value!r}"


def _hjson_reads_it(config: Config, issue: SyntaxIssue) -> bool:
    """Whether DeepSpeed reads this construct the way a person does."""
    refusal = refused_by(issue.kind).hjson
    if refusal != DEPENDS:
        return refusal == NEVER
    tree, path = _hjson_tree(config), issue.path
    if tree is None:
        return False
    if _hjson_reads_all_that_is_meant(config, tree):
        return True
    if issue.kind == "missing-comma":  # what stands before it may have swallowed the rest of its line
        path = _path_before(config, issue)
    if path is None:
        return False
    meant = config.document.root.at(path) if config.document.root is not None else None
    read = tree.at(path)
    if meant is None or read is None:
        return False
    if issue.kind == "stray-text":  # before an element of the array, and what follows may become part of it
        return reads_alike(meant, read)
    return issue.kind == "unquoted-key" or reads_value_alike(meant, read)


def _hjson_reads_all_that_is_meant(config: Config, tree: Node) -> bool:
    if "hjson agrees" not in config.derived:
        config.derived["hjson agrees"] = reads_alike(config.document.root, tree)
    agrees: bool = config.derived["hjson agrees"]
    return agrees


def _hjson_value(config: Config, issue: SyntaxIssue) -> object:
    tree = _hjson_tree(config)
    path = _path_before(config, issue) if issue.kind == "missing-comma" else issue.path
    node = tree.at(path) if tree is not None and path else None
    return node.value if node is not None else None


def _path_before(config: Config, issue: SyntaxIssue) -> KeyPath | None:
    """The path of the member or item that a missing comma should follow."""
    path = issue.path or ()
    around = config.document.root.at(path) if config.document.root is not None else None
    if around is None:
        return None
    values = [member.value for member in around.members] or around.items
    ended = bisect_right(values, issue.span.start, key=lambda value: value.span.end)
    if not ended:
        return None
    return (*path, around.members[ended - 1].key if around.members else str(ended - 1))


def _hjson_tree(config: Config) -> Node | None:
    """The text as hjson reads it; None if hjson rejects it for more than a duplicate key."""
    if "hjson" not in config.derived:
        from ds_lint.source import hjson

        try:
            config.derived["hjson"] = as_hjson_reads(config.document)
        except hjson.DuplicateKeys:
            config.derived["hjson"] = config.root
        except hjson.Refused:
            config.derived["hjson"] = None
    tree: Node | None = config.derived["hjson"]
    return tree
