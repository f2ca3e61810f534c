"""Configs in Markdown: which blocks there are, what is read in them, and that any text gives an answer."""

from __future__ import annotations

import glob
import os

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from ds_lint.source import markdown
from ds_lint.source.markdown_blocks import read_markdown
from ds_lint.source.tree import plain, walk

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
CONFIG = '{"train_micro_batch_size_per_gpu": 8, "zero_optimization": {"stage": 2}}'


def only(text):
    [document] = markdown.read(text, "a.md")
    return document


def block(content, info="json"):
    return only(f"# Title\n\n```{info}\n{content}\n```\n")


def fences_of(text):
    library = pytest.importorskip("markdown_it")
    return [token.content for token in library.MarkdownIt().parse(text) if token.type == "fence"]


@pytest.mark.parametrize(
    "text",
    [
        f"```json\n{CONFIG}\n```\n",
        f"~~~json\n{CONFIG}\n~~~\n",
        f"````json\n{CONFIG}\n```\n````\n",
        f'``` json title="a.json"\n{CONFIG}\n```   \n',
        f"* list\n\n  ```json\n  {CONFIG}\n  ```\n",
        f"1. list\n\n   ~~~json\n   {CONFIG}\n   ~~~\n",
        f"> ```json\n> {CONFIG}\n> ```\n",
        f"> ```json\n> {CONFIG}\n\n{CONFIG}\n",
        f"> > ```json\n> > {CONFIG}\n> > ```\n",
        f"- ```json\n  {CONFIG}\n  ```\n",
        f"```json\n{CONFIG}\n",
        f"```json\n    ```\n{CONFIG}\n```\n",
        f"```json\n{CONFIG}\n~~~\n```\n{CONFIG}\n```bash\n```\n",
        f"Use ```inline``` code.\n\n```json\n{CONFIG}\n```\n",
    ],
)  # fmt: skip
def test_the_blocks_are_those_of_commonmark(text):
    found = read_markdown(text).blocks
    assert [one.places.text for one in found] == fences_of(text)
    for one in found:
        for offset, sign in enumerate(one.places.text):
            assert text[one.places.span(markdown.Span(offset, offset + 1)).start] == sign


def test_the_blocks_of_this_project_are_those_of_commonmark():
    pages = [
        *glob.glob(f"{ROOT}/*.md"),
        *glob.glob(f"{ROOT}/docs/**/*.md", recursive=True),
        *glob.glob(f"{ROOT}/rules/*.md"),
    ]
    assert len(pages) > 100
    for page in pages:
        with open(page, encoding="utf-8") as file:
            text = file.read()
        assert [one.places.text.strip("\n") for one in read_markdown(text).blocks] == [
            one.strip("\n") for one in fences_of(text)
        ]


@pytest.mark.parametrize("info", ["json", "jsonc", "hjson", "json5", "JSON", "{.json}", "json title='a'", ""])
def test_a_block_of_json_is_read(info):
    document = block(CONFIG, info)
    assert plain(document.root)["zero_optimization"] == {"stage": 2}
    assert (document.language, document.index, document.is_fragment) == ("markdown", 0, False)
    assert document.text[document.root.span.start : document.root.span.end] == CONFIG


@pytest.mark.parametrize("info", ["text", "console", "diff", "js"])
def test_a_block_of_another_language_is_not(info):
    assert markdown.read(f"```{info}\n{CONFIG}\n```\n", "a.md") == []


@pytest.mark.parametrize(
    "text",
    [
        CONFIG,
        f"    {CONFIG}\n",
        f"<!--\n```json\n{CONFIG}\n```\n-->\n",
        '```\nzero_optimization: {"stage": 2}\n```\n',
        '```json\n{"name": "x", "gradient_clipping": 1}\n```\n',
    ],
)
def test_what_is_no_block_with_a_config_is_passed_over(text):
    assert markdown.read(text, "a.md") == []


def test_python_and_shell_are_read_by_their_readers():
    document = block(f"import deepspeed\n\ndeepspeed.initialize(model=model, config={CONFIG})", "python")
    assert (document.stack, document.is_python, document.is_dict, document.is_fragment) == (
        "deepspeed",
        True,
        True,
        False,
    )
    assert document.text[document.root.span.start : document.root.span.end] == CONFIG
    document = only(
        "1. Write it:\n\n   ```bash\n   STAGE=3\n   cat <<EOF > ds.json\n"
        f"   {CONFIG.replace('2', '$STAGE')}\n   EOF\n   ```\n"
    )
    assert plain(document.root)["zero_optimization"] == {"stage": 3}
    assert [document.text[span.start : span.end] for span in document.stand_ins] == ["$STAGE"]


