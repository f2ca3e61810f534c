"""The DeepSpeed configs in a Python module: dicts that reach a call, that look like a config, and keywords of calls.

A name that Lightning gives to such a call stands for its keywords.

Nothing of the module is imported or run. A dict that reaches ``deepspeed.initialize`` and the like is complete; of any
other the callers may be elsewhere, so it is a fragment.
"""

from __future__ import annotations

import ast
from io import StringIO
from typing import NamedTuple

from ds_lint.source import json as json_source
from ds_lint.source.document import UNDEFINED, UNPARSED, Document, SyntaxIssue
from ds_lint.source.embedding import embedded
from ds_lint.source.fsdp import script_with_fsdp
from ds_lint.source.languages import language_of
from ds_lint.source.parts import Part, Places
from ds_lint.source.python_calls import changes_configs, config_calls, takers_of_names
from ds_lint.source.python_fsdp import argument_calls
from ds_lint.source.python_names import ModuleNames, dotted_name
from ds_lint.source.python_offsets import Offsets
from ds_lint.source.python_syntax import parsed
from ds_lint.source.python_values import PythonValue, Values
from ds_lint.source.recognition import is_config, may_be_config, may_tell, telling_keys
from ds_lint.source.tree import Node, Span, plain, walk

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator

_OF_JSON = ("false", "null", "true")
_MARK = "ds-lint:"  # without it no comment matters


class _Sink(NamedTuple):
    """A call that takes a config: ``stack`` loads it; a caller that ``fills_in`` keys makes a fragment complete."""

    call: ast.Call
    config: ast.expr
    stack: str | None
    is_file: bool = False  # the dict becomes a file
    fills_in: bool = False


def read(text: str, path: str) -> list[Document]:
    """The configs in the text of a module, in its order; none if Python does not parse it."""
    try:
        return _documents(ModuleNames(parsed(text)), text, path)
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return []


def syntax_error(text: str) -> SyntaxIssue | None:
    """Why Python does not parse a module, and where; None if it does."""
    try:
        parsed(text)
    except SyntaxError as error:
        starts = Offsets(text).starts
        if error.lineno is None or not 0 < error.lineno < len(starts):
            return SyntaxIssue(UNPARSED, Span(0, min(1, len(text))), error.msg)
        start, end = starts[error.lineno - 1 : error.lineno + 1]
        place = min(start + max((error.offset or 1) - 1, 0), max(len(text[:end].rstrip()) - 1, start))
        return SyntaxIssue(UNPARSED, Span(place, min(place + 1, len(text))), error.msg)
    except (ValueError, RecursionError, MemoryError) as error:
        return SyntaxIssue(UNPARSED, Span(0, min(1, len(text))), str(error) or "it is nested too deeply")
    return None


def unparsed(text: str, path: str) -> Document | None:
    """A module that Python does not parse, as a document without a config; None if it does."""
    issue = syntax_error(text)
    if issue is None:
        return None
    document = Document(path, text, None, [issue])
    document.language, document.is_python, document.is_dict, document.is_fragment = "python", True, True, True
    document.comments = comments(text)
    return document


def _documents(names: ModuleNames, text: str, path: str) -> list[Document]:
    values = Values(names, text)
    has_keys = may_tell(_keys(names))  # otherwise no dict is a config by its keys
    sinks = [sink for call in names.calls if (sink := _sink(call)) is not None and (has_keys or not sink.is_file)]
    found: dict[tuple[int, str], Document] = {}  # by the start of the dict and its value, which may change on the way
    users = frozenset(sink.call for sink in sinks)
    for sink in sorted(sinks, key=lambda sink: sink.is_file):  # a dict that is also written to a file is a dict
        for value in values.every(sink.config, users):
            if value.node.kind != "object" or (sink.is_file and not telling_keys(value.node)):
                continue
            place = value.node.span.start, repr(plain(value.node))
            if place in found:
                if found[place].stack != sink.stack and not sink.is_file:
                    found[place].stack = None
                continue
            document = found[place] = _document(value, text, path)
            document.stack, document.is_dict = sink.stack, not sink.is_file
            document.is_fragment |= sink.fills_in
    for made in config_calls(names):
        if not made.gives_config:
            value = values.keywords(made.call)
            document = found[value.node.span.start, ""] = _document(value, text, path)
            document.kind, document.stack = made.maker.name, made.maker.stack
            document.is_fragment |= changes_configs(names)
            document.taker = values.keywords(made.taker).node if made.taker is not None else None
    others = (*_named(names, values, text, path), *_of_arguments(names, values, text, path))
    found |= {(one.root.span.start, ""): one for one in others if one.root is not None}
    found |= {(one.root.span.start, ""): one for one in _in_texts(names, values, text, path) if one.root is not None}
    taken = [values.span(one) for one in (*values.dicts, *_for_inference(names)) if isinstance(one, ast.expr)]
    taken.sort(key=lambda span: span.start, reverse=True)
    end = -1  # of what is taken and begins before
    for span, dictionary in sorted(
        ((values.span(one), one) for one in (_dicts(names) if has_keys else ())),
        key=lambda one: (one[0].start, -one[0].end),
    ):
        while taken and taken[-1].start <= span.start:
            end = max(end, taken.pop().end)
        if span.end <= end:
            continue
        value = values.settled(dictionary)
        if _looks_like_a_config(value.node):
            end = max(end, span.end)
            document = found[span.start, ""] = _document(value, text, path)
            document.is_fragment = True
    documents = [document for _, document in sorted(found.items(), key=lambda item: item[0][0])]
    documents += script_with_fsdp(names, text, path) if language_of(path) == "python" else []
    addressed = comments(text)
    for index, document in enumerate(documents):
        document.index = index
        document.comments = addressed if document.is_python else [*(document.comments or ()), *addressed]
        document.issues.extend(_undefined(names, document.root) if document.is_python else ())
    return documents


