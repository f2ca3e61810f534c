"""Configs in shell scripts: what is read is what bash writes, and any text gives an answer.

Each script runs in an empty folder and writes ``ds.json``, or ``0.json`` and ``1.json`` in the order in which the two
stand in the script. A value that is unknown to the reader may be anything.
"""

from __future__ import annotations

import contextlib
import importlib
import json
import os
import re
import shutil
import signal
import subprocess
import sys

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from ds_lint.source import shell
from ds_lint.source.dialect import as_hjson_reads
from ds_lint.source.shell import syntax
from ds_lint.source.tree import plain, walk

BODY = '{"train_micro_batch_size_per_gpu": 8, "zero_optimization": {"stage": 2}}'

with open(os.path.join(os.path.dirname(__file__), "shell_scripts.md"), encoding="utf-8") as file:
    _, KNOWN, UNKNOWN = (
        dict(re.findall(r"^### ([^\n]+)\n\n~~~~bash\n(.*?)^~~~~$", part, re.DOTALL | re.MULTILINE))
        for part in file.read().split("\n## ")
    )
KNOWN["carriage returns"] = f"cat > ds.json <<EOF\r\n{BODY}\r\nEOF\r\n"

needs_bash = pytest.mark.skipif(shutil.which("bash") is None, reason="no bash here")


