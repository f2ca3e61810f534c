"""The words of a cause: those of a symptom with what was found, or those of a rule's page."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from ds_lint.linter.selection import find
from ds_lint.rule_pages import pages

if TYPE_CHECKING:
    from ds_lint.knowledge.symptoms import Symptom

_FIELD = re.compile(r"(?<!\{)\{(\w+)\}(?!\})")
_OPTIONAL = re.compile(r"\[\[(.*?)(?:\|\|(.*?))?\]\]")  # `[[ from {scale}||what to write without]]`


def filled(symptom: Symptom, groups: dict[str, str]) -> tuple[str, str]:
    """Message and help, with what the pattern has found; of `name` and `name2` the one that was."""
    values: dict[str, str] = {}
    for key, value in groups.items():
        name = key.rstrip("0123456789")
        if value or name not in values:
            values[name] = value
    if "timeout" in values and values["timeout"].isdecimal():
        values["minutes"] = duration(int(values["timeout"]) / 1000)
    return _fill(symptom.message, values), _fill(symptom.help, values)


def _fill(text: str, values: dict[str, str]) -> str:
    def part(found: re.Match[str]) -> str:
        names = _FIELD.findall(found[1])
        return found[1] if all(values.get(name) for name in names) else found[2] or ""

    filled = _FIELD.sub(lambda found: values.get(found[1], ""), _OPTIONAL.sub(part, text))
    return filled.replace("{{", "{").replace("}}", "}")


def duration(seconds: float) -> str:
    """A time in words."""
    return f"{seconds / 60:.3g} minutes" if seconds >= 60 else f"{seconds:.3g} seconds"


def of_rule(code: str) -> tuple[str, str]:
    """What a rule is about, and how to fix it, by its page."""
    rule = find(code)
    if rule is None:
        return code, ""
    text = pages.page(rule)
    _, _, more = text.partition("\n## How to fix\n")
    return pages.summary(rule), pages.first_paragraph(more)
