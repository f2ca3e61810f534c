"""The pages in other languages say what the English ones say now: all of it, and in the words agreed on."""

from __future__ import annotations

import json
import re
from collections import Counter
from pathlib import Path
from posixpath import basename

import pytest

from ds_lint.commands.explain import explain
from ds_lint.linter import engine  # noqa: F401 - the engine registers the rules
from ds_lint.linter.selection import find
from ds_lint.output.text import width_of
from ds_lint.rule_pages import pages, translations
from ds_lint.rule_pages.languages import LANGUAGES
from tools import top_rules, translatable
from tools.site.words import WORDS
from tools.translatable import DOCUMENTS, Page, by_name, every_page, joined, prose, relinked
from tools.translations import behind, index, index_path, missing, needed, translated

ROOT = Path(__file__).parent.parent
GLOSSARY = ROOT / "docs" / "translating.md"
OWN = {"zh": "[一-鿿]", "ko": "[가-힣]"}  # the characters of a language
CODE = re.compile(r"`[^`]*`")
NUMBER = re.compile(r"\d+(?:[.,]\d+)*")
SPELLED = {"one": "1", "two": "2", "three": "3", "first": "1"}  # what another language may write in digits
QUOTED = re.compile(r'"[^"]*"')
LINK = re.compile(r"\[([^\]]*)\]\(([^)]*)\)")


def glossary():
    """The rows of the glossary."""
    text = GLOSSARY.read_text(encoding="utf-8")
    rows = text[text.index("|---|---|---|\n") :].splitlines()[1:]
    return [[cell.strip(" *") for cell in row.strip("|").split("|")] for row in rows]


PAGES = [(page, language) for language in LANGUAGES for page in translated(language)]
each_page = pytest.mark.parametrize(
    ("page", "language"), [pytest.param(*pair, id=f"{pair[1]}-{pair[0].name}") for pair in PAGES]
)
each_rule = pytest.mark.parametrize(
    ("rule", "language"),
    [
        pytest.param(find(page.name), language, id=f"{language}-{page.name}")
        for page, language in PAGES
        if page.name not in DOCUMENTS
    ],
)
each_language = pytest.mark.parametrize("language", LANGUAGES)


def written(page, language):
    """A translated page as it lies there."""
    return (ROOT / page.path(language)).read_text(encoding="utf-8")


def pairs(page, language):
    """The lines of an English page, each with its translation."""
    return list(zip(page.prose(), prose(written(page, language)), strict=True))


def words_of(line):
    """A line without what stays as it is: code, messages in quotes, addresses."""
    return re.sub(r"https?://\S+", "", QUOTED.sub("", LINK.sub(r"\1", CODE.sub("", line))))


# ------------------------------------------------------------------------------------------------ which, and since when


def test_what_must_be_translated_is():
    assert list(missing()) == [], "docs/translating.md says how"


def test_they_are_sixty_six_rules_and_four_documents():
    assert len(set(top_rules.chosen())) == len(top_rules.chosen()) == 66
    assert [page.name for page in needed()] == [*top_rules.chosen(), *DOCUMENTS]
    assert len(DOCUMENTS) == 4


def test_the_most_found_are_those_of_most_files_by_whoever_loads_them(tmp_path, monkeypatch):
    table = {
        "trainer": {
            "DS101 unknown-key": row(9, 9),
            "DS102 misplaced-key": row(1, 90),
            "DS512 costly": row(50, 50),
        },
        "deepspeed": {"DS102 misplaced-key": row(3, 4), "DS103 removed-key": row(3, 5), "DS104 rare": row(1, 1)},
    }
    (tmp_path / "table.json").write_text(json.dumps(table), encoding="utf-8")
    monkeypatch.setattr(top_rules, "TABLE", tmp_path / "table.json")
    monkeypatch.setattr(top_rules, "FOUND", 3)
    assert top_rules.most_found() == ["DS101", "DS102", "DS103"]


def row(newest, files):
    return {"newest files": newest, "files": files}


