"""Passwords, tokens and keys that are in a config or in the arguments of a run: masked wherever they would be shown.

A secret is known by its own form (``hf_...``, the user of an address), by the name of its key (``hub_token``), or
because a file of the report has it under such a key; then it is masked in messages too, which name no key.
"""

from __future__ import annotations

import re

from ds_lint.output.text import visible
from ds_lint.source.tree import walk

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable

    from ds_lint.diagnostics.finding import Finding
    from ds_lint.source.document import Document

MASK = "***"
_SHORTEST = 4  # characters of a value that is masked wherever it is: "on" would be masked in every other word
_NO_SECRETS = frozenset(("auto", "none", "null", "true", "false", "bool", "string", "str"))

# The end of a name, behind anything but a letter or a digit. What is before it is not matched where it need not be, and
# else only so far: each part of a long name would be searched to its end.
_END = (
    r"(?:token|password|passwd|passphrase|secret|api[_-]?key|credentials?"
    r"|(?:access|secret|private|auth|account|wandb)[_-]?key)"
)
_NAME = rf"(?:[\w-]{{0,80}}[_-])?{_END}"
_IS_END = re.compile(rf"(?:\A|[_-]){_END}\Z", re.IGNORECASE)
_IS_WORD = re.compile(r"[\w-]+")
_LONGEST_END = 20  # characters, of access_credentials and the like

# By their own form.
_TOKENS = re.compile(
    r"\b(?:hf_[A-Za-z0-9]{16,}|api_org_[A-Za-z0-9]{16,}|gh[pousr]_[A-Za-z0-9]{16,}|github_pat_\w{16,}"
    r"|glpat-[\w-]{16,}|sk-[\w-]{16,}|xox[abprs]-[\w-]{10,}|AKIA[0-9A-Z]{12,}|wandb_v1_\w{16,}|local-[0-9a-f]{40})"
)
_USER_OF_ADDRESS = re.compile(r"(?<=://)[^\s/@\"'<>`]{1,400}(?=@)")

# By the name before them: "hub_token": "...", --hub_token ..., WANDB_API_KEY=..., and in YAML hub_token: ...
_QUOTE = r"""(?:\\?["']|&quot;)"""
_NAMED = re.compile(
    rf"""(?P<before>(?<![^\W_]){_END}{_QUOTE}?\s?[:=]\s?(?P<quote>{_QUOTE}))(?P<quoted>.{{1,400}}?)(?P=quote)"""
    rf"""|(?P<flag>(?:(?<!\w)--{_NAME}[ =]|(?<![^\W_]){_END}=)["']?)(?P<word>[^\s"'\\,;<>`]{{1,400}})"""
    rf"""|(?P<key>^(?:[ \d]{{0,80}}\|)?[ +-]{{0,80}}{_NAME}:[ ]+)(?P<rest>[^\s"'{{\[]{{1,400}})""",
    re.IGNORECASE | re.MULTILINE,
)


def masked(text: str, known: Iterable[str] = ()) -> str:
    """The text with a mask for every secret; ``known`` are those of the files that it is about."""
    text = _without(text, sorted(known, key=len, reverse=True))
    return _USER_OF_ADDRESS.sub(MASK, _TOKENS.sub(MASK, _NAMED.sub(_mask_value, text)))


def _mask_value(found: re.Match[str]) -> str:
    value = found["quoted"] or found["word"] or found["rest"]
    if value.lower() in _NO_SECRETS or (value.isdecimal() and not found["quoted"]):
        return found[0]
    start = found["before"] or found["flag"] or found["key"]
    return f"{start}{MASK}{found['quote'] or ''}"


def secrets_of(documents: Iterable[Document]) -> set[str]:
    """The secrets in some documents, as they are in texts, in JSON and in XML."""
    return {form for document in documents for secret in secrets_in(document) for form in _forms(secret)}


def secrets_in(document: Document) -> set[str]:
    """The values of a document that are under the name of a secret."""
    if document.root is None:
        return set()
    values = {
        member.value.value
        for path, member in walk(document.root)
        if isinstance(member.value.value, str) and is_secret(path[-1])
    }
    return {value for value in values if len(value) >= _SHORTEST and value.lower() not in _NO_SECRETS}


def is_secret(key: str) -> bool:
    """Whether a key is the name of a secret."""
    return _IS_END.search(key[-_LONGEST_END:]) is not None and _IS_WORD.fullmatch(key) is not None


def secrets_in_words(words: Iterable[str | None]) -> set[str]:
    """The values in the words of a command under the name of a secret: ``--hub_token VALUE``, ``NAME=VALUE``."""
    found = set()
    name = ""
    for word in words:
        text = word or ""
        if name and not text.startswith("-"):
            found.add(text)
        before, sign, value = text.partition("=")
        name = "" if sign or not text.startswith("--") or not is_secret(text.lstrip("-")) else text
        if sign and is_secret(before.lstrip("-")):
            found.add(value)
    return {value for value in found if len(value) >= _SHORTEST and value.lower() not in _NO_SECRETS}


def masked_words(words: Iterable[str | None]) -> list[str | None]:
    """The words of a command with a mask for every secret; None is a word that is not known."""
    listed = list(words)
    known = sorted(secrets_in_words(listed), key=len, reverse=True)
    return [None if word is None else _without(word, known) for word in listed]


def _without(text: str, known: Iterable[str]) -> str:
    for secret in known:
        text = text.replace(secret, MASK)
    return text


def would_write(finding: Finding, known: Iterable[str]) -> bool:
    """Whether the fix of a finding would write a secret, and with its mask something else."""
    texts = [edit.text for edit in finding.fix.edits] if finding.fix else []
    return any(masked(text, known) != text for text in texts)


def _forms(secret: str) -> set[str]:
    from json import dumps  # few files have secrets

    in_json = dumps(secret)[1:-1]
    return {secret, visible(secret), in_json, dumps(in_json)[1:-1], _in_xml(visible(secret))}


def _in_xml(text: str) -> str:
    """A text as an attribute of XML has it; ``xml.sax.saxutils`` imports a client for HTTP."""
    return text.replace("&", "&amp;").replace(">", "&gt;").replace("<", "&lt;").replace('"', "&quot;")
