"""What is tracked is written in plain technical English: these words are not in it, nor in the names of the code."""

from __future__ import annotations

import ast
import re

import pytest
import tracked

# No text has these words; what to write instead. A space also stands for an underscore, or for a line break.
WORDS = {
    r"without a word": "silently",
    r"judg(e|es|ed|ing|e?ments?)|mend(s|ed|ing)?": "check, lint, fix",
    r"(hold|holds|held|holding) ((it|them|this|that|those|these|one|findings?|a finding|what \w+) )?back": "suppress",
    r"(some|no)body(s|'s)?": "what it is: a user, a library, another process; nothing, no library, no rank",
    r"(says?|said|saying) so|who (says?|said)": "the source, or the message",
    r"(?<!there )(is|are|was|were)\x20no\x20(?!longer|more|less|other|clipping)\w+": "is not a",
}
PATTERNS = [(re.compile(rf"(?:{word})(?![a-z])".replace(" ", "[ _]")), instead) for word, instead in WORDS.items()]

# Where a word stays: the path begins so, the text is this, and why.
ALLOWED = [
    ("", r"auto[-_ ]nobody[-_ ]fills", "the name of a rule, which never changes"),
    ("", r'"held_back"', "a field of the report, which readers know by this name"),
    ("schemas/recipes.json", r'"judge"', "a field of TRL"),
    ("schemas/trl.json", r'[."]judge"', "a field of TRL"),
    ("docs/raises/", r".+", "quotes messages and code of the libraries"),
    ("tools/raises/", r".+", "quotes messages and code of the libraries"),
    ("schemas/exceptions.json", r".+", "quotes them too"),
    ("tests/test_words.py", r".+", "the table of the words, and examples"),
]

# No variable, function, class or attribute has these words in its name; docs/dev/glossary.md has those to take.
NAMES = {"told", "asked", "said", "wish", "wishes", "stray", "gone", "stands"}
PARTS = re.compile(r"[A-Z]?[a-z]+|[A-Z]+(?![a-z])")
FIELDS = {ast.Name: "id", ast.Attribute: "attr", ast.arg: "arg", ast.alias: "asname", ast.ExceptHandler: "name"}
FIELDS |= dict.fromkeys((ast.FunctionDef, ast.ClassDef), "name")  # where a node has the name that it gives


def words_in(text: str) -> list[tuple[str, str]]:
    """Each word of the table in a text, with its surroundings, and what to write instead."""
    joined = re.sub(r'"\s*\n\s*[rf]*"', "", text)  # a string over several lines
    plain = re.sub(r"\n[\s#*/]+", " ", joined).lower()  # a sentence over several lines, in a comment too
    return [
        (plain[max(0, match.start() - 30) : match.end() + 30], instead)
        for pattern, instead in PATTERNS
        for match in pattern.finditer(plain)
        if not plain[max(0, match.start() - 1) : match.start()].isalpha()
    ]


def names_in(code: bytes | str) -> list[str]:
    """The names that a module gives to something and that have a word of ``NAMES``."""
    nodes = (node for node in ast.walk(ast.parse(code)) if type(node) in FIELDS)
    given = (
        getattr(node, FIELDS[type(node)]) for node in nodes if not isinstance(getattr(node, "ctx", None), ast.Load)
    )
    return [name for name in given if name and NAMES & {part.lower() for part in PARTS.findall(name)}]


def test_no_such_word_is_tracked():
    used = set()
    for path, content in tracked.contents():
        for text, instead in words_in(f"{path}\n{content.decode('utf-8', 'replace')}"):
            reasons = {one for one in ALLOWED if path.startswith(one[0]) and re.search(one[1], text)}
            assert reasons, f"{path}: ...{text}...: write {instead}"
            used |= reasons
    assert used == set(ALLOWED)


def test_no_name_has_such_a_word():
    for path, content in tracked.contents():
        if path.endswith(".py") and path.startswith(("ds_lint/", "tools/")):
            assert not names_in(content), path


@pytest.mark.parametrize(
    "planted",
    [
        "def judged_by(rules):",
        "# comments that hold\n    # a finding back",
        'f"ignores the key without "\n    f"a word"',
        "NOBODY reads it",
        "a note says so, and who said it",
        "keys that are no sections",
    ],
)
def test_a_planted_word_is_found(planted):
    assert words_in(planted)


def test_other_words_are_not():
    fine = ("each rank holds 8 elements", "there is no GPU", "it is no longer read", "prejudged", "amended", "heldBack")
    assert not any(map(words_in, fine))


def test_a_planted_name_is_found():
    planted = "class ScriptWish: pass\ndef is_told(said_by, *, told): self.asked = _STRAY = forgone = told"
    assert names_in(planted) == ["ScriptWish", "is_told", "said_by", "told", "asked", "_STRAY"]
