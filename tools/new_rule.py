"""Start a rule: its function, its page, and its row in docs/evidence.md where its effect has to be measured.

    python -m tools.new_rule DS329 name-of-the-rule --family zero --effect wrong-result
    python -m tools.new_rule DS330 name-of-another --family zero --effect rejected --key zero_optimization

What it writes raises and says TODO: the tests fail until the function and the page are written.
"""

from __future__ import annotations

import argparse
import ast
import re
import sys
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from ds_lint import __version__, checks
from ds_lint.diagnostics.finding import EFFECTS, SEVERITIES
from ds_lint.linter.engine import every_rule
from ds_lint.rule_pages import pages

if TYPE_CHECKING:
    from collections.abc import Iterator


ROOT = Path(__file__).parent.parent
EVIDENCE = "docs/evidence.md"
MEASURED = frozenset({"wrong-result", "risk", "overridden", "no-effect"})  # effects of a run that goes to its end
ADVICE = "advice"  # which only those get who select it
LINE_LENGTH = 120

_FUNCTION = '''

{decorator}
def {function}(config: Config) -> Iterator[Problem]:
    """TODO: what is set, in a few words.

    Source: TODO, the file of the library that does it.
    """
    raise NotImplementedError("{code} looks at nothing yet")
'''
_CONFIG = """\
{
  "train_micro_batch_size_per_gpu": 4,
  "optimizer": {"type": "AdamW", "params": {"lr": 1e-4}}
}
"""
_PAGE = """\
# {code}: {name}

TODO: what is wrong, in one sentence of at most 130 characters.

{table}| {severity} | {effects} | {since} |

## What it catches

TODO: which keys and values, and which of them it leaves alone.

## Why it matters

TODO: what happens to the run, and what the libraries do not say about it.

## What each stack does

| stack | what happens | stage |
|---|---|---|
| deepspeed | TODO | {stage} |
| trainer | TODO | {stage} |
| accelerate | TODO | {stage} |

## Examples

```json bad stack=deepspeed
{config}```

```findings
```

```json good stack=deepspeed
{config}```

## How to fix

TODO: what to write instead.

## Evidence

- TODO: the function and the file of the library; the release that it was measured with.
"""
_ROW = "| [{code}](../rules/{code}-{name}.md) {name} | {effects} | TODO. | TODO | TODO | - |\n"


class NewRule(NamedTuple):
    """What is known of a rule before it is written."""

    code: str
    name: str
    family: str
    severity: str
    effects: tuple[str, ...]
    keys: tuple[str, ...]

    @property
    def function(self) -> str:
        """The name of its function."""
        return self.name.replace("-", "_")

    @property
    def module(self) -> str:
        """The file of its family."""
        return f"ds_lint/checks/{self.family}.py"

    @property
    def page(self) -> str:
        """Its page."""
        return f"rules/{self.code}-{self.name}.md"


def complaint(new: NewRule) -> str | None:
    """Why there can be no such rule, or None."""
    known = every_rule()
    if new.family == "smoke":
        return "the rules about training runs are written by hand: docs/dev/training-runs.md"
    if new.family not in checks.every_family():
        return f"there is no family {new.family!r}: {', '.join(sorted(checks.every_family()))}"
    if not re.fullmatch(r"DS[0-9]{3}", new.code):
        return f"a code is DS and three digits: {new.code!r}"
    if not re.fullmatch(r"[a-z][a-z0-9]*(-[a-z0-9]+)*", new.name):
        return f"a name is words in lower case with hyphens between them: {new.name!r}"
    for rule in known:
        if new.code == rule.code or new.name == rule.name:
            return f"there is a rule {rule.code} {rule.name} in ds_lint/checks/{rule.family}.py"
    if re.search(rf"\b{new.code}\b", _read("CHANGELOG.md")):
        return f"there was a rule {new.code}, as CHANGELOG.md says, and no code is used twice"
    hundreds = {rule.code[:3] for rule in known if rule.family == new.family}
    if new.code[:3] not in hundreds:
        return f"the codes of the family {new.family} are {' and '.join(f'{one}xx' for one in sorted(hundreds))}"
    if new.function in _names(_read(new.module)):
        return f"{new.module} already defines {new.function}"
    return None


def _names(text: str) -> set[str]:
    """What a module binds at its top level."""
    bound = set()
    for node in ast.parse(text).body:
        if isinstance(node, (ast.FunctionDef, ast.ClassDef)):
            bound.add(node.name)
        elif isinstance(node, (ast.Import, ast.ImportFrom)):
            bound |= {name.asname or name.name for name in node.names}
    return bound


def write(new: NewRule) -> Iterator[str]:
    """Write what the rule starts with; the files that it is in."""
    _write(new.module, with_function(_read(new.module), new))
    yield new.module
    _write(new.page, page(new))
    yield new.page
    if MEASURED.intersection(new.effects):
        _write(EVIDENCE, with_row(_read(EVIDENCE), new))
        yield EVIDENCE


