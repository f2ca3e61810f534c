"""Fixes for rules to offer: delete, rename, rewrite, add or move what a finding is about.

Everything outside the edits stays as it is, and what is added is written like its neighbours. A function returns None
where the text does not allow the edit with certainty; the finding then has no fix.
"""

from __future__ import annotations

from ds_lint.diagnostics.finding import Edit, Fix
from ds_lint.fixes import layout
from ds_lint.source.spelling import as_json, spelled
from ds_lint.source.tree import Span, dotted

TYPE_CHECKING = False
if TYPE_CHECKING:
    from ds_lint.diagnostics.finding import Safety
    from ds_lint.fixes.layout import Style
    from ds_lint.semantics.config import Config
    from ds_lint.source.document import Document
    from ds_lint.source.tree import KeyPath, Member, Node


def deletion(config: Config, path: KeyPath, safety: Safety, *, member: Member | None = None) -> Fix | None:
    """Delete a key with its value, its comma, and its lines if it has them for itself; of duplicates ``member``."""
    section = config.written.at(path[:-1])
    member = member or (section.member(path[-1]) if section is not None else None)
    if section is None or member is None or not _is_in_one_place(config, member):
        return None
    return _fix(f"Delete `{dotted(path)}`", safety, _removal(config.document.text, section, member))


def renaming(config: Config, path: KeyPath, name: str, safety: Safety) -> Fix | None:
    """Call a key by another name, in the quotes that it has."""
    return renaming_in(config.document, config.written, path, name, safety)


def renaming_in(document: Document, root: Node, path: KeyPath, name: str, safety: Safety) -> Fix | None:
    """The same in the tree of a text that a config is made of."""
    section = root.at(path[:-1])
    member = section.member(path[-1]) if section is not None else None
    if section is None or member is None or section.get(name) is not None:
        return None
    span = member.key_span
    written = document.text[span.start : span.end]
    quote = written[:1] if written[:1] in ('"', "'") else ""
    if document.is_python and (written != f"{quote}{member.key}{quote}" or not (quote or name.isidentifier())):
        return None  # a key of several strings, or one that cannot be an argument
    if written == f"{quote}{member.key}{quote}":
        edit = Edit(Span(span.start + len(quote), span.end - len(quote)), name)
    else:
        edit = Edit(span, f"{quote}{name}{quote}")
    return Fix(f"Rename `{member.key}` to `{name}`", safety, [edit])


def offloading_renamed(config: Config, path: KeyPath, name: str) -> Fix | None:
    """The section ``name`` instead of the switch of old that offloads to the CPU."""
    switch = config.written.at(path)
    renamed, section = renaming(config, path, name, "safe"), replacement(config, path, '{"device": "cpu"}', "safe")
    if switch is None or switch.value is not True or renamed is None or section is None:
        return None
    return Fix(f"Write `{name}` instead", "safe", [*renamed.edits, *section.edits])


def replacement(config: Config, path: KeyPath, written: str, safety: Safety) -> Fix | None:
    """Write another value, given as JSON."""
    node = config.written.at(path)
    if node is None or node.kind == "missing":
        return None
    if config.document.has_stand_in(node.span) and node.value == written:  # "$LR", which becomes "3e-5"
        written = config.document.text[node.span.start : node.span.end].strip("\"'")
        return Fix(f"Write {written} without quotes", safety, [Edit(node.span, written)])
    if config.document.is_python:
        from json import loads

        written = spelled(loads(written), config.document)
    return Fix(f"Write {written}", safety, [Edit(node.span, written)])


def wrapping(config: Config, path: KeyPath, function: str, safety: Safety) -> Fix | None:
    """Call a function of Python with what is written there."""
    node = config.written.at(path)
    if node is None or not config.document.is_python or config.document.has_stand_in(node.span):
        return None
    text = config.document.text[node.span.start : node.span.end]
    return Fix(f"Write {function}(...)", safety, [Edit(node.span, f"{function}({text})")])


def replacement_in(document: Document, member: Member, value: object, safety: Safety) -> Fix | None:
    """Write another scalar in the tree of a text that a config is made of; None where a key has none of its own."""
    span = member.value.span
    if member.value.members or member.value.items or span.start < member.key_span.end or span.start == span.end:
        return None
    text = spelled(value, document)
    return Fix(f"Write {text}", safety, [Edit(span, text)])


