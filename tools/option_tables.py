"""Write what follows from the tables of options and facts into the files that cannot read them.

    python -m tools.option_tables

These are the keywords of ``ds_lint.check``, the settings of the extension for VS Code, and tables of the documentation;
``tests/test_option_tables.py`` fails where one is stale. ``tools.publish_schemas`` writes the schema of the settings.
"""

from __future__ import annotations

import json
import re
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ds_lint.commands.environment import VARIABLES
from ds_lint.session.options import terms, terms_of_memory

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from ds_lint.option import Option

ROOT = Path(__file__).parent.parent
EXTENSION = "editors/vscode/package.json"
_FIRST = 4  # of the terms among the settings of the extension
_OVERRIDES = (
    " This setting and the following ones override those of the project (`[tool.ds-lint]`), which are the better place "
    "for settings of the whole team. Paths are relative to the folder."
)


def files() -> dict[str, str]:
    """The text of every file by its path in the repository."""
    texts = {path: (ROOT / path).read_text(encoding="utf-8") for path in (EXTENSION, *_WRITTEN)}
    texts[EXTENSION] = _extension(texts[EXTENSION])
    settings = json.loads(texts[EXTENSION])["contributes"]["configuration"]["properties"]
    return texts | {path: write(texts[path], settings) for path, write in _WRITTEN.items()}


def _extension(text: str) -> str:
    manifest = json.loads(text)
    configuration = manifest["contributes"]["configuration"]
    own = {f"ds-lint.{term.camel}" for term in terms()}
    others = [(name, about) for name, about in configuration["properties"].items() if name not in own]
    others[_FIRST - 1 : _FIRST - 1] = [(f"ds-lint.{term.camel}", _setting(term)) for term in terms()]
    configuration["properties"] = {name: {**about, "order": place} for place, (name, about) in enumerate(others, 1)}
    return json.dumps(manifest, indent=2, ensure_ascii=False) + "\n"


def _setting(term: Option) -> dict[str, Any]:
    about: dict[str, Any] = {"order": 0, "scope": "window"}
    if term.is_number:
        about |= {"type": ["integer", "null"], "default": None, "minimum": term.least}
    elif term.choices is not None:
        about |= {"type": "string", "enum": ["", *term.choices], "enumDescriptions": list(term.meanings), "default": ""}
    else:
        about |= {"type": "string", "default": ""}
    return {**about, "markdownDescription": term.sentence + (_OVERRIDES if term is terms()[0] else "")}


def _keywords(text: str, _settings: object) -> str:
    """The keywords of each function, behind those of its own."""
    for name, known in (("check", terms()), ("effective", terms()), ("memory", terms_of_memory())):
        keywords = "".join(f"    {one.as_keyword}: {one.annotation or one.type} = None,\n" for one in known)
        signature = rf"(?<=^def {name}\()(.*?)^    stack: .*?(?=^\) -> )"
        text = re.sub(signature, lambda own: own[1] + keywords, text, count=1, flags=re.DOTALL | re.MULTILINE)  # noqa: B023 - called at once
    return text


def _names(text: str, _settings: object) -> str:
    return re.sub(r'(?<=const TERMS =\n  ").*(?=")', " ".join(one.camel for one in terms()), text)


def _table(header: str, rows: Callable[[dict[str, Any]], Iterable[str]]) -> Callable[[str, dict[str, Any]], str]:
    """Replace the rows of the table with this header."""

    def written(text: str, settings: dict[str, Any]) -> str:
        before, found, behind = text.partition(f"{header}\n")
        divider, _, behind = behind.partition("\n")
        behind = re.sub(r"\A(?:\|.*\n)+", "", behind)
        return before + found + "\n".join((divider, *rows(settings), behind))

    return written


def _cell(text: str) -> str:
    """A help as a cell: a bar would divide it, and only VS Code makes links of settings."""
    return re.sub("`#(.*?)#`", r"`\1`", text.replace("|", "\\|"))


_OF_EXTENSION = _table(
    "| setting | |",
    lambda settings: (f"| `{name}` | {_cell(about['markdownDescription'])} |" for name, about in settings.items()),
)
_WRITTEN: dict[str, Callable[[str, dict[str, Any]], str]] = {
    "ds_lint/__init__.py": _keywords,
    "editors/vscode/src/smoke.ts": _names,
    "editors/vscode/README.md": _OF_EXTENSION,
    "docs/vscode.md": _OF_EXTENSION,
    "docs/language-server.md": _table(
        "| setting | command-line option | |",
        lambda _: (f"| `{one.camel}` | `--{one.dashed}` | {_cell(one.help)} |" for one in terms()),
    ),
    "docs/python.md": _table(
        "| keyword | command-line option | |",
        lambda _: (f"| `{one.as_keyword}` | `--{one.dashed}` | {_cell(one.help)} |" for one in terms()),
    ),
    "docs/settings.md": _table(
        "| variable | option |", lambda _: (f"| `{name}` | `{option}` |" for name, option in VARIABLES.items())
    ),
}


def main() -> int:
    """Write what changed."""
    for name, text in files().items():
        path = ROOT / name
        if path.read_text(encoding="utf-8") != text:
            path.write_text(text, encoding="utf-8", newline="\n")
            sys.stdout.write(f"wrote {name}\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