def with_function(text: str, new: NewRule) -> str:
    """The module of a family with the function behind its last rule, above what only helps."""
    rules = [
        node
        for node in ast.parse(text).body
        if isinstance(node, ast.FunctionDef) and any("rule(" in ast.unparse(one) for one in node.decorator_list)
    ]
    lines = text.splitlines(keepends=True)
    end = (rules[-1].end_lineno if rules else None) or len(lines)
    function = _FUNCTION.format(decorator=_decorator(new), function=new.function, code=new.code)
    return "".join([*lines[:end], function, *lines[end:]])


def _decorator(new: NewRule) -> str:
    """The registration, on one line where it fits."""
    words = [f'"{new.code}"', f'"{new.name}"', f'severity="{new.severity}"', f"effects={_tuple(new.effects)}"]
    if new.keys:
        words.append(f"keys={_tuple(new.keys)}")
    if new.family in checks.FOR_SELECTION or new.effects == (ADVICE,):
        words.append("default=False")
    line = f"@rule({', '.join(words)})"
    return line if len(line) <= LINE_LENGTH else "\n".join(["@rule(", *(f"    {word}," for word in words), ")"])


def _tuple(words: tuple[str, ...]) -> str:
    quoted = ", ".join(f'"{word}"' for word in words)
    return f"({quoted},)" if len(words) == 1 else f"({quoted})"


def page(new: NewRule) -> str:
    """The page of the rule, in the shape of all pages."""
    return _PAGE.format(
        code=new.code,
        name=new.name,
        table=pages.TABLE,
        severity=new.severity,
        effects=", ".join(new.effects),
        since=__version__,
        stage="TODO" if "rejected" in new.effects else "-",
        config=_CONFIG,
    )


def with_row(text: str, new: NewRule) -> str:
    """The page of evidence with a row for the rule, in the order of codes."""
    row = _ROW.format(code=new.code, name=new.name, effects=", ".join(new.effects))
    start = text.index("\n## Rules\n")
    table = text[start : text.index("\n## ", start + 1)]
    rows = [(found[1], start + found.start()) for found in re.finditer(r"^\| \[(DS\d{3})\].*\n", table, re.MULTILINE)]
    end = start + len(table.rstrip("\n")) + 1
    place = next((place for code, place in rows if code > new.code), end)
    return text[:place] + row + text[place:]


def _read(path: str) -> str:
    return (ROOT / path).read_text(encoding="utf-8")


def _write(path: str, text: str) -> None:
    (ROOT / path).write_text(text, encoding="utf-8", newline="\n")


def next_steps(new: NewRule) -> Iterator[str]:
    """What is left to do."""
    yield "Run a config with the real libraries: tests/fidelity/oracle.py, tests/fidelity/training.py."
    yield f"Write {new.function} and the examples of {new.page}; replace every TODO."
    yield "Run `python -m tools.derived`, and read the findings that it puts into the page."
    if MEASURED.intersection(new.effects):
        yield f"Write a test that measures the claim, and name it in {EVIDENCE}."
    yield (
        f"Run `python -m pytest -k {new.code} tests/test_rule_pages.py tests/test_evidence.py tests/fidelity`, "
        "then all tests."
    )


def parsed(words: list[str] | None) -> NewRule:
    """The rule that a command line asks for."""
    parser = argparse.ArgumentParser(
        prog="python -m tools.new_rule", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("code", help="the next free code of the family")
    parser.add_argument("name", help="what is wrong, in words that read well after `ignore`")
    parser.add_argument("--family", required=True, help="the file in ds_lint/checks/")
    parser.add_argument("--effect", required=True, action="append", choices=EFFECTS, help="may be given several times")
    parser.add_argument(
        "--severity", choices=SEVERITIES, help="error if the config is rejected, info for advice, else warning"
    )
    parser.add_argument("--key", action="append", help="a top-level key; the rule needs one of those given")
    given = parser.parse_args(words)
    usual = "error" if "rejected" in given.effect else "info" if given.effect == [ADVICE] else "warning"
    severity = given.severity or usual
    keys = given.key or sorted(checks.FOR_KEYS.get(given.family, ()))
    new = NewRule(given.code, given.name, given.family, severity, tuple(dict.fromkeys(given.effect)), tuple(keys))
    if why := complaint(new):
        parser.error(why)
    return new


def main(words: list[str] | None = None) -> int:
    """Write the files of a new rule, and say what to do next."""
    new = parsed(words)
    for path in write(new):
        sys.stdout.write(f"wrote {path}\n")
    sys.stdout.write("\nNext:\n")
    for number, step in enumerate(next_steps(new), start=1):
        sys.stdout.write(f"{number}. {step}\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
