"""The pages of the rules as readers see them, and the table of all."""

from __future__ import annotations

from difflib import SequenceMatcher
from typing import TYPE_CHECKING, NamedTuple

from ds_lint.diagnostics.finding import LOADERS, STACKS
from ds_lint.linter.engine import every_rule
from ds_lint.rule_pages import pages
from tools.rule_ranges import RANGES, digit_of
from tools.site.playground import links

if TYPE_CHECKING:
    from ds_lint.diagnostics.rule import Rule

INDEX = "rules/index.md"

_OPTIONS = {  # what an option of an example says, where its name and value are not words enough
    "from": "upgrading from deepspeed {}",
    "checkpoint": "resuming from {} ranks",
    "world-size": "{} ranks",
    "nodes": "{} nodes",
    "gpu": "on {}",
    "host-memory": "{} of host memory",
    "trainer-args": "with {}",
    "encoding": "stored as {}",
    "ellipsis": "... is {} times the character before it",
    "smoke": "trained with",
}


class Facts(NamedTuple):
    """What the page of a rule says of it as a whole."""

    severity: str
    effect: str
    since: str
    fix: str


def path(rule: Rule) -> str:
    """The page of a rule, as a file of the site; ``page_url`` of findings leads there."""
    return f"rules/{rule.code}-{rule.name}.md"


def family(rule: Rule) -> str:
    """What the rule is about."""
    return RANGES[digit_of(rule)].title


def facts(text: str) -> Facts:
    """The row of a page's table, and which fixes it names."""
    row = pages.row(text)
    fixes = pages.fixes(text)
    return Facts(", ".join(row.severities), ", ".join(row.effects), row.since, ", ".join(fixes) or "-")


def index() -> str:
    """The table of all rules, family by family."""
    known = every_rule()
    text = [
        "---\nhide: [toc]\n---\n",
        "# Rules\n",
        f"{len(known)} rules. `ds-lint explain DS101` prints the page of one in the terminal. Rules that are off",
        "unless you [select](../settings.md#select) them are marked.\n",
        "`--fix` applies *safe* fixes, after which the run is the same or the one that you clearly intended. *Unsafe*",
        "fixes take a decision, and need `--unsafe-fixes`.\n",
    ]
    for digit, about in RANGES.items():
        text += [f"\n## {about.title}\n", "| rule | | severity | effect | fix | since |", "|---|---|---|---|---|---|"]
        text += [_row(rule) for rule in known if digit_of(rule) == digit]
    return "\n".join(text) + "\n"


def _row(rule: Rule) -> str:
    text = pages.page(rule)
    known = facts(text)
    name = path(rule).removeprefix("rules/")
    state = "" if rule.is_on else " *Off by default.*"
    summary = pages.first_paragraph(text).replace("|", "\\|")
    return (
        f"| [{rule.code}<br>{rule.name}]({name}) | {summary}{state} | {known.severity} | {known.effect} | {known.fix} "
        f"| {known.since} |"
    )


def page(rule: Rule) -> str:
    """The page of a rule with its examples as readers see them."""
    text = pages.page(rule)
    text = shown(text, links.of_page(text, rule, path(rule)))
    if rule.is_on:
        return text
    row_end = text.index("\n", text.index(pages.TABLE) + len(pages.TABLE)) + 1
    how = f"in preview since {rule.preview}: `preview = true`" if rule.preview else f"`--extend-select {rule.code}`"
    return f"{text[:row_end]}\nOff by default: {how}.\n{text[row_end:]}"


def with_languages(text: str, elsewhere: str) -> str:
    """A page with a line below its title that leads to other languages."""
    title, end, rest = text.partition("\n")
    return f"{title}{end}\n{elsewhere}\n{{: .languages }}\n{rest}" if elsewhere else text


def shown(text: str, leading: dict[int, str]) -> str:
    """A page whose blocks say what they are: what was linted for whom, what was found, what the fixes make of it.

    ``leading`` is what follows an example, by its line.
    """
    made, end, config = "", 0, ""
    findings = _findings_by_config(text)
    for block in pages.blocks(text):
        language, *words = block.info.split() or [""]
        opening = text[block.fence : block.span.start]
        if words and words[0] in pages.KINDS:
            config = block.text
            opening = _opening(language, words[0], _linted(words), _lines_of(findings.get(block.line, [])))
        elif block.info == pages.FINDINGS:
            opening = _opening("text", "findings", "What ds-lint prints")
        elif words[:1] == [pages.FIXED]:
            flag = "--fix --unsafe-fixes" if words[1:] else "--fix"
            opening = _opening(language, "fixed", f"After {flag}", _changed(config, block.text))
        elif block.info == pages.POLICY:
            opening = _opening(language, "policy", "The policy")
        elif (name := pages.file_name(block)) is not None:
            opening = _opening(language, "file", name)
        behind = text.index("\n", block.span.end) + 1
        made += text[end : block.fence] + opening + text[block.span.start : behind]
        if block.line in leading:
            made += f"\n{leading[block.line]}"
        end = behind
    return made + text[end:]


def _opening(language: str, kind: str, title: str, lines: list[int] | None = None) -> str:
    marked = f' hl_lines="{" ".join(map(str, lines))}"' if lines else ""
    quoted = title.replace('"', "&quot;")
    return f'``` {{ .{language} .{kind} title="{quoted}"{marked} }}\n'


def _linted(words: list[str]) -> str:
    """For whom an example was linted, and what was known."""
    given = dict(word.partition("=")[::2] for word in words[1:])
    stack = given.pop("stack", None)
    known = [_OPTIONS.get(option, f"{option} {{}}").format(value.replace("|", " ")) for option, value in given.items()]
    linted = "Checked for " + (LOADERS[stack] if stack in STACKS else "every stack that may load it")
    return ", ".join([linted if words[0] == "bad" else f"No findings: {linted[0].lower()}{linted[1:]}", *known])


def _findings_by_config(text: str) -> dict[int, list[str]]:
    return {example.line: example.findings for example in pages.examples(text)}


def _lines_of(findings: list[str]) -> list[int]:
    return sorted({int(finding.partition(":")[0]) for finding in findings if finding.partition(":")[0].isdigit()})


def _changed(before: str, after: str) -> list[int]:
    """The lines of the second text that the first one has not."""
    old, new = before.splitlines(), after.splitlines()
    return [
        line + 1
        for tag, _, _, start, end in SequenceMatcher(None, old, new, autojunk=False).get_opcodes()
        if tag != "equal"
        for line in range(start, end)
    ]


def redirects(known: list[Rule], folder: str = "rules") -> dict[str, str]:
    """Short addresses of rules, by code and by name, as files of the site with where they lead."""
    return {
        f"{folder}/{short}/index.html": f"../{rule.code}-{rule.name}/"
        for rule in known
        for short in (rule.code, rule.name)
    }