def written(config: Config, path: KeyPath, value: object, safety: Safety) -> Fix | None:
    """Add a key that is not there, such as a default that is to be explicit, with the sections that it is in."""
    text = spelled(value, config.document)
    return _fix(f"Add `{dotted(path)}` with {text}", safety, _addition(config, path, text))


def setting(config: Config, path: KeyPath, value: object, safety: Safety) -> Fix | None:
    """Write a value, whether the key is there or not."""
    if config.written.at(path) is None:
        return written(config, path, value, safety)
    return replacement(config, path, as_json(value), safety)


def set_to_auto(config: Config, path: KeyPath, safety: Safety = "safe") -> Fix | None:
    """Write ``"auto"`` where every stack that may load the config fills it, whether the key is there or not."""
    if not set(config.stacks) <= set(config.filled_by(path)):
        return None
    fix = setting(config, path, "auto", safety)
    return fix and Fix(f'Set `{dotted(path)}` to "auto"', safety, fix.edits)


def moving(config: Config, path: KeyPath, to: KeyPath, safety: Safety) -> Fix | None:
    """Put a key with its value where it belongs, also under another name; sections that are missing are made."""
    section = config.written.at(path[:-1])
    member = section.member(path[-1]) if section is not None else None
    if section is None or member is None or config.written.at(to) is not None:
        return None
    if not _is_in_one_place(config, member):
        return None
    if to[:-1] == path[:-1]:
        return renaming(config, path, to[-1], safety)
    text = config.document.text
    value = _value_as_lines(text, member)
    if value is None:
        return None
    depth = len(path) - 1
    if to[:depth] == path[:-1] and section.get(to[depth]) is None:
        edits = _in_its_place(config, section, member, to[depth:], value)
    else:
        removal, addition = _removal(text, section, member), _addition(config, to, value)
        edits = removal + addition if removal and addition else None
    return _fix(f"Move `{dotted(path)}` to `{dotted(to)}`", safety, edits)


def _is_in_one_place(config: Config, member: Member) -> bool:
    """Whether a key is written next to its value: in Python it may come out of a loop."""
    between = config.document.text[member.key_span.end : member.value.span.start]
    return not config.document.is_python or between.strip() in (":", "=")


def _fix(title: str, safety: Safety, edits: list[Edit] | None) -> Fix | None:
    return Fix(title, safety, edits) if edits else None


def _removal(text: str, section: Node, member: Member) -> list[Edit] | None:
    """The edits that delete a member: one, or two where a comment is between it and the comma before it."""
    before, after = layout.neighbours(section, member)
    start, end = member.key_span.start, member.value.span.end
    comma_before = layout.after_space(text, before.value.span.end) if before else -1
    comma = layout.after_space(text, end)
    has_comma = text.startswith(",", comma)
    if not _is_clear(text, section, before, member) or not _is_clear(text, section, member, after):
        return None
    if has_comma and text[end:comma].strip(" \t"):
        return None  # the comma is on a line of its own, or behind a comment
    end = comma + 1 if has_comma else end
    if before is None and after is None and layout.has_braces(text, section):
        inside = Span(section.span.start + 1, section.span.end - 1)
        if not (text[inside.start : start] + text[end : inside.end]).strip():
            return [Edit(inside, "")]
    has_lines = layout.begins_line(text, start) and layout.ends_line(text, end)
    whole = Span(layout.before_blanks(text, start), layout.after_line(text, end)) if has_lines else Span(start, end)
    if after is None and not has_comma and text.startswith(",", comma_before):  # that comma would be one too many
        if text[comma_before + 1 : start].strip():
            return [Edit(Span(comma_before, comma_before + 1), ""), Edit(whole, "")]
        return [Edit(Span(comma_before, layout.line_end(text, end) if has_lines else end), "")]
    if has_lines:
        return [Edit(whole, "")]
    if layout.ends_line(text, end):
        return [Edit(Span(layout.before_blanks(text, start), end), "")]
    return [Edit(Span(start, layout.after_blanks(text, end)), "")]