def written_by_bash(script, folder):
    """The configs that a script writes, in the order of their names."""
    with open(os.path.join(folder, "script.sh"), "w", encoding="utf-8", newline="") as file:
        file.write(script)
    environment = {"PATH": os.environ["PATH"], "HOME": str(folder), "LC_ALL": "C.UTF-8"}
    environment["FUNCNEST"] = "1"  # a generated function that calls itself would fill the machine with processes
    command = ["bash", "script.sh"]
    quiet = {"stdin": subprocess.DEVNULL, "stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL}
    with subprocess.Popen(command, cwd=folder, env=environment, start_new_session=True, **quiet) as bash:
        try:
            bash.wait(20)
        finally:  # whatever the script has started ends with it
            with contextlib.suppress(ProcessLookupError):
                os.killpg(bash.pid, signal.SIGKILL)
    found = []
    for name in sorted(os.listdir(folder)):
        if name in ("ds.json", "0.json", "1.json"):
            with open(os.path.join(folder, name), encoding="utf-8") as file:
                found.append(json.load(file, strict=False))
    return found


def agrees(node, value):
    """Whether a tree says what bash has written, apart from what it says is unknown."""
    if node.kind == "template":
        return True
    if node.kind == "object":
        return node.kind == "object" and list(value) == [member.key for member in node.members] and all(
            agrees(member.value, value[member.key]) for member in node.members
        )  # fmt: skip
    if node.kind == "array":
        return len(value) == len(node.items) and all(map(agrees, node.items, value))
    return type(value) is type(node.value) and value == node.value


@needs_bash
@pytest.mark.parametrize("name", KNOWN)
def test_a_config_is_what_bash_writes(name, tmp_path):
    script = KNOWN[name]
    documents = shell.read(script, "a.sh")
    written = written_by_bash(script, tmp_path)
    assert [plain(document.root) for document in documents] == written
    assert written
    for index, document in enumerate(documents):
        assert (document.index, document.language, document.text) == (index, "shell", script)
        if not document.issues:
            assert plain(as_hjson_reads(document)) == plain(document.root)


@needs_bash
@pytest.mark.parametrize("name", UNKNOWN)
def test_what_is_unknown_is_not_guessed(name, tmp_path):
    script = UNKNOWN[name]
    [document] = shell.read(script, "a.sh")
    [written] = written_by_bash(script, tmp_path)
    assert agrees(document.root, written)
    assert any(member.value.kind == "template" for _, member in walk(document.root))


@pytest.mark.parametrize(
    "script",
    [
        "MB=8\nif false; then\n{}fi\nMB=4\n",
        "MB=8\nif true; then :; else\n{}fi\nMB=4\n",
        "STAGE=2 MB=8\ncase $STAGE in 3)\n{};; esac\nMB=4\n",
        "MB=8\nfalse && {{\n{}}}\nMB=4\n",
        "MB=8\nexit\n{}",
        "MB=8\nwhile [ $# -gt 0 ]; do shift\n{}done\nMB=4\n",
        "MB=8\nfor i in; do\n{}done\nMB=4\n",
        "write() {{\n{}}}\nMB=8\n",
        "MB=8\nif false; then\nwrite() {{\n{}}}\nfi\n",
    ],
)
def test_what_does_not_run_is_read_as_it_would_run(script):
    [document] = shell.read(script.format('cat > ds.json <<EOF\n{"train_batch_size": $MB, "fp16": {}}\nEOF\n'), "a.sh")
    assert plain(document.root) == {"train_batch_size": 8, "fp16": {}}


@pytest.mark.parametrize(
    "endless",
    ["f() { f; }\nf\n", "for i in {1..99}; do for j in {1..99}; do for k in {1..99}; do :; done; done; done\n",
     "A=" + 200_000 * "x" + "\n"],
    ids=["function", "loops", "word"],
)  # fmt: skip
def test_a_script_that_does_more_than_scripts_do_keeps_its_configs(endless):
    [document] = shell.read(f'MB=8\n{endless}cat <<EOF\n{{"train_batch_size": $MB, "fp16": {{}}}}\nEOF\nMB=4\n', "a.sh")
    assert document.root.get("train_batch_size").kind == "template"


WORDS = st.sampled_from(
    ["1", "8", "16", "0.5", "x", "", "a b", "$A", "${B}", "$A$B", "${C:-4}", "${A:-$B}", "\\$", "'"]
)
NAMES = st.sampled_from("ABC")
VALUES = st.one_of(
    WORDS.map(lambda word: f'"{word}"'),
    st.sampled_from(["1", "8", "'a b'", "'$A'", "$((A + 2))", "$((2 * B - 1))", "$(echo 3)", "$A",
                     "x\\ y", "${C:-7}", "~"]),
)  # fmt: skip
ASSIGNMENTS = st.builds("{}={}".format, NAMES, VALUES)
STATEMENTS = st.recursive(
    st.one_of(
        ASSIGNMENTS,
        ASSIGNMENTS.map("export {}".format),
        st.sampled_from(["true", "read A <<< 5", ": ${B:=6}", "unset C",
                         "((A = 9))", "f", "A+=1", "true && B=2", "false || C=3"]),
    ),
    lambda inner: st.one_of(
        st.lists(inner, min_size=1, max_size=3).map(lambda lines: "if true; then\n" + "\n".join(lines) + "\nfi"),
        st.lists(inner, min_size=1, max_size=3).map(lambda lines: "for i in 1 2; do\n" + "\n".join(lines) + "\ndone"),
        st.lists(inner, min_size=1, max_size=3).map(lambda lines: "f() {\n" + "\n".join(lines) + "\n}"),
        st.lists(inner, min_size=1, max_size=2).map(lambda lines: "(\n" + "\n".join(lines) + "\n)"),
    ),
    max_leaves=5,
)  # fmt: skip
EXPANSIONS = st.sampled_from(
    ["$A", "${B}", "$C", "${A:-1}", "${C-2}", "$((A * 2))", "\\$A", "$(echo x)", "`echo y`", "$", "5"]
)


@st.composite
def scripts(draw):
    before = "\n".join(draw(st.lists(STATEMENTS, max_size=5)))
    values = [f'"{index}": "{value}"' for index, value in enumerate(draw(st.lists(EXPANSIONS, min_size=1, max_size=4)))]
    tabs = draw(st.booleans())
    delimiter = draw(st.sampled_from(["EOF", "'EOF'", '"EOF"', "\\EOF"]))
    indent = "\t" if tabs else draw(st.sampled_from(["", "  "]))
    lines = ["{", f'{indent}"zero_optimization": {{}},', *(f"{indent}{value}," for value in values), '"z": 1', "}"]
    heredoc = "\n".join([f"cat {'<<-' if tabs else '<<'}{delimiter} > ds.json", *lines, indent * tabs + "EOF"])
    where = draw(
        st.sampled_from(["{}", "if true; then\n{}\nfi", "f() {{\n{}\n}}\nC=1\nf", "for i in 1 2; do\n{}\nB=4\ndone"])
    )
    return f"{before}\n{where.format(heredoc)}\n"


@needs_bash
@settings(max_examples=60)
@given(script=scripts())
def test_generated_scripts_are_read_as_bash_runs_them(script, tmp_path_factory):
    folder = tmp_path_factory.mktemp("script")
    [document] = shell.read(script, "a.sh")
    try:
        found = written_by_bash(script, folder)
    except json.JSONDecodeError:  # a value with a quote in it
        return
    assert all(agrees(document.root, written) for written in found)  # none if bash cannot compute a value


@pytest.mark.parametrize(
    "script",
    [
        "ruby <<EOF\nconfig = {'train_micro_batch_size_per_gpu': 8, 'zero_optimization': {}}\nEOF\n",
        "jq -n '{train_micro_batch_size_per_gpu: 8, zero_optimization: {stage: 2}}' > ds.json\n",
        f"# cat <<EOF > ds.json\n# {BODY}\n# EOF\n",
        "cat <<EOF\nUsage: train_micro_batch_size_per_gpu {zero_optimization: x}\nEOF\n",
        "f() { train_micro_batch_size_per_gpu=1; zero_optimization=2; }\n",
        'echo {"train_micro_batch_size_per_gpu": 8, "zero_optimization": {}} > ds.json\n',
    ],
)
def test_what_is_no_config_is_passed_over(script):
    assert shell.read(script, "a.sh") == []


@pytest.mark.parametrize(
    "script",
    [
        "deepspeed train.py --train_batch_size 8 --gradient_clipping 1.0 --deepspeed ds.json\n",
        "cat <<EOF\nUsage: train_batch_size gradient_clipping {zero_optimization}\nEOF\n",
    ],
)
def test_a_script_that_writes_no_config_is_not_parsed(script, monkeypatch):
    monkeypatch.setitem(sys.modules, "tree_sitter", None)  # then importing it raises
    assert shell.read(script, "a.sh") == []


@pytest.mark.parametrize(
    ("content", "is_fragment"),
    [
        ('{"zero_optimization": {}, "x": $A, "y": [$B, "$C"]}', False),
        ('{"zero_optimization": {"$A": 1}, "x": 1}', True),
        ('{"zero_optimization": {},\n$ZERO\n$MORE "x": 1}', True),
        ('{"zero_optimization": {"stage": 2, $MORE}}', True),
        ('{"zero_optimization": {"stage": 2}$MORE}', True),
        ('{"zero_optimization": {"stage": 2}$EMPTY}', False),
        ('{"zero_optimization": {"stage": 2}$KNOWN}', False),
    ],
)
def test_what_may_become_members_leaves_a_fragment(content, is_fragment):
    [document] = shell.read(f"EMPTY=\nKNOWN=', \"x\": 1'\ncat <<EOF > ds.json\n{content}\nEOF\n", "a.sh")
    assert document.is_fragment == is_fragment
    assert not any("$" in member.key for _, member in walk(document.root))
    assert {issue.kind for issue in document.issues} <= {"template"}


def test_spans_are_those_of_the_script():
    script = (
        'LR=3e-5\ncat <<EOF > ds.json\n{"zero_optimization": {}, "x": "a\\$-$LR",\n "fp16": {"enabled": tru}}\nEOF\n'
    )
    [document] = shell.read(script, "a.sh")

    def written(node):
        return script[node.span.start : node.span.end]

    assert written(document.root) == script[script.index("{") : script.index("\nEOF")]
    assert written(document.root.get("x")) == '"a\\$-$LR"'
    assert [script[span.start : span.end] for span in document.stand_ins] == ["\\$", "$LR"]
    assert [script[issue.span.start : issue.span.end] for issue in document.issues] == ["tru"]
    assert document.position(document.root.get("fp16").span.start) == (4, 10)


@settings(max_examples=150)
@given(
    st.one_of(
        st.text(),
        st.lists(
            st.sampled_from([
                "<<EOF", "<<-'E'", "\nEOF\n", BODY, "$(", ")", "${", "}", "`",
                "'", '"', "\\", "\n", " ", "((", "))", "case x in", "a)",
                ";;", "esac", "if", "then", "fi", "A=", "A=(", "[[", "]]", "#",
                 "&&", "|", "$A", "$((", "<(", "f()", "{", "for", "\0", "\r",
            ])
        ).map("".join),
    )
)  # fmt: skip
@example("$(" * 3000)
@example("${a" * 3000)
@example("<<A " * 3000 + "\n" + BODY)
@example("A=$A$A$A$A\n" * 3000 + f'cat <<E\n{BODY[:-1]}, "x": "$A"}}\nE\n')
@example("if x; then " * 3000)
def test_any_text_gives_an_answer(text):
    for document in shell.read(text, "a.sh"):
        for _, member in walk(document.root):
            assert 0 <= member.key_span.start <= member.key_span.end <= len(text)
            assert 0 <= member.value.span.start <= member.value.span.end <= len(text)


def test_the_grammar_is_loaded_without_what_its_package_imports():
    program = "import sys; from ds_lint.source.shell.syntax import parse; print(parse('echo').kind)\n"
    program += "print('importlib.resources' in sys.modules)"
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert done.stdout.split() == ["program", "False"]


def test_a_grammar_of_another_shape_is_imported(monkeypatch):
    package = importlib.import_module("tree_sitter_bash")
    monkeypatch.setattr("importlib.machinery.PathFinder.find_spec", lambda *_: None)
    assert syntax._grammar() is package
