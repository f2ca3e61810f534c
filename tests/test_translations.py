"""The pages in other languages say what the English ones say now: all of it, and in the words agreed on."""

from __future__ import annotations

import json
import re
from collections import Counter
from pathlib import Path

import pytest

from ds_lint.commands.explain import explain
from ds_lint.knowledge import resources
from ds_lint.linter import engine  # noqa: F401 - the engine registers the rules
from ds_lint.linter.engine import every_rule
from ds_lint.output.text import width_of
from ds_lint.rule_pages import pages, translations
from ds_lint.rule_pages.languages import LANGUAGES
from tools import top_rules
from tools.translations import behind, by_code, english, index, index_path, prose, translated

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


each_page = pytest.mark.parametrize(
    ("rule", "language"),
    [
        pytest.param(rule, language, id=f"{language}-{rule.code}")
        for language in LANGUAGES
        for rule in translated(language)
    ],
)
each_language = pytest.mark.parametrize("language", LANGUAGES)


def written(rule, language):
    """A translated page as it lies there."""
    return Path(translations.path(rule, language)).read_text(encoding="utf-8")


def pairs(rule, language):
    """The lines of an English page, each with its translation."""
    return list(zip(english(rule), prose(written(rule, language)), strict=True))


def words_of(line):
    """A line without what stays as it is: code, messages in quotes, addresses."""
    return re.sub(r"https?://\S+", "", QUOTED.sub("", LINK.sub(r"\1", CODE.sub("", line))))


# ------------------------------------------------------------------------------------------------ which, and since when


@each_language
def test_the_rules_that_are_found_most_and_cost_most_are_translated(language):
    codes = {rule.code for rule in translated(language)}
    assert [code for code in top_rules.chosen() if code not in codes] == [], "python -m tools.translations says how"


def test_they_are_twenty_five():
    assert len(set(top_rules.chosen())) == 25
    assert all(by_code(code).code == code for code in top_rules.chosen())


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
def test_page_is_not_behind_the_english_one(rule, language):
    found = behind(rule, language)
    assert found is None, str(found)


def test_a_page_that_is_behind_is_told_with_the_lines_that_changed(tmp_path, monkeypatch):
    rule = by_code("DS601")
    old = "<!-- translates: 000000 -->\n# DS601: zero-section-missing\n"
    (tmp_path / "DS601.md").write_text(old, encoding="utf-8")
    monkeypatch.setattr(translations, "path", lambda rule, language: str(tmp_path / "DS601.md"))
    found = behind(rule, "zh")
    assert found is not None
    assert found.lines == english(rule)
    assert "python -m tools.translations --accept DS601 --lang zh" in str(found)


# ------------------------------------------------------------------------------------------------------ what they say


@each_page
def test_page_has_the_shape_of_the_english_one(rule, language):
    outline, _ = translations.outline(pages.page(rule))
    _, _, text = written(rule, language).partition("\n")
    assert [shape(line) for line in text.splitlines() if line] == [shape(line) for line in outline.splitlines() if line]


def shape(line):
    """What a line is, and what translations keep of it as it is."""
    if line.startswith(("<!--", "|---", "# ")):
        return line
    return re.match(r"#+|-|\||", line)[0], line.count("|")


@each_page
def test_line_has_the_code_the_numbers_and_the_links_of_the_english_one(rule, language):
    for source, line in pairs(rule, language):
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
    return Counter((label, target.removeprefix("../")) for label, target in LINK.findall(line))


@each_page
def test_line_is_in_its_language(rule, language):
    for source, line in pairs(rule, language):
        words = re.findall(r"\b[a-z]{2,}\b", words_of(source))
        assert len(words) < 4 or re.search(OWN[language], line), line
        other = next(one for one in LANGUAGES if one != language)
        assert not re.search(OWN[other], line), line


@each_page
def test_line_has_the_words_of_the_glossary(rule, language):
    for source, line in pairs(rule, language):
        for term, *words in glossary():
            word = words[list(LANGUAGES).index(language)]
            if has(source, term):
                assert word in line, f"{term} is {word}:\n{source}\n{line}"


def has(line, term):
    return re.search(rf"(?<![\w.]){term}(s|ed|ing)?\b(?![.(]?\w)", words_of(line), flags=re.IGNORECASE)


@pytest.mark.parametrize("term", [row[0] for row in glossary()])
def test_every_word_of_the_glossary_is_on_a_page(term):
    assert any(has(line, term) for rule in translated("zh") for line in english(rule))


def test_words_without_a_star_are_those_of_the_documents(texts):
    read = "".join(texts.values())
    table = GLOSSARY.read_text(encoding="utf-8").partition("|---|---|---|\n")[2]
    words = {cell.strip() for row in table.splitlines() for cell in row.strip("|").split("|")[1:]}
    assert [word for word in sorted(words) if (word.rstrip(" *") in read) == word.endswith("*")] == []