def _is_clear(text: str, section: Node, one: Member | None, other: Member | None) -> bool:
    """Whether nothing but space, comments and one comma is between two members, or a member and the braces."""
    if one is None:
        if not layout.has_braces(text, section):
            return True
        pos = section.span.start + 1
    elif one.value.kind == "missing":
        return False
    else:
        pos = layout.after_space(text, one.value.span.end)
        pos += text.startswith(",", pos)
    end = section.span.end - 1 if layout.has_braces(text, section) else len(text)
    return layout.after_space(text, pos) == (other.key_span.start if other else end)


def _addition(config: Config, path: KeyPath, value: str) -> list[Edit] | None:
    """The edits that add a member at the end of the innermost section that is there."""
    text, section, names = config.document.text, config.written, path
    while len(names) > 1 and (inner := section.get(names[0])) is not None:
        section, names = inner, names[1:]
        if section.kind != "object":
            return None
    if section.kind != "object" or section.get(names[0]) is not None:
        return None
    if config.document.is_python and not layout.has_braces(text, section):
        return None  # it has its keys in another place
    style = layout.style_of(text, config.written, section)
    member = _member(style, names, value)
    if member is None:
        return None
    if not section.members:
        return _into_empty(text, section, member)
    last = section.members[-1]
    if not _is_clear(text, section, last, None):
        return None
    has_commas = style.has_commas and not layout.is_quoteless(text, last.value)
    if style.newline:
        return _on_a_line(text, last.value.span.end, style.newline + style.indent + member, "," if has_commas else "")
    end = Span(last.value.span.end, last.value.span.end)
    return [Edit(end, style.separator + member)] if has_commas else None


def _on_a_line(text: str, end: int, line: str, comma: str) -> list[Edit]:
    """The edits that add a line behind a value that ends at a place; a comment behind that value stays where it is."""
    comma_behind = layout.after_blanks(text, end)
    has_comma = text.startswith(",", comma_behind)
    rest = comma_behind + has_comma
    line_end = layout.line_end(text, end)
    if not layout.ends_line(text, rest) or not text[rest:line_end].strip():
        return [Edit(Span(end, end), comma + line)]
    if has_comma:
        return [Edit(Span(line_end, line_end), f"{line},")]
    return [*([Edit(Span(end, end), comma)] if comma else []), Edit(Span(line_end, line_end), line)]


def _into_empty(text: str, section: Node, member: str) -> list[Edit] | None:
    if not layout.has_braces(text, section) or "\n" in member:
        return None
    start, end = section.span.start + 1, section.span.end - 1
    return [Edit(Span(start, start if text[start:end].strip() else end), member)]


def _in_its_place(config: Config, section: Node, member: Member, names: KeyPath, value: str) -> list[Edit] | None:
    """The edit that wraps a member in a section that was missing beside it."""
    text = config.document.text
    style = layout.style_of(text, config.written, section)
    if not layout.begins_line(text, member.key_span.start):
        style.newline, style.expands = "", False
    wrapped = _member(style, names, value)
    return [Edit(Span(member.key_span.start, member.value.span.end), wrapped)] if wrapped else None


def _member(style: Style, names: KeyPath, value: str) -> str | None:
    """A member in sections of its own, as the text has it; None for several lines where there is but one."""
    member = f"{style.quote}{names[-1]}{style.quote}{style.colon}{value}"
    for name in reversed(names[:-1]):
        inner = member
        if style.expands:
            inner = f"\n{style.unit}" + member.replace("\n", f"\n{style.unit}") + "\n"
        member = f"{style.quote}{name}{style.quote}{style.colon}{{{inner}}}"
    if "\n" not in member:
        return member
    return member.replace("\n", style.newline + style.indent) if style.newline else None


def _value_as_lines(text: str, member: Member) -> str | None:
    r"""A value as it is written, its lines separated by ``\n`` and indented as if the member were not."""
    value = member.value
    if value.kind == "missing":
        return None
    if layout.is_quoteless(text, value):
        return as_json(value.value)
    written = text[value.span.start : value.span.end]
    if "'''" in written:
        return None  # hjson strips the indentation of its lines
    first, *lines = written.replace("\r\n", "\n").replace("\r", "\n").split("\n")
    if not lines:
        return first
    start = layout.line_start(text, member.key_span.start)
    indent = text[start : layout.after_blanks(text, start)]
    return "\n".join([first, *(line.removeprefix(indent) for line in lines)])