@each_page
def test_page_is_not_behind_the_english_one(page, language):
    found = behind(page, language)
    assert found is None, str(found)


@pytest.mark.parametrize("name", ["DS601", "getting-started"])
def test_a_page_that_is_behind_is_told_with_the_lines_that_changed(name, tmp_path, monkeypatch):
    page = by_name(name)
    monkeypatch.setattr(translatable, "ROOT", tmp_path)
    monkeypatch.setattr("tools.translations.ROOT", tmp_path)
    (tmp_path / page.path("zh")).parent.mkdir(parents=True)
    (tmp_path / page.path("zh")).write_text("<!-- translates: 000000 -->\n# DS601: x\n", encoding="utf-8")
    found = behind(page, "zh")
    assert found is not None
    assert found.lines == page.prose()
    assert f"python -m tools.translations --accept {name} --lang zh" in str(found)


# ------------------------------------------------------------------------------------------------------ what they say


@each_page
def test_page_has_the_shape_of_the_english_one(page, language):
    _, _, text = written(page, language).partition("\n")
    assert [*map(shape, filter(None, text.splitlines()))] == [*map(shape, filter(None, page.outline().splitlines()))]


def shape(line):
    """What a line is, and what translations keep of it as it is."""
    if not prose(line):
        return line
    return re.match(r"#+|[*-] |\||", line)[0], line.count("|")


@each_page
def test_line_has_the_code_the_numbers_and_the_links_of_the_english_one(page, language):
    for source, line in pairs(page, language):
        assert codes(line) == codes(source), f"{source}\n{line}"
        assert links(line) == links(source), f"{source}\n{line}"
        assert quotes(line) == quotes(source), f"{source}\n{line}"
        assert numbers(source) <= numbers(line) <= numbers(source) + spelled(source), f"{source}\n{line}"


def codes(line):
    return Counter(CODE.findall(line))


def numbers(line):
    return Counter(NUMBER.findall(CODE.sub("", line)))


def quotes(line):
    return Counter(QUOTED.findall(CODE.sub("", line)))


def spelled(line):
    return Counter(SPELLED[word] for word in re.findall(r"\w+", line.lower()) if word in SPELLED)


def links(line):
    """The pages that a line links to, which are other files in another language, and the code of a rule before each."""
    return Counter((*re.findall(r"^DS\d+$", label), basename(target)) for label, target in LINK.findall(line))


@each_page
def test_line_is_in_its_language(page, language):
    for source, line in pairs(page, language):
        words = re.findall(r"\b[a-z]{2,}\b", words_of(source))
        assert len(words) < 4 or re.search(OWN[language], line), line
        other = next(one for one in LANGUAGES if one != language)
        assert not re.search(OWN[other], line), line


@each_page
def test_line_has_the_words_of_the_glossary(page, language):
    for source, line in pairs(page, language):
        for term, *words in glossary():
            word = words[list(LANGUAGES).index(language)]
            if has(source, term):
                assert word in line, f"{term} is {word}:\n{source}\n{line}"


def has(line, term):
    return re.search(rf"(?<![\w.]){term}(s|ed|ing)?\b(?![.(]?\w)", words_of(line), flags=re.IGNORECASE)


@pytest.mark.parametrize("term", [row[0] for row in glossary()])
def test_every_word_of_the_glossary_is_on_a_page(term):
    assert any(has(line, term) for page in translated("zh") for line in page.prose())


def test_words_without_a_star_are_those_of_the_documents(texts):
    read = "".join(texts.values())
    table = GLOSSARY.read_text(encoding="utf-8").partition("|---|---|---|\n")[2]
    words = {cell.strip() for row in table.splitlines() for cell in row.strip("|").split("|")[1:]}
    assert [word for word in sorted(words) if (word.rstrip(" *") in read) == word.endswith("*")] == []


@each_rule
def test_summary_is_one_sentence(rule, language):
    summary = translations.summary(rule, language)
    assert re.fullmatch("[^。]+。" if language == "zh" else r".+[다요]?\.", summary)