@each_page
def test_summary_is_one_sentence(rule, language):
    summary = translations.summary(rule, language)
    assert re.fullmatch("[^。]+。" if language == "zh" else r".+[다요]?\.", summary)


@pytest.mark.parametrize("rule", translated("zh"), ids=lambda rule: rule.code)
def test_chinese_has_chinese_punctuation_and_spaces_around_other_letters(rule):
    for line in prose(written(rule, "zh")):
        text = CODE.sub("x", QUOTED.sub("x", LINK.sub(r"\1", line)))
        assert not re.search(r"[一-鿿] ?[,;:!?()]", text), line
        assert not re.search(r"[一-鿿][A-Za-z0-9]|[A-Za-z0-9][一-鿿]", text), line


# --------------------------------------------------------------------------------------------------------- as shown


@each_page
def test_page_is_shown_with_the_examples_of_the_english_one(rule, language):
    shown = translations.page(rule, language)
    assert shown.startswith(f"# {rule.code}: {rule.name}\n")
    assert "<!--" not in shown
    _, kept = translations.outline(pages.page(rule))
    assert all(original in shown for original in kept.values())
    assert [example.config for example in pages.examples(shown)] == [
        example.config for example in pages.examples(pages.page(rule))
    ]


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


@each_language
def test_index_is_what_the_tool_would_write(language):
    assert index_path(language).read_text(encoding="utf-8") == index(language)


@each_language
def test_links_lead_somewhere(language):
    folder = Path(resources.path("rules", language))
    for path in folder.glob("*.md"):
        for _, target in LINK.findall(path.read_text(encoding="utf-8")):
            assert "://" in target or (path.parent / target).exists(), f"{path.name}: {target}"


@each_language
def test_a_translated_page_links_to_translated_pages(language):
    for rule in translated(language):
        for label, target in LINK.findall(written(rule, language)):
            if target.startswith("../"):
                assert translations.page(by_code(label), language) is None, f"{rule.code}: {target}"


@each_language
def test_files_are_pages_of_rules(language):
    names = {path.name for path in Path(resources.path("rules", language)).iterdir()}
    assert names == {"README.md"} | {f"{rule.code}-{rule.name}.md" for rule in translated(language)}
    assert every_rule()


@each_language
def test_the_site_and_the_editor_offer_the_language(language):
    name = LANGUAGES[language].name
    site = (ROOT / "mkdocs.yml").read_text(encoding="utf-8")
    assert f"- {{name: {name}, link: {language}/, lang: {language}}}" in site
    assert f"- {name}:\n          - {language}/index.md" in site
    assert f"lang: [en, {', '.join(LANGUAGES)}]" in site
    editor = (ROOT / "editors" / "vscode" / "src" / "explaining.ts").read_text(encoding="utf-8")
    assert f"{json.dumps(list(LANGUAGES))}.includes(language)" in editor
    names = " | ".join(["English", *(each.name for each in LANGUAGES.values())])
    assert f"| {names} |" in GLOSSARY.read_text(encoding="utf-8")


# ------------------------------------------------------------------------------------------------------------- explain


@each_page
def test_explain_prints_it_by_code_and_by_name(rule, language, capsys):
    assert explain(rule.code, language) == explain(rule.name, language) == 0
    shown = capsys.readouterr()
    assert shown.out == translations.page(rule, language) * 2
    assert shown.err == ""


def test_explain_takes_the_language_from_the_command_line(run):
    result = run("explain", "--lang", "ko", "stage-as-string", LANG="zh_CN.UTF-8")
    assert (result.returncode, result.stderr) == (0, "")
    assert result.stdout == translations.page(by_code("DS202"), "ko")


def test_explain_takes_no_language_from_the_environment(run):
    assert run("explain", "DS202", LANG="zh_CN.UTF-8", LC_ALL="zh_CN.UTF-8").stdout == pages.page(by_code("DS202"))


@pytest.mark.parametrize(("language", "note"), [("zh", "DS001 还没有中文页面"), ("ko", "DS001의 한국어 페이지가")])
def test_explain_says_in_the_language_that_a_page_is_not_translated(language, note, run):
    result = run("explain", "DS001", "--lang", language)
    assert (result.returncode, result.stdout) == (0, pages.page(by_code("DS001")))
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
    assert (result.returncode, result.stdout) == (0, pages.page(by_code("DS101")))
    assert "PYTHONIOENCODING=utf-8" in result.stderr


@each_page
@pytest.mark.parametrize("columns", [80, 200])
def test_explain_fits_the_terminal(rule, language, columns, capsys, monkeypatch):
    monkeypatch.setenv("COLUMNS", str(columns))
    explain(rule.code, language)
    lines = [line for line in capsys.readouterr().out.splitlines() if re.search(OWN[language], line)]
    assert lines
    assert [line for line in lines if width_of(line) > columns] == []