@pytest.mark.parametrize(
    ("content", "expected"),
    [
        ('{"zero_optimization": {"stage": 2}, ...}', {"zero_optimization": {"stage": 2}}),
        ('{\n  ...\n  "zero_optimization": {"stage": 2, ...},\n  …\n}', {"zero_optimization": {"stage": 2}}),
        ('{"zero_optimization": {"stage": 2, "..."\n"stag": 3}}', {"zero_optimization": {"stage": 2, "stag": 3}}),
        ('"zero_optimization": {\n  "stage": 2\n},', {"zero_optimization": {"stage": 2}}),
        ('{"zero_optimization": {}, // ...\n "fp16": {...}}', {"zero_optimization": {}, "fp16": {}}),
        ('ds_config.json\n{"zero_optimization": {"stage": 2}}', {"zero_optimization": {"stage": 2}}),
        ('{"zero_optimization": {"stage": 2', {"zero_optimization": {"stage": 2}}),
        ('{"zero_optimization": {}}\n{"zero_optimization": {"stage": 3}}', {"zero_optimization": {}}),
    ],
)  # fmt: skip
def test_an_illustration_is_a_fragment_without_mistakes_of_syntax(content, expected):
    document = block(content)
    assert plain(document.root) == expected
    assert document.is_fragment
    assert document.issues == []


@pytest.mark.parametrize(
    "value",
    ["...", "…", '"..."', "[true|false]", "true | false", "[0|1|2|3]", '"[cpu|nvme]"', '"cpu|nvme"', "<number>"],
)
def test_a_value_that_is_not_said_is_unknown(value):
    document = block(f'{{"zero_optimization": {{"stage": {value}, "overlap_comm": true}}}}')
    assert [(path[-1], member.value.kind) for path, member in walk(document.root)] == [
        ("zero_optimization", "object"), ("stage", "template"), ("overlap_comm", "boolean"),
    ]  # fmt: skip
    assert document.issues == []


@pytest.mark.parametrize(
    ("content", "is_fragment"),
    [
        ('{"zero_optimization": {"stage": 2}}', True),
        ('{"train_micro_batch_size_per_gpu": 8}', True),
        ('{"train_batch_size": 8, "zero_optimization": {"stage": 2}}', False),
        ('{"train_micro_batch_size_per_gpu": 8, "bf16": {"enabled": true}}', False),
    ],
)
def test_a_config_is_complete_with_a_batch_size_and_a_section(content, is_fragment):
    assert block(content).is_fragment == is_fragment


def test_mistakes_of_syntax_are_those_of_a_block_of_strict_json():
    content = CONFIG.replace("}}", ",}} // all of it")
    assert [issue.kind for issue in block(content).issues] == ["trailing-comma"]
    assert block(content, "jsonc").issues == []


def test_comments_are_those_of_html_and_of_the_config():
    text = f"<!-- one\ntwo -->\n```jsonc\n// three\n{CONFIG}\n```\n<!-- four --> <!-- five -->\n"
    document = only(text)
    assert [text[span.start : span.end] for span in document.comments] == [
        "<!-- one\ntwo -->",
        "// three",
        "<!-- four -->",
    ]


@settings(max_examples=150)
@given(
    st.one_of(
        st.text(),
        st.lists(
            st.sampled_from([
                "```", "````", "~~~", "json", "bash", "python", "\n", " ", "\t", "> ", "- ", "1. ",
                CONFIG, "...", "\u2026", '"..."',
                "<!--", "-->", "//", "|", "[a|b]", "{", "}", ":", ",", '"', "'", "\r\n",
                "cat <<E\n", "E\n", "config = ", "\x0c", "\u2028",
            ])
        ).map("".join),
    )
)  # fmt: skip
@example("> " * 5000 + "```json\n" + CONFIG)
@example("```json\n" * 5000)
@example("```json\n{" + '"zero_optimization": {}, ... ' * 2000 + "}\n```")
@example("<!--" * 5000 + CONFIG)
def test_any_text_gives_an_answer(text):
    for document in markdown.read(text, "a.md"):
        for _, member in walk(document.root):
            assert 0 <= member.key_span.start <= member.key_span.end <= len(text)
            assert 0 <= member.value.span.start <= member.value.span.end <= len(text)