@pytest.mark.parametrize("page", translated("zh"), ids=lambda page: page.name)
def test_chinese_has_chinese_punctuation_and_spaces_around_other_letters(page):
    for line in prose(written(page, "zh")):
        text = CODE.sub("x", QUOTED.sub("x", LINK.sub(r"\1", line)))
        assert not re.search(r"[一-鿿] ?[,;:!?()]", text), line
        assert not re.search(r"[一-鿿][A-Za-z0-9]|[A-Za-z0-9][一-鿿]", text), line


# --------------------------------------------------------------------------------------------------------- as shown


@each_page
def test_page_is_shown_with_the_examples_of_the_english_one(page, language):
    shown = page.shown(language)
    assert shown.startswith("# ")
    assert "<!--" not in shown
    _, kept = translations.outline(page.english)
    assert all(original in shown for original in kept.values())
    assert [block.text for block in pages.blocks(shown)] == [block.text for block in pages.blocks(page.english)]


@each_rule
def test_page_of_a_rule_has_its_title(rule, language):
    assert translations.page(rule, language).startswith(f"# {rule.code}: {rule.name}\n")


def test_outline_keeps_what_is_not_prose():
    text, kept = translations.outline(
        "# DS000: x\n\nOne.\n\n| severity | effect | since |\n|---|---|---|\n| error | rejected | 0.1.0 |\n\n"
        "```json bad\n{}\n```\n\n```findings\n1:1: two\n```\n\nThree.\n\n```json good\n[]\n```\n"
    )
    assert text == (
        "# DS000: x\n\nOne.\n\n| severity | effect | since |\n|---|---|---|\n<!-- row -->\n\n"
        "<!-- example 1 -->\n\nThree.\n\n<!-- example 2 -->\n"
    )
    assert kept == {
        "<!-- row -->": "| error | rejected | 0.1.0 |",
        "<!-- example 1 -->": "```json bad\n{}\n```\n\n```findings\n1:1: two\n```",
        "<!-- example 2 -->": "```json good\n[]\n```",
    }


def test_outline_has_a_line_for_a_paragraph_an_item_and_a_row():
    assert joined(
        "# Title\n\nOne\n*two*.\n<!-- example 1 -->\nThree.\n\n* four\n  [five\n  six](x.md)\n- seven\n1. eight\n"
        "   nine\n\n"
        "| a | b |\n|---|---|\n| c | d |\n"
    ) == (
        "# Title\n\nOne *two*.\n<!-- example 1 -->\nThree.\n\n* four [five six](x.md)\n- seven\n1. eight nine\n\n"
        "| a | b |\n|---|---|\n| c | d |\n"
    )


def test_links_lead_to_translated_pages_where_there_are_some(tmp_path, monkeypatch):
    page = Page("a", "docs/a.md", "[b](guides/b.md#c) [DS1](../rules/DS1-x.md) [DS2](../rules/DS2-y.md) [d](d.md)\n")
    others = [Page("DS1", "rules/DS1-x.md", ""), Page("DS2", "rules/DS2-y.md", ""), Page("d", "docs/d.md", "")]
    monkeypatch.setattr(translatable, "ROOT", tmp_path)
    monkeypatch.setattr(translatable, "every_page", lambda: others)
    for translation in ("rules/zh/DS1-x.md", "docs/zh/d.md"):
        (tmp_path / translation).parent.mkdir(parents=True)
        (tmp_path / translation).touch()
    expected = "[b](../guides/b.md#c) [DS1](../../rules/zh/DS1-x.md) [DS2](../../rules/DS2-y.md) [d](d.md)\n"
    assert relinked(page.english, page, "zh") == relinked(expected, page, "zh") == expected


@each_language
def test_index_is_what_the_tool_would_write(language):
    assert index_path(language).read_text(encoding="utf-8") == index(language)