def _in_texts(names: ModuleNames, values: Values, text: str, path: str) -> Iterator[Document]:
    """The configs in the texts that the module writes into files."""
    for written in _written_texts(names):
        document = _of_text(written, values.span(written), text, path)
        if document is not None:
            yield document


def _written_texts(names: ModuleNames) -> Iterator[ast.Constant]:
    """The texts that the module writes into files."""
    seen: set[ast.AST] = set()
    for call in (*names.calls_by_method.get("write", ()), *names.calls_by_method.get("write_text", ())):
        value = call.args[0] if len(call.args) == 1 else None
        if isinstance(value, ast.Name):
            reaching = names.reaching(value.id, value)
            value = reaching.value if reaching is not None else None
        if isinstance(value, ast.Constant) and isinstance(value.value, str) and value not in seen:
            seen.add(value)
            yield value


def _of_text(constant: ast.Constant, span: Span, text: str, path: str) -> Document | None:
    """The config that a text is which becomes a file; None for any other, and for one with escapes."""
    value = constant.value
    assert isinstance(value, str)  # noqa: S101 - see _written_texts
    start = text.find(value, span.start, span.end) if value.lstrip()[:1] == "{" else -1
    if start < 0 or not may_be_config(value.encode(errors="replace")):
        return None
    document = json_source.parse(value, path)
    if not is_config(document):
        return None
    document = embedded(document, text, Places([Part(value, Span(start, start + len(value)))]))
    document.language = "python"
    document.comments = [issue.span for issue in document.issues if issue.kind == "comment"]
    return document


def _undefined(names: ModuleNames, root: Node | None) -> Iterator[SyntaxIssue]:
    """The literals of JSON among the values of a config that no name of the module stands for."""
    for path, member in walk(root) if root is not None else ():
        word = member.value.value
        if member.value.kind == "template" and word in _OF_JSON and not _may_be_bound(names, str(word)):
            yield SyntaxIssue(UNDEFINED, member.value.span, str(word), path)


def _may_be_bound(names: ModuleNames, word: str) -> bool:
    """Whether anything in a module gives a name a value, or may do so."""
    imported = [alias.asname or alias.name for node in names.imports for alias in node.names]
    stored = (node.id for node in names.every(ast.Name) if not isinstance(node.ctx, ast.Load))
    taken = (argument.arg for argument in names.every(ast.arg))
    return word in imported or "*" in imported or word in names.functions or word in stored or word in taken


class UndecidedConfig(NamedTuple):
    """A call whose config does not show: its function, and its line."""

    call: str
    line: int


def undecided(names: ModuleNames, text: str) -> list[UndecidedConfig]:
    """The calls that get a config which only a run of the module shows."""
    values = Values(names, text)
    sinks = [sink for call in names.calls if (sink := _sink(call)) is not None and not sink.is_file]
    users = frozenset(sink.call for sink in sinks)
    return [
        UndecidedConfig(dotted_name(sink.call.func), sink.call.lineno)
        for sink in sinks
        if all(value.node.kind == "template" for value in values.every(sink.config, users))
    ]


