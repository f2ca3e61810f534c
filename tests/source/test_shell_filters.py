"""What small programs make of a text: as the programs of this machine do."""

from __future__ import annotations

import shutil
import subprocess

import pytest

from ds_lint.source.shell.filters import filtered

GPUS, LINES, TABLE = "0,1,2,3\n", "b\na\nb\n10\n9\n", "one two three\nfour five\n"


@pytest.mark.parametrize(
    ("words", "text"),
    [
        (["wc", "-l"], LINES),
        (["wc", "-w"], TABLE),
        (["wc", "-c"], GPUS),
        (["tr", ",", "\\n"], GPUS),
        (["tr", ",", " "], GPUS),
        (["tr", "a-z", "A-Z"], TABLE),
        (["tr", "[:upper:]", "[:lower:]"], "LLaMA\n"),
        (["tr", "-d", ","], GPUS),
        (["tr", "-d", "\\n"], LINES),
        (["tr", "-s", " "], "a   b  c\n"),
        (["cut", "-d,", "-f1"], GPUS),
        (["cut", "-d", ",", "-f", "2-3"], GPUS),
        (["cut", "-d", " ", "-f2,3"], TABLE),
        (["cut", "-c", "1-3"], TABLE),
        (["head", "-n", "1"], LINES),
        (["head", "-2"], LINES),
        (["tail", "-n1"], LINES),
        (["awk", "-F,", "{print NF}"], GPUS),
        (["awk", "-F", ",", "{print $NF}"], GPUS),
        (["awk", "{print $2}"], TABLE),
        (["awk", "{ print $0 }"], TABLE),
        (["sed", "s/,/ /g"], GPUS),
        (["sed", "s|,|/|"], GPUS),
        (["sed", "-e", "s/\\./_/g"], "a.b.c\n"),
        (["sort", "-u"], LINES),
        (["sort", "-n"], "10\n9\n8\n"),
        (["grep", "-o", ","], GPUS),
        (["grep", "-c", "b"], LINES),
        (["grep", "-v", "b"], LINES),
        (["grep", "five"], TABLE),
        (["xargs"], TABLE),
        (["cat"], TABLE),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, list) else "",
)
def test_a_program_makes_of_a_text_what_the_real_one_does(words, text):
    if shutil.which(words[0]) is None:
        pytest.skip(f"there is no {words[0]}")
    environment = {"PATH": "/usr/bin:/bin", "LC_ALL": "C"}
    ran = subprocess.run(words, input=text, env=environment, capture_output=True, text=True, check=False)
    assert filtered(words, text) == ran.stdout


@pytest.mark.parametrize(
    "words",
    [
        *(["tr", "-c", "a", "b"], ["cut", "-z"], ["sed", "s/a.*b/c/"], ["sed", "-n", "1p"], ["awk", "NR==1"]),
        *(["grep", "^a"], ["sort", "-k2"], ["python3"], ["head", "-c", "3"], ["wc", "-l", "file"], ["jq", "."]),
    ],
    ids=" ".join,
)
def test_what_a_program_does_otherwise_is_unknown(words):
    assert filtered(words, LINES) is None