@each_page
def test_links_lead_to_files_and_to_translated_ones_first(page, language):
    text = written(page, language)
    folder = (ROOT / page.path(language)).parent
    for _, target in LINK.findall(text):
        made = "keys/" in target  # pages that only the site has
        assert made or "://" in target or (folder / target.partition("#")[0]).exists(), target
    assert relinked(text, page, language) == text, "python -m tools.translations --index writes the links"


@each_language
def test_files_are_translated_pages(language):
    files = [path for folder in ("rules", "docs") for path in (ROOT / folder / language).rglob("*.md")]
    expected = [page.path(language) for page in translated(language)]
    assert sorted(path.relative_to(ROOT).as_posix() for path in files) == sorted(
        [*expected, f"rules/{language}/README.md"]
    )
    assert every_page()


@each_language
def test_the_site_and_the_editor_offer_the_language(language):
    name = LANGUAGES[language].name
    site = (ROOT / "mkdocs.yml").read_text(encoding="utf-8")
    assert f"- {{name: {name}, link: {language}/, lang: {language}}}" in site
    assert WORDS[language].keys() == WORDS["zh"].keys()
    editor = (ROOT / "editors" / "vscode" / "src" / "explaining.ts").read_text(encoding="utf-8")
    assert f"{json.dumps(list(LANGUAGES))}.includes(language)" in editor
    names = " | ".join(["English", *(each.name for each in LANGUAGES.values())])
    assert f"| {names} |" in GLOSSARY.read_text(encoding="utf-8")


# ------------------------------------------------------------------------------------------------------------- explain


@each_rule
def test_explain_prints_it_by_code_and_by_name(rule, language, capsys):
    assert explain(rule.code, language) == explain(rule.name, language) == 0
    shown = capsys.readouterr()
    assert shown.out == translations.page(rule, language) * 2
    assert shown.err == ""


def test_explain_takes_the_language_from_the_command_line(run):
    result = run("explain", "--lang", "ko", "stage-as-string", LANG="zh_CN.UTF-8")
    assert (result.returncode, result.stderr) == (0, "")
    assert result.stdout == by_name("DS202").shown("ko")


def test_explain_takes_no_language_from_the_environment(run):
    assert run("explain", "DS202", LANG="zh_CN.UTF-8", LC_ALL="zh_CN.UTF-8").stdout == pages.page(find("DS202"))


@pytest.mark.parametrize(("language", "note"), [("zh", "DS001 还没有中文页面"), ("ko", "DS001의 한국어 페이지가")])
def test_explain_says_in_the_language_that_a_page_is_not_translated(language, note, run):
    result = run("explain", "DS001", "--lang", language)
    assert (result.returncode, result.stdout) == (0, pages.page(find("DS001")))
    assert note in result.stderr
    assert result.stderr.count("\n") == 1


@pytest.mark.parametrize(("language", "note"), [("zh", "键的说明只有英文"), ("ko", "키에 대한 설명은 영어로만")])
def test_explain_says_in_the_language_that_keys_are_english(language, note, run):
    result = run("explain", "--lang", language, "zero_optimization.stage")
    assert result.returncode == 0
    assert result.stdout == run("explain", "zero_optimization.stage").stdout
    assert note in result.stderr


def test_explain_knows_no_other_language(run):
    assert run("explain", "--lang", "fr", "DS101").returncode == 2


def test_explain_prints_english_where_the_language_cannot_be_shown(run):
    result = run("explain", "--lang", "zh", "DS101", PYTHONIOENCODING="ascii")
    assert (result.returncode, result.stdout) == (0, pages.page(find("DS101")))
    assert "PYTHONIOENCODING=utf-8" in result.stderr


@each_rule
@pytest.mark.parametrize("columns", [80, 200])
def test_explain_fits_the_terminal(rule, language, columns, capsys, monkeypatch):
    monkeypatch.setenv("COLUMNS", str(columns))
    explain(rule.code, language)
    lines = [line for line in capsys.readouterr().out.splitlines() if re.search(OWN[language], line)]
    assert lines
    assert [line for line in lines if width_of(line) > columns] == []