def _named(names: ModuleNames, values: Values, text: str, path: str) -> Iterator[Document]:
    """The names of strategies that Lightning is given: each stands for a call."""
    for call, maker in takers_of_names(names):
        word = values.keywords(call).node.get(maker.given)
        if word is not None and word.kind == "string" and str(word.value).startswith("deepspeed"):
            document = _document(PythonValue(word), text, path)
            document.kind, document.stack = maker.name, maker.stack
            yield document


def _of_arguments(names: ModuleNames, values: Values, text: str, path: str) -> Iterator[Document]:
    """The training arguments that set FSDP up."""
    for call in argument_calls(names):
        document = _document(values.keywords(call), text, path)
        document.kind, document.stack = "TrainingArguments", "trainer"
        yield document


def _looks_like_a_config(node: Node) -> bool:
    """Whether a dict that no call takes is a config all the same.

    It is not a table of keys, nor of values to choose from, nor the batch sizes among a framework's own arguments.
    """
    zero = node.get("zero_optimization")
    is_grid = zero is not None and any(member.value.kind == "array" for member in zero.members)
    has_section = any(member.value.kind == "object" for member in node.members)
    return not is_grid and has_section and any("." not in key for key in telling_keys(node))


def _document(value: PythonValue, text: str, path: str) -> Document:
    document = Document(path, text, value.node, [])
    document.language, document.is_python = "python", True
    document.is_dict, document.is_fragment = True, value.is_open
    document.stand_ins = [*value.fixed]
    return document


def _sink(call: ast.Call) -> _Sink | None:
    """The config that a call takes, and who takes it."""
    name = dotted_name(call.func)
    last = name.rpartition(".")[2]
    keywords = {keyword.arg: keyword.value for keyword in call.keywords}
    if name in ("deepspeed.initialize", "ds.initialize") or (last == "initialize" and "config_params" in keywords):
        config = keywords.get("config") or keywords.get("config_params")
        return _Sink(call, config, "deepspeed") if config is not None else None
    if last.endswith(("Arguments", "Config")) and "deepspeed" in keywords:
        return _Sink(call, keywords["deepspeed"], "trainer")
    if last == "DeepSpeedPlugin" and "hf_ds_config" in keywords:
        return _Sink(call, keywords["hf_ds_config"], "accelerate")
    if last == "DeepSpeedStrategy" and "config" in keywords:  # Lightning fills in the batch size
        return _Sink(call, keywords["config"], "deepspeed", fills_in=True)
    if name == "json.dump" and call.args:
        return _Sink(call, call.args[0], None, is_file=True)
    return None


def _dicts(names: ModuleNames) -> Iterator[ast.expr]:
    """Every dict that is written out."""
    yield from names.every(ast.Dict)
    yield from (call for call in names.calls if dotted_name(call.func) == "dict")


def _keys(names: ModuleNames) -> set[str]:
    """The keys that the module writes into dicts."""
    found = {key.value for one in names.every(ast.Dict) for key in one.keys if isinstance(key, ast.Constant)}
    found |= {one.slice.value for one in names.every(ast.Subscript) if isinstance(one.slice, ast.Constant)}
    found |= {keyword.arg for call in names.calls for keyword in call.keywords if _is_dict_like(call)}
    found |= {
        one.value
        for call in names.calls
        if _is_dict_like(call)
        for one in call.args[:1]
        if isinstance(one, ast.Constant)
    }
    return {one for one in found if isinstance(one, str)}


def _is_dict_like(call: ast.Call) -> bool:
    return dotted_name(call.func).rpartition(".")[2] in ("dict", "setdefault", "update")


def _for_inference(names: ModuleNames) -> Iterator[ast.expr]:
    """The dicts that ``deepspeed.init_inference`` takes, which are configs of another kind."""
    for call in names.calls:
        if dotted_name(call.func).rpartition(".")[2] == "init_inference":
            for keyword in call.keywords:
                expression: ast.expr | None = keyword.value
                if name := dotted_name(keyword.value):
                    found = names.assignments(name, keyword.value)
                    expression = found[0].value if len(found) == 1 else None
                if isinstance(expression, ast.Dict):
                    yield expression


def comments(text: str) -> list[Span]:
    """The comments of a module; none if no comment is addressed to ds-lint."""
    if _MARK not in text:
        return []
    import tokenize

    starts = Offsets(text).starts
    found: list[Span] = []
    try:
        for token in tokenize.generate_tokens(StringIO(text.removeprefix("\ufeff"), newline="").readline):
            if token.type == tokenize.COMMENT:
                start = starts[token.start[0] - 1] + token.start[1]
                found.append(Span(start, start + len(token.string)))
    except (tokenize.TokenError, SyntaxError):  # of a module that does not parse: those before the error
        pass
    return found
