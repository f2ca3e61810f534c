"""What a key means, what stands for a value, and what is wrong at a place, as Markdown."""

from __future__ import annotations

from typing import TYPE_CHECKING

from lsprotocol import types

from ds_lint.diagnostics.report import page_url
from ds_lint.diagnostics.rule import named
from ds_lint.json_schema.sections import STAGES
from ds_lint.knowledge import descriptions
from ds_lint.lsp import accelerate, key_knowledge
from ds_lint.lsp.cursor import member_at
from ds_lint.output.sentences import doubt
from ds_lint.rule_pages import pages
from ds_lint.source.spelling import AUTO
from ds_lint.source.tree import Span, dotted

if TYPE_CHECKING:
    from collections.abc import Iterator

    from ds_lint.diagnostics.finding import Finding
    from ds_lint.knowledge.keys import Knowledge
    from ds_lint.lsp.cursor import At
    from ds_lint.lsp.documents import OpenDocument
    from ds_lint.session.context import LintContext
    from ds_lint.source.tree import KeyPath


def hover(
    opened: OpenDocument, context: LintContext, position: types.Position, *, has_findings: bool = True
) -> types.Hover | None:
    """What there is to say about a position: findings first, unless the client shows them itself, then the key."""
    offset = opened.lines.offset(position)
    place, parts = None, []
    if has_findings and (result := opened.current) is not None:
        for finding, _ in result.found:
            if finding.span.start <= offset <= finding.span.end:
                place = place or finding.span
                parts.append(_finding(finding))
    around = (member_at(document, offset) for document in opened.configs if document.kind == "deepspeed")
    at = next((one for one in around if one is not None), None)
    if at is not None and (text := _about(at, key_knowledge.knowledge(context))):
        place = place or (at.member.key_span if at.is_key else at.member.value.span)
        parts.append(text)
    for document in opened.configs:
        if document.kind == "accelerate":
            entry = accelerate.explained(document, offset, key_knowledge.knowledge(context))
            place = place or (entry.span if entry is not None else None)
            parts += [entry.text] if entry is not None else []
    if not parts:
        return None
    text = "\n\n---\n\n".join(parts)
    return types.Hover(
        types.MarkupContent(types.MarkupKind.Markdown, text), opened.lines.range(place or Span(offset, offset))
    )


def entry_in_markdown(path: KeyPath, knowledge: Knowledge) -> str:
    """The entry of a key; empty where nothing is known of it."""
    lines = descriptions.entry(path, knowledge)
    if not lines:
        return ""
    by_label = {line.label: line.text for line in lines}
    head = f"**`{by_label.pop('key')}`**"
    meaning, url = by_label.pop("meaning", ""), by_label.pop("see", "")
    facts = "\n".join(f"* {label}: {text}" for label, text in by_label.items())
    link = f"[Documentation]({url})" if url else ""
    return "\n\n".join(filter(None, (head, meaning, facts, link)))


def _about(at: At, knowledge: Knowledge) -> str:
    """The entry of the key, and what its value says."""
    path = (*key_knowledge.as_meant(at.path[:-1], knowledge), at.path[-1])
    text = entry_in_markdown(path, knowledge) or _meant(path, knowledge)
    value = at.member.value
    if path == ("zero_optimization", "stage") and type(value.value) is int and 0 <= value.value < len(STAGES):
        return f"**Stage {value.value}**: {STAGES[value.value]}\n\n{text}"
    filled = knowledge.trainer["fills"].get(dotted(path))
    if value.value == AUTO and filled and not at.is_key:
        return f'**`"auto"`** is filled with {filled["with"]}\n\n{text}'
    return text


def _meant(path: KeyPath, knowledge: Knowledge) -> str:
    """The entry of the key that was most likely meant."""
    section = knowledge.find(path[:-1])
    if section is None or not section.is_section:
        return ""
    from ds_lint.knowledge.suggestions import meant

    unknown = f"`{path[-1]}` is not a key of DeepSpeed {knowledge.deepspeed}"
    if (since := knowledge.next_release_of(path)) is not None:
        return f"{unknown}; it is new in {since}."
    key, _ = meant(path[-1], section, knowledge)
    return f"{unknown}. Did you mean this key?\n\n{entry_in_markdown(key.path, knowledge)}" if key is not None else ""


def _finding(finding: Finding) -> str:
    """A finding with what its rule is about."""
    return "\n\n".join(filter(None, _of_finding(finding)))


def _of_finding(finding: Finding) -> Iterator[str]:
    releases = f"; {finding.affected_releases}" if finding.releases else ""
    yield f"**{finding.code} {finding.name}** ({finding.severity}, {finding.effect}{releases})"
    yield finding.message
    yield doubt(finding)
    yield finding.help
    rule = named(finding.code)
    if rule is not None:
        yield f"{pages.summary(rule)} [More]({page_url(finding)})"
