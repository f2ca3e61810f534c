"""The languages that configs are written in beside JSON, by the ending of the file."""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Literal

    Language = Literal["json", "python", "notebook", "shell", "markdown", "yaml", "toml"]  # what a file is written in

# A module here of each name has ``read(text, path)``, which finds the configs in a text.
LANGUAGES: dict[str, Language] = {
    ".bash": "shell",
    ".ipynb": "notebook",
    ".markdown": "markdown",
    ".md": "markdown",
    ".py": "python",
    ".sbatch": "shell",
    ".sh": "shell",
    ".slurm": "shell",
    ".toml": "toml",
    ".yaml": "yaml",
    ".yml": "yaml",
}


JSON = (".json", ".jsonc", ".hjson", ".json5")  # the endings of what is a config if it is named, whatever is in it
YAML = (".yaml", ".yml")
IN_YAML = 200_000  # characters, which few files of settings have: PyYAML takes two seconds for them

# Documentation is searched only with ``include-markdown``.
SEARCHED = tuple(ending for ending, language in LANGUAGES.items() if language != "markdown")
DOCUMENTATION = tuple(ending for ending in LANGUAGES if ending not in SEARCHED)


def language_of(path: str) -> Language:
    """The language of a file; JSON if its name does not tell."""
    for ending, language in LANGUAGES.items():
        if path.endswith(ending):
            return language
    return "json"
