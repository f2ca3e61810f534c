"""What every text passes before it leaves ds-lint: no command of a CI system and no secret is in it.

A log is read by programs: GitHub Actions takes a line that begins with ``::error`` for a command, Azure Pipelines a
``##vso[`` anywhere, TeamCity a ``##teamcity[``. What a config holds must not be read as one. In JSON and XML the
first character is written as an escape, so that a reader of the report gets the same text; elsewhere a space is put in.
Control characters and those that turn a line around are the business of ``text.visible``.
"""

from __future__ import annotations

from ds_lint.output.text import visible

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence

    from ds_lint.source.document import Document

TEXT, JSON, XML = "text", "json", "xml"
LOG = "log"  # of GitHub, with commands of ours
AZURE = "azure"  # the log of Azure, with commands of ours

_NUMBER_SIGN = {TEXT: "# ", LOG: "# ", JSON: r"\u0023", XML: "&#35;"}  # where another one follows
_HINTS = ("token", "secret", "passw", "key", "credential", "://", "hf_", "ghp_", "glpat-", "akia", "sk-")


def harmless(text: str, language: str = TEXT, documents: Sequence[Document] = ()) -> str:
    """The text without commands and secrets, those of the documents that it is about included."""
    text = without_secrets(text, documents)
    has_colours = "\x1b" in text  # which may be between two signs
    if language != AZURE and ("##" in text or (has_colours and "#" in text)):
        text = _without_marks(text, _NUMBER_SIGN[language])
    may_begin_lines = language in (TEXT, XML, AZURE)  # no line of JSON begins with two colons
    if may_begin_lines and ("::" in text or (has_colours and ":" in text)):
        colons = "&#58;:" if language == XML else ": :"
        text = "\n".join(without_command(line, colons) for line in text.split("\n"))
    return text


def complaint(text: str) -> str:
    """One line for the standard error."""
    return f"ds-lint: {harmless(visible(text))}\n"


def without_secrets(text: str, documents: Sequence[Document] = ()) -> str:
    """The text with passwords and tokens masked."""
    lower = text.lower()
    if not documents and not any(hint in lower for hint in _HINTS):
        return text
    from ds_lint.output import secrets  # a clean check has nothing to mask

    return secrets.masked(text, secrets.secrets_of(documents))


def _without_marks(text: str, number_sign: str) -> str:
    """The text with every ``##word[`` taken apart; colours do not hide it."""
    from re import sub  # few texts have two number signs

    colours = r"(?:\x1b\[[\d;]*m)*"
    return sub(rf"#(?={colours}(?:#{colours})+(?:\w{colours})*\[)", lambda _: number_sign, text)


def without_command(line: str, colons: str = ": :") -> str:
    """A line with its first two colons taken apart, if a runner would take it for a command; colours do not hide it."""
    start = line.lstrip()
    if start[:1] not in (":", "\x1b"):
        return line
    from re import sub  # few lines begin with one

    is_command = sub(r"\x1b\[[\d;]*m", "", line).lstrip().startswith("::")
    return line.replace(":", colons[:-1], 1) if is_command else line
