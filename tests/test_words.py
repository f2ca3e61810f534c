"""Everything that is tracked is written in plain technical English: these words are not in it."""

from __future__ import annotations

import re

import pytest
import tracked

THIS = "tests/test_words.py"

# The words, and what to write instead. A space also stands for an underscore, or for a line break.
WORDS = {
    r"without a word": "silently",
    r"judg(e|es|ed|ing|e?ments?)": "check, lint",
    r"(hold|holds|held|holding) ((it|them|this|that|those|these|one|findings?|a finding|what \w+) )?back": "suppress",
    r"nobody(s|'s)?": "a passive, or the one that does not: no library, no rank, nothing",
    r"somebody(s|'s)?": "a passive, or the one that does: a user, a library, another process",
    r"anew": "again",
    r"foretold|foretells?": "predicted, or name the earlier finding",
    r"mend(s|ed|ing)?": "fix",
    r"in spite of": "despite",
    r"likewise": "also, the same",
    r"(says?|said|saying) so": "name what reports it, or the message",
    r"who (says?|said)": "the source",
    r"(?<!there )(is|are|was|were)\x20no\x20(?!longer|more|less|other|clipping)\w+": "is not a",
}

# Where a word stays: the path begins so, the text is this, and why.
ALLOWED = [
    ("", r"auto[-_ ]nobody[-_ ]fills", "the name of a rule, which never changes"),
    ("", r'"held_back"', "a field of the report, which readers know by this name"),
    ("schemas/recipes.json", r'"judge"', "a field of TRL"),
    ("docs/raises/", r".+", "quotes messages and code of the libraries"),
    ("tools/raises/", r".+", "quotes messages and code of the libraries"),
    (THIS, r".+", "the table of the words, and examples"),
]
PATTERNS = [(re.compile(rf"(?:{word})(?![a-z])".replace(" ", "[ _]")), instead) for word, instead in WORDS.items()]


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


def is_allowed(path: str, surroundings: str) -> bool:
    """Whether a word stays in a file."""
    return any(path.startswith(place) and re.search(words, surroundings) for place, words, _ in ALLOWED)


@pytest.fixture(scope="module")
def found():
    """The words in the names and texts of all tracked files: path, surroundings, what to write instead."""
    return [
        (path, *word)
        for path, content in tracked.contents()
        for word in words_in(f"{path}\n{content.decode('utf-8', 'replace')}")
    ]


def test_no_such_word_is_tracked(found):
    assert not [f"{path}: ...{text}...: write {instead}" for path, text, instead in found if not is_allowed(path, text)]


@pytest.mark.parametrize(("place", "words", "reason"), ALLOWED, ids=[place or words for place, words, _ in ALLOWED])
def test_every_exception_is_used(found, place, words, reason):
    assert any(path.startswith(place) and re.search(words, text) for path, text, _ in found), reason


@pytest.mark.parametrize(
    "planted",
    [
        "nothing was judged",
        "Judge the config",
        "def judged_by(rules):",
        "the baseline holds them back",
        "test_what_is_held_back",
        "# comments that hold\n    # a finding back",
        'f"ignores the key without "\n    f"a word"',
        "NOBODY reads it",
        "somebody's",
        "--fix mended it",
        "a note says so",
        "every value, and who says so",
        "this is no JSON",
        "keys that are no sections",
    ],
)
def test_a_planted_word_is_found(planted):
    assert words_in(planted)


@pytest.mark.parametrize(
    "fine",
    [
        "each rank holds 8 elements",
        "the group gives the values back",
        "we recommended an amendment",
        "there is no GPU",
        "the option is no longer read",
        "prejudged",
        '{"heldBack": 1}',
    ],
)
def test_other_words_are_not(fine):
    assert not words_in(fine)
